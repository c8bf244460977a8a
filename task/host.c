/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include "agent.h"
#include "kill_connections.h"
#include "lib/base/size.h"
#include "lib/process/spawn.h"
#include "rank_key.h"
#include "worker_notify.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host {
	struct event_base *base;
	const struct hvd_taskinfo *info;
	struct hvd_host_opts opts;
	const struct hvd_log *log;
	struct hvd_session session;
	struct hvd_agent *agent;
	struct hvd_ranks *ranks;
	struct hvd_worker_notify *notice; /* elastic */
	struct hvd_output_losses losses;
	bool loss_told;
	int status;
};

static void tell_loss(struct host *host)
{
	if (host->losses.any && !host->loss_told && host->agent)
		hvd_agent_send(host->agent, json_pack("{s:s}", "t", "output-lost"));
	host->loss_told = host->losses.any;
}

/* Of an elastic job the id is its worker's: the number of its rank changes. */
static void on_exited(int id, int status, void *arg)
{
	struct host *host = arg;

	if (host->status == 0 && !host->opts.stay)
		host->status = hvd_status_exit(status);
	tell_loss(host);
	hvd_agent_send(host->agent, json_pack("{s:s, s:i, s:i}", "t", "exit", host->opts.stay ? "worker" : "rank", id,
					      "status", status));
}

static void on_all_gone(void *arg)
{
	event_base_loopbreak(((struct host *)arg)->base);
}

static void on_notice(json_t *msg, void *arg)
{
	hvd_agent_send(((struct host *)arg)->agent, msg);
}

static void on_plan(const json_t *plan, void *arg)
{
	static const struct hvd_ranks_ops ops = {on_exited, on_all_gone};
	struct host *host = arg;
	struct hvd_err why = {0};

	host->opts.stay = json_is_true(json_object_get(plan, "stay"));
	if (host->opts.stay) {
		/* Nobody knows how many there will be, and one may have had its number before. */
		host->opts.output.append = true;
		host->opts.output.size = 0;
	}
	/* Slurm sends SIGTERM to all processes of a job that is preempted, at the beginning of its grace time. The
	 * launcher hears of it, and has the ranks leave before that ends. Had the job been cancelled it would hear too.
	 */
	host->opts.deaf = host->opts.stay && getenv("SLURM_STEP_ID");
	if (host->opts.stay && !host->notice)
		host->notice = hvd_worker_notify_create(host->base, on_notice, host);
	if (hvd_rank_key_take(plan, &host->session, &host->opts.key_fd, &why) == 0)
		host->ranks = hvd_ranks_start(host->base, json_object_get(plan, "ranks"), &host->opts, &ops, host,
					      host->log, &why);
	if (host->ranks)
		return;
	/* The start was complete: it is a rank that ends, with the status that a shell gives to this. */
	hvd_err_host(&why, host->info->name);
	hvd_log_err(host->log, &why);
	on_exited((int)host->info->ranks[0], 127 << 8, host);
	event_base_loopbreak(host->base);
}

static void start_one(struct host *host, const json_t *msg)
{
	int64_t worker, slot, slots;
	struct hvd_err why = {0};
	json_t *env;

	if (hvd_get_int(msg, "worker", 0, INT_MAX, &worker, NULL) != 0 ||
	    hvd_get_int(msg, "slot", 0, INT_MAX, &slot, NULL) ||
	    hvd_get_int(msg, "slots", 1, HVD_MAX_RANKS, &slots, NULL) || hvd_get_object(msg, "env", &env, NULL) != 0)
		return;
	if (hvd_ranks_add(host->ranks, (int)worker, env, (int)slot, (int)slots, &why) == 0)
		return;
	hvd_err_host(&why, host->info->name);
	hvd_log_err(host->log, &why);
	on_exited((int)worker, 127 << 8, host);
}

static void on_message(json_t *msg, void *arg)
{
	struct host *host = arg;
	const char *type;
	int64_t sig, worker;

	if (!host->ranks || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "end") == 0)
		hvd_ranks_end_told(host->ranks);
	else if (strcmp(type, "start") == 0 && host->opts.stay)
		start_one(host, msg);
	else if (strcmp(type, "notify") == 0 && host->notice)
		hvd_worker_notify_pass(host->notice, msg);
	else if (strcmp(type, "cut") == 0)
		hvd_agent_send(host->agent, hvd_kill_connections_answer(msg));
	else if (strcmp(type, "stop") == 0 && hvd_get_int(msg, "worker", 0, INT_MAX, &worker, NULL) == 0)
		hvd_ranks_end_one(host->ranks, (int)worker, json_is_true(json_object_get(msg, "now")));
	else if (strcmp(type, "signal") == 0 && hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		hvd_ranks_signal(host->ranks, (int)sig);
}

static void on_serve(void *arg)
{
	(void)arg; /* backends that start hosts keep the rendezvous with the launcher */
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct host *host = arg;
	struct hvd_err here = *why;

	if (host->status == 0)
		host->status = hvd_err_status(why);
	if (host->ranks) {
		hvd_verbose(host->log, "%s: ending the ranks: %s", host->info->name, why->msg);
		hvd_ranks_end(host->ranks);
		return;
	}
	if (why->code != HVD_E_FAILED && why->msg[0]) {
		hvd_err_host(&here, host->info->name);
		hvd_log_err(host->log, &here);
	}
	event_base_loopbreak(host->base);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct host *host = arg;

	(void)what;
	if (sig == SIGQUIT || sig == SIGUSR1 || sig == SIGUSR2)
		return; /* meant for the ranks: the launcher, which gets them too, passes them on */
	if (host->ranks && host->opts.deaf && sig == SIGTERM)
		hvd_verbose(host->log, "%s: SIGTERM: going on until the launcher decides", host->info->name);
	else if (host->ranks)
		hvd_ranks_end(host->ranks);
	else
		event_base_loopbreak(host->base);
}

int hvd_host_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, const struct hvd_host_opts *opts,
		 const struct hvd_err *refusal, const struct hvd_log *log)
{
	static const struct hvd_agent_ops ops = {on_plan, on_serve, on_message, on_failed};
	static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	struct host host = {.info = info, .opts = *opts, .log = log, .base = event_base_new()};
	struct event *signals[sizeof(caught) / sizeof(caught[0])] = {NULL};
	struct hvd_err why = {0};

	if (!host.base)
		return 1;
	host.losses = (struct hvd_output_losses){.log = log, .host = info->name};
	host.opts.output.losses = &host.losses;
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		signals[i] = evsignal_new(host.base, caught[i], on_signal, &host);
		event_add(signals[i], NULL);
	}
	if (hvd_agent_session(boot, &host.session, &why) != 0 ||
	    !(host.agent = hvd_agent_create(host.base, boot, &host.session, info, HVD_AGENT_NODE,
					    hvd_deadline_in(boot->timeout), &ops, &host, log, &why)))
		on_failed(&why, &host);
	if (host.agent && refusal->code)
		hvd_agent_refuse(host.agent, refusal);
	if (host.agent)
		event_base_dispatch(host.base);
	hvd_worker_notify_destroy(host.notice);
	hvd_ranks_destroy(host.ranks);
	if (host.opts.key_fd)
		close(host.opts.key_fd);
	tell_loss(&host);
	hvd_agent_destroy(host.agent);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		event_free(signals[i]);
	event_base_dispatch(host.base); /* the last reports on their way out */
	event_base_free(host.base);
	return host.status;
}
