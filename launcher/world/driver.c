/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include "launcher/hosts/agent_registry.h"
#include "launcher/hosts/host_table.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/rlimits.h"
#include "losses.h"
#include "rank_ends.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* A node agent that ends during the start may do so because the launch is being cancelled. So the start fails for this
 * reason only when nothing else has ended it after so long. */
#define LOST_SECONDS 1.0
/* Descriptors for everything but the connections of the hosts. */
#define OTHER_FILES 32

struct hvd_driver {
	struct hvd_agent_registry *agents;
	struct hvd_world *world;         /* the ranks on these hosts */
	struct hvd_host_table *table;    /* the registry's */
	const struct hvd_layout *layout; /* the world's; of no use before the plan */
	const struct hvd_driver_opts *opts;
	const struct hvd_driver_ops *ops;
	void *arg;
	const struct hvd_log *log;
	hvd_time began;
	struct hvd_timer *lost;
	struct hvd_err lost_why;   /* before the plan */
	struct hvd_losses *losses; /* after it */
	struct hvd_rank_ends ends; /* zero until there is a plan */
	bool started;              /* there is a plan, and it was sent */
	bool failed, all_ended, output_lost;
};

static const char *host_name(const struct hvd_driver *dr, uint32_t host, char buf[32])
{
	return hvd_host_table_name(dr->table, host, buf);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct hvd_driver *dr = arg;

	dr->failed = true;
	hvd_timer_stop(dr->lost);
	dr->ops->failed(why, dr->arg);
}

static void on_registered(uint32_t host, void *arg)
{
	struct hvd_driver *dr = arg;

	if (dr->ops->host_registered)
		dr->ops->host_registered(host, dr->arg);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct hvd_driver *dr = arg;

	if (dr->ops->stalled)
		dr->ops->stalled(stall, dr->arg);
}

static void on_told_to_end(void *arg)
{
	struct hvd_driver *dr = arg;

	if (dr->started && dr->ops->told_to_end)
		dr->ops->told_to_end(dr->arg);
}

static void on_left_out(uint32_t host, void *arg)
{
	struct hvd_driver *dr = arg;

	if (dr->ops->host_left_out)
		dr->ops->host_left_out(host, dr->arg);
}

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct hvd_driver *dr = arg;

	return dr->ops->rendezvous_opened ? dr->ops->rendezvous_opened(rv, dr->arg, err) : 0;
}

/* ---- plan ---- */

static void on_decided(void *arg)
{
	struct hvd_driver *dr = arg;

	dr->started = true;
	hvd_rank_ends_begin(&dr->ends, dr->layout);
	hvd_world_begin(dr->world);
	hvd_verbose(dr->log, "all %d ranks have their plan after %.3f s", dr->layout->size,
		    (double)(hvd_now() - dr->began) / 1e9);
	if (dr->ops->started)
		dr->ops->started(dr->arg);
}

/* ---- messages ---- */

/* Have the host's ranks ended, as far as is known? If an agent is lost without a report of its watchdog, its ranks have
 * ended with it. */
static bool over(const struct hvd_host_entry *host)
{
	return host->leaving >= HVD_LEAVING_LOST || host->node.n_ranks == 0 ||
	       (!host->client && host->leaving != HVD_LEAVING_AGENT_DIED);
}

/* A host's ranks have ended, or its agent has gone. */
static void maybe_all_ended(struct hvd_driver *dr)
{
	const struct hvd_host_table *table = dr->table;

	if (!dr->ops->ranks_ended || dr->all_ended || dr->opts->mode == HVD_START_HOSTS)
		return;
	for (uint32_t h = 0; h < table->n; h++)
		if (!over(&table->hosts[h]))
			return;
	dr->all_ended = true;
	dr->ops->ranks_ended(&dr->ends.without_munge, dr->arg);
}

static bool has_rank(const struct hvd_driver *dr, uint32_t host, uint32_t rank)
{
	return rank < (uint32_t)dr->layout->size && dr->layout->rank_slots[rank].host == (int)host;
}

