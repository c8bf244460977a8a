/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order becomes a list of lines, one for each address. Each line starts an attempt at once, and another every
 * AGAIN_MS as long as none of its attempts has a connection, because the kernel repeats a lost SYN only after a second.
 * The first attempt with a result decides for its line, and the line's other attempts end. The report is made when all
 * lines have a result, or when the order's time is over.
 */
#include "probe.h"

#include "bandwidth.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "probe_client.h"
#include "probe_server.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TARGETS  HVD_MAX_NEIGHBOURS
#define MAX_ADDRS    (HVD_MAX_NICS * HVD_HOST_MAX_ADDRS)
#define MAX_ATTEMPTS 6 /* of a line */
#define MAX_BROKEN   3 /* attempts of a line that are repeated at once when their connection breaks */
#define AGAIN_MS     300

struct line {
	struct hvd_probe *probe;
	struct hvd_target target;
	uint32_t at; /* index of the address in the order */
	struct hvd_probe_client *attempts[MAX_ATTEMPTS];
	int n_attempts, n_broken;
	bool done;
	enum hvd_reach result;
	uint32_t rtt_us;
	int iface;
};

struct hvd_probe {
	struct hvd_asker asker;
	struct hvd_probe_server *responder;

	struct line *lines;
	size_t n_lines, n_done;
	struct hvd_timer *timer, *again;
	hvd_time ordered; /* when the order came */
	void (*done)(json_t *report, void *arg);
	void *done_arg;

	struct hvd_bandwidth *stream; /* a measurement; NULL = none */
	int64_t measured;             /* the number of the host that is measured */
	void (*measure_done)(json_t *measured, void *arg);
	void *measure_arg;
};

static void end_attempts(struct line *line)
{
	for (int i = 0; i < line->n_attempts; i++) {
		hvd_probe_client_destroy(line->attempts[i]);
		line->attempts[i] = NULL;
	}
}

static void end_order(struct hvd_probe *probe)
{
	for (size_t i = 0; i < probe->n_lines; i++)
		end_attempts(&probe->lines[i]);
	free(probe->lines);
	probe->lines = NULL;
	probe->n_lines = probe->n_done = 0;
	hvd_timer_stop(probe->timer);
	hvd_timer_stop(probe->again);
}

static void report(struct hvd_probe *probe)
{
	json_t *edges = json_array();
	json_t *msg = json_pack("{s:s, s:o, s:I}", "t", "report", "edges", edges, "clock", (json_int_t)probe->ordered);

	for (size_t i = 0; i < probe->n_lines; i++) {
		const struct line *line = &probe->lines[i];

		json_array_append_new(edges, json_pack("[Iiiii]", (json_int_t)line->target.node, (int)line->at,
						       line->iface, (int)line->result, (int)line->rtt_us));
	}
	end_order(probe);
	probe->done(msg, probe->done_arg);
	json_decref(msg);
}

static void finish(struct line *line, enum hvd_reach result, int iface, uint32_t rtt_us)
{
	if (line->done)
		return;
	line->done = true;
	line->result = result;
	line->iface = iface;
	line->rtt_us = rtt_us;
	end_attempts(line);
	line->probe->n_done++;
}

static void on_attempt(void *arg, struct hvd_probe_client *at, enum hvd_reach result, int iface, uint32_t rtt_us)
{
	struct line *line = arg;
	struct hvd_probe *probe = line->probe;

	/* If somebody floods the other agent's port, that agent closes connections for which it has no room. */
	if (result == HVD_REACH_BROKEN && at && line->n_broken < MAX_BROKEN) {
		line->n_broken++;
		hvd_probe_client_destroy(at);
		for (int i = 0; i < line->n_attempts; i++)
			if (line->attempts[i] == at)
				line->attempts[i] =
					hvd_probe_client_start(&probe->asker, &line->target, on_attempt, line);
		return;
	}
	finish(line, result, iface, rtt_us);
	/* The report waits for the event loop: this may be a call of start_attempts(), which goes through all lines. */
	if (probe->n_done == probe->n_lines)
		hvd_timer_soon(probe->timer);
}

static bool any_attempt(const struct line *line, bool (*is)(const struct hvd_probe_client *at))
{
	for (int i = 0; i < line->n_attempts; i++)
		if (line->attempts[i] && is(line->attempts[i]))
			return true;
	return false;
}

static void on_timer(void *arg)
{
	struct hvd_probe *probe = arg;

	for (size_t i = 0; i < probe->n_lines; i++)
		finish(&probe->lines[i],
		       any_attempt(&probe->lines[i], hvd_probe_client_proven) ? HVD_REACH_MTU : HVD_REACH_SILENT, -1,
		       0);
	report(probe);
}

static void start_attempts(void *arg)
{
	struct hvd_probe *probe = arg;

	for (size_t i = 0; i < probe->n_lines; i++) {
		struct line *line = &probe->lines[i];
		struct hvd_probe_client *at;

		if (line->done || line->n_attempts == MAX_ATTEMPTS || any_attempt(line, hvd_probe_client_connected))
			continue;
		at = hvd_probe_client_start(&probe->asker, &line->target, on_attempt, line);
		if (at)
			line->attempts[line->n_attempts++] = at;
	}
}

