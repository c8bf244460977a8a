/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_orders.c - carries out the driver's orders to try other hosts, and to check this one.
 *
 * Before the plan:
 *   {"t":"probe", …}     probe these hosts (probe.h). With "preflight":{"ms":N, "hook":PATH} also check this host, for at
 *                        most that time, and run the site's program, if one is named (preflight.h). The answer is the
 *                        report of the probe, with "preflight":{…} (lib/host/host_check.h)
 *   {"t":"measure", …}   measure how fast bytes arrive from a host (probe.h); the answer is {"t":"measured", …}
 * After it:
 *   {"t":"try", "n":I, "a":[ADDR,…], "p":PORT, "ms":N}   the driver hears nothing from this host: does it answer here?
 *                        The answer is {"t":"tried", "n":I, "answered":BOOL}
 */
#include "agent.h"
#include "lib/net/host_try.h"
#include "preflight.h"
#include "probe.h"

#include <stdlib.h>

struct prober {
	struct hvd_agent *agent;
	struct hvd_probe *probe;            /* NULL: this host does not, or no longer, answer probes */
	struct hvd_child_answer *preflight; /* checks this host, or has checked it; NULL: this was not ordered */
	json_t *check;                      /* its result; NULL: there is none yet */
	json_t *report;                     /* of the probe, while the check goes on */
	struct hvd_host_try *trying;        /* NULL: no host is tried */
	uint32_t tried;                     /* the number of the host that is */
};

/* ---- before the plan ---- */

/* The report waits for the result of the check. */
static void send_report(struct prober *prober)
{
	if (!prober->report || (prober->preflight && !prober->check))
		return;
	if (prober->check)
		json_object_set(prober->report, "preflight", prober->check);
	hvd_driver_client_send(prober->agent->driver, prober->report);
	prober->report = NULL;
}

static void on_report(json_t *report, void *arg)
{
	struct prober *prober = arg;

	hvd_debug(prober->agent->log, "%s: probe finished", prober->agent->info->name);
	json_decref(prober->report);
	prober->report = json_incref(report);
	send_report(prober);
}

static void on_checked(json_t *result, void *arg)
{
	struct prober *prober = arg;

	prober->check = hvd_preflight_result(result);
	send_report(prober);
}

static int check_host(struct prober *prober, const json_t *order, struct hvd_err *err)
{
	struct hvd_preflight_order what;

	if (!order || prober->preflight)
		return 0;
	if (hvd_preflight_order_read(order, &what, err) != 0)
		return -1;
	prober->preflight = hvd_preflight_start(prober->agent->base, &what, on_checked, prober, err);
	return prober->preflight ? 0 : -1;
}

static void on_probe(void *arg, const json_t *order)
{
	struct prober *prober = arg;
	struct hvd_err why = {0};

	if (check_host(prober, json_object_get(order, "preflight"), &why) != 0 ||
	    hvd_probe_run(prober->probe, order, on_report, prober, &why) != 0)
		hvd_driver_client_cannot(prober->agent->driver, &why);
}

static void on_measured(json_t *measured, void *arg)
{
	hvd_driver_client_send(((struct prober *)arg)->agent->driver, json_incref(measured));
}

static void on_measure(void *arg, const json_t *order)
{
	struct prober *prober = arg;
	struct hvd_err why = {0};

	if (hvd_probe_measure(prober->probe, order, on_measured, prober, &why) != 0)
		hvd_driver_client_cannot(prober->agent->driver, &why);
}

/* ---- after it ---- */

static void on_tried(bool answered, void *arg)
{
	struct prober *prober = arg;

	hvd_host_try_destroy(prober->trying);
	prober->trying = NULL;
	hvd_driver_client_send(prober->agent->driver, json_pack("{s:s, s:I, s:b}", "t", "tried", "n",
								(json_int_t)prober->tried, "answered", answered));
}

/* An address that this host has itself, as of a bridge, would answer in any case. */
static void on_try(void *arg, const json_t *order)
{
	struct prober *prober = arg;
	const struct hvd_host_info *own = hvd_driver_client_host(prober->agent->driver);
	struct hvd_addr *addrs;
	size_t all, count = 0;
	int64_t n, port, ms;

	if (prober->trying || hvd_get_int(order, "n", 0, UINT32_MAX, &n, NULL) != 0 ||
	    hvd_get_int(order, "p", 1, 65535, &port, NULL) != 0 || hvd_get_int(order, "ms", 1, 60000, &ms, NULL) != 0)
		return;
	all = hvd_get_addrs(order, "a", &addrs);
	for (size_t i = 0; i < all; i++)
		if (hvd_host_info_find_addr(own, &addrs[i]) < 0)
			addrs[count++] = addrs[i];
	prober->tried = (uint32_t)n;
	if (count == 0)
		on_tried(true, prober); /* nothing speaks against the host */
	else
		prober->trying = hvd_host_try_begin(prober->agent->base, addrs, count, (in_port_t)port, (int)ms,
						    on_tried, prober);
	free(addrs);
}

/* ---- life ---- */

static void on_connected(void *arg)
{
	struct prober *prober = arg;
	const struct hvd_agent *agent = prober->agent;
	struct hvd_err why = {0};

	prober->probe = hvd_probe_create(agent->base, hvd_driver_client_key(agent->driver), agent->info->node,
					 hvd_driver_client_host(agent->driver), &why);
	if (prober->probe)
		hvd_driver_client_host(agent->driver)->port = hvd_probe_port(prober->probe);
	else
		hvd_driver_client_cannot(agent->driver, &why);
}

/* In an elastic job later hosts probe this one, so it goes on to answer. */
static int on_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct prober *prober = arg;

	(void)plan;
	(void)err;
	if (prober->agent->elastic)
		return 0;
	hvd_probe_destroy(prober->probe);
	prober->probe = NULL;
	return 0;
}

static void end(void *arg)
{
	struct prober *prober = arg;

	hvd_host_try_destroy(prober->trying);
	hvd_probe_destroy(prober->probe);
	hvd_child_answer_destroy(prober->preflight);
	json_decref(prober->check);
	json_decref(prober->report);
}

const struct hvd_feature hvd_probe_feature = {
	.size = sizeof(struct prober),
	.early = (const struct hvd_agent_message[]){{"probe", on_probe}, {"measure", on_measure}, {NULL, NULL}},
	.messages = (const struct hvd_agent_message[]){{"try", on_try}, {NULL, NULL}},
	.connected = on_connected,
	.plan = on_plan,
	.end = end,
};