/* False: the host has no such rank, or the end is known. If the host's agent has gone, the rank's shim reports the end; the
 * agent may have reported it before. */
static bool take_end(struct hvd_driver *dr, uint32_t host, uint32_t rank)
{
	if (!has_rank(dr, host, rank) || !hvd_rank_ends_add(&dr->ends, rank))
		return false;
	dr->table->hosts[host].ended++;
	return true;
}

/* A rank that the scheduler has ended with all others is not the cause of the job's end; the scheduler says why. */
static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct hvd_driver *dr = arg;

	if (!take_end(dr, host, end->rank))
		return;
	if (end->status != 0)
		hvd_losses_rank_failed(dr->losses);
	if (dr->ops->rank_exit && !(end->cause == HVD_END_WITH_ALL && dr->opts->mode == HVD_START_RANKS))
		dr->ops->rank_exit(end, dr->table->hosts[host].node.name, dr->arg);
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	struct hvd_driver *dr = arg;

	if (told) /* a spare host's agent */
		return;
	if (!munge)
		hvd_rank_ends_without_munge(&dr->ends, dr->table->hosts[host].node.name);
	maybe_all_ended(dr);
}

/* ---- processes of the launch that end before the ranks ---- */

static void lose_process(struct hvd_driver *dr, const struct hvd_loss *loss, uint32_t host)
{
	if (dr->ops->process_lost)
		dr->ops->process_lost(loss, dr->arg);
	/* After its end the agents' connections end, too. */
	if (!dr->failed)
		hvd_losses_add(dr->losses, loss,
			       loss->of == HVD_LOSS_AGENT ? hvd_world_cannot_init(dr->world, host) : NULL);
}

static void on_agent_died(uint32_t host, const struct hvd_loss *loss, void *arg)
{
	struct hvd_driver *dr = arg;

	if (dr->started) {
		lose_process(dr, loss, host);
	} else if (dr->lost_why.code) {
		hvd_cleanup_free char *text = hvd_loss_text(loss);

		hvd_err_set(&dr->lost_why, HVD_E_FAILED, "%s", text);
		hvd_err_host(&dr->lost_why, loss->host);
	}
}

/* A rank shim has ended without a word, and its rank with it, which the backend sees. */
static void on_shim_lost(uint32_t host, uint32_t rank, void *arg)
{
	struct hvd_driver *dr = arg;
	struct hvd_loss loss = {.of = HVD_LOSS_SHIM,
				.rank = rank,
				.host = dr->table->hosts[host].node.name,
				.status = -1,
				.at = hvd_now()};

	if (take_end(dr, host, rank) && dr->ops->process_lost)
		dr->ops->process_lost(&loss, dr->arg);
}

static void on_unkillable(uint32_t host, uint32_t id, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct hvd_driver *dr = arg;

	if (has_rank(dr, host, id) && dr->ops->unkillable)
		dr->ops->unkillable(rank, dr->table->hosts[host].node.name, what, dr->arg);
}

static void on_output_lost(void *arg)
{
	((struct hvd_driver *)arg)->output_lost = true;
}

static void on_host_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct hvd_driver *dr = arg;
	char buf[32];

	(void)unfit;
	if (dr->ops->host_gone)
		dr->ops->host_gone(host_name(dr, host, buf), why, dr->arg);
}

/* After the start the connection of a host's agent has ended. */
static void on_gone_later(struct hvd_driver *dr, const struct hvd_client *cl, const struct hvd_err *why)
{
	const struct hvd_host_entry *host = &dr->table->hosts[cl->host];
	struct hvd_loss loss = {.of = dr->opts->mode == HVD_START_HOSTS ? HVD_LOSS_SPAWNER : HVD_LOSS_AGENT,
				.host = host->node.name,
				.status = -1,
				.at = hvd_now()};

	if (host->ended >= host->node.n_ranks) {
		/* Its process may have output to pass on, if the host is there. */
		if (why->code == HVD_E_TIMEOUT)
			on_left_out(cl->host, dr);
	} else if (host->leaving < HVD_LEAVING_LOST) {
		if (why->code != HVD_E_TIMEOUT && dr->ops->process_lost)
			dr->ops->process_lost(&loss, dr->arg);
		on_host_gone(cl->host, why, false, dr);
	}
	maybe_all_ended(dr);
}