/* read_order() has made room for the lines. */
static int read_target(struct hvd_probe *probe, const json_t *entry, struct hvd_err *err)
{
	json_t *addrs = json_object_get(entry, "a"), *addr;
	int64_t n, port;
	size_t a;

	if (hvd_get_int(entry, "n", 0, UINT32_MAX, &n, err) != 0 || hvd_get_int(entry, "p", 1, 65535, &port, err) != 0)
		return -1;
	json_array_foreach(addrs, a, addr)
	{
		const char *text = json_string_value(addr);
		struct line *line = &probe->lines[probe->n_lines];

		if (text && !*text)
			continue; /* it is not to be tried */
		if (!text || hvd_addr_parse(text, &line->target.addr) != 0)
			return hvd_err_set(err, HVD_E_PROTO, "the driver named a malformed address or port");
		line->probe = probe;
		line->target.node = (uint32_t)n;
		line->target.port = (in_port_t)port;
		line->target.here = json_is_true(json_object_get(entry, "here"));
		line->at = (uint32_t)a;
		line->iface = -1;
		probe->n_lines++;
	}
	return 0;
}

static int read_order(struct hvd_probe *probe, const json_t *order, int64_t *timeout_ms, struct hvd_err *err)
{
	json_t *targets, *addrs, *entry;
	size_t i, total = 0;

	if (hvd_get_array(order, "targets", MAX_TARGETS, &targets, err) != 0 ||
	    hvd_get_int(order, "timeout_ms", 1, 3600000, timeout_ms, err) != 0)
		return -1;
	json_array_foreach(targets, i, entry)
	{
		if (hvd_get_array(entry, "a", MAX_ADDRS, &addrs, err) != 0)
			return -1;
		total += json_array_size(addrs);
	}
	probe->lines = hvd_xcalloc(total, sizeof(*probe->lines));
	json_array_foreach(targets, i, entry)
	{
		if (read_target(probe, entry, err) != 0)
			return -1;
	}
	return 0;
}

int hvd_probe_run(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *report, void *arg), void *arg,
		  struct hvd_err *err)
{
	int64_t timeout_ms;

	if (probe->lines)
		return hvd_err_set(err, HVD_E_PROTO, "the driver ordered a probe while another was running");
	probe->ordered = hvd_now();
	probe->done = done;
	probe->done_arg = arg;
	if (read_order(probe, order, &timeout_ms, err) != 0) {
		end_order(probe);
		return -1;
	}
	if (probe->n_lines > 0)
		hvd_timer_every_ms(probe->again, AGAIN_MS);
	hvd_timer_in_ms(probe->timer, probe->n_lines > 0 ? timeout_ms : 0);
	start_attempts(probe);
	return 0;
}

static void on_measured(double mbps, uint32_t rtt_us, void *arg)
{
	struct hvd_probe *probe = arg;
	json_t *msg = json_pack("{s:s, s:I, s:I, s:I}", "t", "measured", "n", (json_int_t)probe->measured, "kbps",
				(json_int_t)(mbps * 1000), "rtt", (json_int_t)rtt_us);

	hvd_bandwidth_destroy(probe->stream);
	probe->stream = NULL;
	probe->measure_done(msg, probe->measure_arg);
	json_decref(msg);
}

int hvd_probe_measure(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *measured, void *arg),
		      void *arg, struct hvd_err *err)
{
	struct hvd_addr addr;
	const char *text;
	int64_t port, ms;

	if (hvd_get_int(order, "n", 0, UINT32_MAX, &probe->measured, err) != 0 ||
	    hvd_get_int(order, "p", 1, 65535, &port, err) != 0 ||
	    hvd_get_int(order, "ms", 1, HVD_BANDWIDTH_MS, &ms, err) != 0 ||
	    hvd_get_str(order, "a", HVD_ADDR_TEXT, &text, err) != 0)
		return -1;
	if (hvd_addr_parse(text, &addr) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "the driver named a malformed address");
	hvd_bandwidth_destroy(probe->stream);
	probe->measure_done = done;
	probe->measure_arg = arg;
	probe->stream = hvd_bandwidth_ask(probe->asker.base, &probe->asker.key, (uint32_t)probe->measured, &addr,
					  (in_port_t)port, (int)ms, on_measured, probe, NULL);
	if (!probe->stream)
		on_measured(0, 0, probe);
	return 0;
}

struct hvd_probe *hvd_probe_create(struct event_base *base, const struct hvd_key *session_key, uint32_t index,
				   const struct hvd_host_info *node, struct hvd_err *err)
{
	struct hvd_probe *probe = hvd_xcalloc(1, sizeof(*probe));

	probe->asker.base = base;
	probe->asker.key = hvd_key_derive(session_key, "probe", NULL, 0);
	probe->asker.node = node;
	probe->timer = hvd_timer_new(base, on_timer, probe);
	probe->again = hvd_timer_new(base, start_attempts, probe);
	probe->responder = hvd_probe_server_create(base, &probe->asker.key, index, err);
	if (probe->responder)
		return probe;
	hvd_probe_destroy(probe);
	return NULL;
}

in_port_t hvd_probe_port(const struct hvd_probe *probe)
{
	return hvd_probe_server_port(probe->responder);
}

void hvd_probe_destroy(struct hvd_probe *probe)
{
	if (!probe)
		return;
	end_order(probe);
	hvd_bandwidth_destroy(probe->stream);
	hvd_timer_free(probe->timer);
	hvd_timer_free(probe->again);
	hvd_probe_server_destroy(probe->responder);
	free(probe);
}
