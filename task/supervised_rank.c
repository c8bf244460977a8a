/* SPDX-License-Identifier: Apache-2.0 */
#include "supervised_rank.h"

#include "agent.h"
#include "lib/frameworks/emit.h"
#include "lib/process/spawn.h"
#include "rank_key.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

struct held {
	struct event_base *base;
	const struct hvd_taskinfo *info;
	struct hvd_ranks_opts opts;
	const struct hvd_log *log;
	struct hvd_session session;
	struct hvd_agent *agent;
	struct hvd_ranks *rank;
	struct hvd_output_losses losses;
	int status;
};

static void on_exited(int number, int status, void *arg)
{
	struct held *held = arg;

	(void)number;
	if (held->status == 0)
		held->status = hvd_status_exit(status);
	hvd_agent_send(held->agent, json_pack("{s:s, s:I, s:i}", "t", "exit", "rank", (json_int_t)held->info->rank,
					      "status", status));
}

static void on_all_gone(void *arg)
{
	event_base_loopbreak(((struct held *)arg)->base);
}

/* The plan's variables under the names that they have here. */
static json_t *plan_env(const json_t *plan)
{
	json_t *env = json_object(), *value;
	const char *name;

	json_object_foreach(json_object_get(plan, "env"), name, value)
	{
		char *set = hvd_emit_name(name, environ);

		if (set)
			json_object_set(env, set, value);
		free(set);
	}
	return env;
}

static void on_plan(const json_t *plan, void *arg)
{
	static const struct hvd_ranks_ops ops = {.exited = on_exited, .all_gone = on_all_gone};
	struct held *held = arg;
	json_t *plans = json_pack("[o]", plan_env(plan));
	struct hvd_err why = {0};

	if (hvd_rank_key_take(plan, &held->session, &held->opts.key_fd, &why) == 0)
		held->rank = hvd_ranks_start(held->base, plans, &held->opts, &ops, held, held->log, &why);
	json_decref(plans);
	if (held->rank)
		return;
	hvd_err_host(&why, held->info->name);
	hvd_log_err(held->log, &why);
	on_exited(held->opts.number, 127 << 8, held);
	event_base_loopbreak(held->base);
}

static void on_message(json_t *msg, void *arg)
{
	struct held *held = arg;
	const char *type;
	int64_t sig;

	if (!held->rank || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "end") == 0)
		hvd_ranks_end_told(held->rank);
	else if (strcmp(type, "signal") == 0 && hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		hvd_ranks_signal(held->rank, (int)sig);
}

static void on_serve(void *arg)
{
	(void)arg; /* the rendezvous stays with the launcher */
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct held *held = arg;
	struct hvd_err here = *why;

	if (held->status == 0)
		held->status = hvd_err_status(why);
	if (held->rank) {
		hvd_verbose(held->log, "%s: ending rank %d: %s", held->info->name, held->opts.number, why->msg);
		hvd_ranks_end(held->rank);
		return;
	}
	if (why->code != HVD_E_FAILED && why->msg[0]) {
		hvd_err_host(&here, held->info->name);
		hvd_log_err(held->log, &here);
	}
	event_base_loopbreak(held->base);
}

/* jsrun sends them to its tasks. */
static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct held *held = arg;

	(void)what;
	if (held->rank && (sig == SIGQUIT || sig == SIGUSR1 || sig == SIGUSR2))
		hvd_ranks_signal(held->rank, (int)sig);
	else if (held->rank)
		hvd_ranks_end(held->rank);
	else
		event_base_loopbreak(held->base);
}

static void run(struct held *held, const struct hvd_boot *boot)
{
	static const struct hvd_agent_ops ops = {
		.plan = on_plan, .serve = on_serve, .message = on_message, .failed = on_failed};
	struct hvd_err why = {0};

	if (hvd_agent_session(boot, &held->session, &why) != 0 ||
	    !(held->agent = hvd_agent_create(held->base, boot, &held->session, held->info,
					     held->info->local_rank ? HVD_AGENT_RANK : HVD_AGENT_NODE,
					     hvd_deadline_in(boot->timeout), &ops, held, held->log, &why)))
		on_failed(&why, held);
	else
		event_base_dispatch(held->base);
	hvd_ranks_destroy(held->rank);
	if (held->opts.key_fd)
		close(held->opts.key_fd);
	if (held->agent && held->losses.any)
		hvd_agent_send(held->agent, json_pack("{s:s}", "t", "output-lost"));
	/* A connection that ends without this tells the driver that the host was lost. */
	if (held->agent)
		hvd_agent_send(held->agent, json_pack("{s:s}", "t", "done"));
	hvd_agent_destroy(held->agent);
}

int hvd_supervised_rank_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info,
			    const struct hvd_ranks_opts *opts, const struct hvd_log *log)
{
	struct held held = {.info = info, .opts = *opts, .log = log, .base = event_base_new()};
	struct event *signals[N_CAUGHT];

	if (!held.base)
		return 1;
	held.opts.inherit = true;
	held.opts.number = (int)info->rank;
	held.opts.output.size = (int)info->size;
	held.losses = (struct hvd_output_losses){.log = log, .host = info->name};
	held.opts.output.losses = &held.losses;
	for (size_t i = 0; i < N_CAUGHT; i++) {
		signals[i] = evsignal_new(held.base, caught[i], on_signal, &held);
		event_add(signals[i], NULL);
	}
	run(&held, boot);
	for (size_t i = 0; i < N_CAUGHT; i++)
		event_free(signals[i]);
	event_base_dispatch(held.base); /* the last reports on their way out */
	event_base_free(held.base);
	return held.status;
}