bool hvd_driver_connected(const struct hvd_driver *dr)
{
	for (uint32_t h = 0; h < dr->table->n; h++)
		if (dr->table->hosts[h].client)
			return true;
	return false;
}

static void handle_gone(struct hvd_driver *dr, const struct hvd_client *cl, const struct hvd_err *why)
{
	char buf[32];

	if (dr->started && cl->role == HVD_ROLE_AGENT) {
		on_gone_later(dr, cl, why);
		return;
	}
	if (cl->role == HVD_ROLE_AGENT && !dr->failed && !dr->lost_why.code) {
		hvd_err_set(&dr->lost_why, HVD_E_FAILED, "its node agent ended before the start was complete%s%s",
			    why->code ? ": " : "", why->code ? why->msg : "");
		hvd_err_host(&dr->lost_why, host_name(dr, cl->host, buf));
		hvd_timer_at(dr->lost, hvd_deadline_in(LOST_SECONDS));
	}
}

static void on_disconnected(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_driver *dr = arg;

	handle_gone(dr, cl, why);
	if (cl->role == HVD_ROLE_AGENT && !hvd_driver_connected(dr) && dr->ops->all_left)
		dr->ops->all_left(dr->arg);
}

/* Why a start fails in which agents have ended. Where some hosts have never registered, and the agents of all others have
 * ended, these were ended, as srun, scancel or an MPI do where they cannot start all; then the others are what has
 * failed. Of a single agent nobody can tell. */
static void explain_lost(const struct hvd_driver *dr, struct hvd_err *why)
{
	const struct hvd_host_table *table = dr->table;
	hvd_cleanup_free char *missing = hvd_host_table_missing(table);
	bool never = table->n > 0 && table->in_stage[HVD_STAGE_COMING] > 0;

	*why = dr->lost_why;
	if (never && table->n - table->in_stage[HVD_STAGE_COMING] > 1 && !hvd_driver_connected(dr)) {
		*why = (struct hvd_err){0};
		hvd_err_set(why, HVD_E_FAILED, "%s, and the node agents of all other hosts have ended", missing);
		hvd_agent_registry_missing_hint(dr->agents, why);
	} else if (never) {
		hvd_err_set(why, HVD_E_FAILED, "%s; there was %s", dr->lost_why.msg, missing);
		hvd_err_host(why, dr->lost_why.host);
	}
}

static void on_cannot_init(const struct hvd_err *why, void *arg)
{
	hvd_agent_registry_fail(((struct hvd_driver *)arg)->agents, why);
}

static void on_lost(void *arg)
{
	struct hvd_driver *dr = arg;
	struct hvd_err why;

	explain_lost(dr, &why);
	hvd_agent_registry_fail(dr->agents, &why);
}

/* ---- life ---- */

/* Is there a descriptor for each host's connection? All of them are open at once. */
static int check_room(const struct hvd_driver_opts *opts, struct hvd_err *err)
{
	unsigned long files = hvd_nofile();

	if (opts->hosts + OTHER_FILES <= files)
		return 0;
	hvd_err_set(err, HVD_E_LIMIT, "%u hosts need a connection each, but this process may open only %lu files",
		    (unsigned)opts->hosts, files);
	return hvd_err_hint(err,
			    "raise the limit where the launch starts to more than %u: ulimit -Hn, or LimitNOFILE= of "
			    "the service that it runs in",
			    (unsigned)opts->hosts + OTHER_FILES);
}

struct hvd_driver *hvd_driver_create(struct event_base *base, const struct hvd_driver_opts *opts,
				     struct hvd_session *session, const struct hvd_driver_ops *ops, void *arg,
				     const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_agent_registry_ops agents_ops = {.registered = on_registered,
								 .left_out = on_left_out,
								 .decided = on_decided,
								 .disconnected = on_disconnected,
								 .gone = on_host_gone,
								 .done = on_done,
								 .agent_died = on_agent_died,
								 .failed = on_failed,
								 .told_to_end = on_told_to_end};
	static const struct hvd_world_ops world_ops = {.opened = on_opened,
						       .ended = on_ended,
						       .shim_lost = on_shim_lost,
						       .unkillable = on_unkillable,
						       .output_lost = on_output_lost,
						       .stalled = on_stalled};
	struct hvd_driver *dr = hvd_xcalloc(1, sizeof(*dr));

	dr->opts = opts;
	dr->ops = ops;
	dr->arg = arg;
	dr->log = log;
	dr->began = hvd_now();
	dr->lost = hvd_timer_new(base, on_lost, dr);
	if (check_room(opts, err) == 0)
		dr->agents = hvd_agent_registry_create(base, true, opts, session, &agents_ops, dr, log, err);
	if (dr->agents)
		dr->world = hvd_world_create(base, dr->agents, opts, &world_ops, dr, log, err);
	if (!dr->world) {
		hvd_driver_destroy(dr);
		return NULL;
	}
	dr->table = hvd_agent_registry_table(dr->agents);
	dr->layout = hvd_world_layout(dr->world);
	dr->losses = hvd_losses_create(base, on_cannot_init, dr, log);
	return dr;
}

char *hvd_driver_hosts_behind(const struct hvd_driver *dr)
{
	return hvd_rank_ends_behind(&dr->ends);
}

char *hvd_driver_hosts_left(const struct hvd_driver *dr)
{
	return hvd_rank_ends_hosts_left(&dr->ends);
}

void hvd_driver_lose_host(struct hvd_driver *dr, const char *host)
{
	for (uint32_t h = 0; h < dr->table->n; h++)
		if (dr->table->hosts[h].node.name && strcmp(dr->table->hosts[h].node.name, host) == 0 &&
		    dr->table->hosts[h].leaving < HVD_LEAVING_LOST)
			dr->table->hosts[h].leaving = HVD_LEAVING_LOST;
	hvd_rank_ends_add_host(&dr->ends, host);
	maybe_all_ended(dr);
}

bool hvd_driver_leave_out(struct hvd_driver *dr, uint32_t host, const struct hvd_err *why)
{
	return hvd_agent_registry_leave_out(dr->agents, host, why);
}

char *hvd_driver_unregistered(const struct hvd_driver *dr)
{
	const struct hvd_host_table *table = dr->table;

	return dr->started || (table->n && !table->in_stage[HVD_STAGE_COMING]) ? NULL : hvd_host_table_missing(table);
}

bool hvd_driver_output_lost(const struct hvd_driver *dr)
{
	return dr->output_lost;
}

const struct hvd_layout *hvd_driver_layout(const struct hvd_driver *dr)
{
	return dr->started ? dr->layout : NULL;
}

uint32_t hvd_driver_slurm_job(const struct hvd_driver *dr)
{
	const struct hvd_host_table *table = dr->table;

	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].node.job)
			return table->hosts[h].node.job;
	return 0;
}

void hvd_driver_give_up(struct hvd_driver *dr, const struct hvd_err *why)
{
	hvd_agent_registry_fail(dr->agents, why);
}

struct hvd_stacks *hvd_driver_stacks(const struct hvd_driver *dr)
{
	return hvd_world_stacks(dr->world);
}

void hvd_driver_boot(const struct hvd_driver *dr, struct hvd_boot *boot)
{
	hvd_world_boot(dr->world, boot);
}

void hvd_driver_end_ranks(struct hvd_driver *dr)
{
	hvd_agent_registry_end_ranks(dr->agents);
}

void hvd_driver_signal_ranks(struct hvd_driver *dr, int sig)
{
	hvd_agent_registry_signal(dr->agents, sig);
}

void hvd_driver_destroy(struct hvd_driver *dr)
{
	if (!dr)
		return;
	hvd_losses_destroy(dr->losses);
	hvd_agent_registry_destroy(dr->agents);
	hvd_world_destroy(dr->world);
	hvd_timer_free(dr->lost);
	hvd_rank_ends_clear(&dr->ends);
	free(dr);
}
