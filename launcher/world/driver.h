/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the driver of a job of fixed size: all hosts register with it, and every rank gets its plan from it.
 *
 * The driver lives in the caller's event loop. hvd_driver_create() listens; hvd_driver_boot() gives what agents must
 * know to connect. Then the hosts register, the rendezvous is opened, the agents probe, and the plan is decided
 * (agent_registry.h). Each agent gets its host's part of the plan (plan_delivery.h), and `started` is called. After
 * that the rendezvous goes on, and agents report ranks that have ended.
 *
 * The start timeout covers all steps up to `started`. When it passes, or anything fails, `failed` is called once, all
 * agents are told to end, and the caller must destroy the driver.
 */
#ifndef HVD_DRIVER_H
#define HVD_DRIVER_H

#include "launcher/hosts/clients.h"
#include "launcher/hosts/driver_opts.h"
#include "launcher/hosts/loss.h"
#include "lib/base/log.h"
#include "lib/host/rank_end.h"
#include "lib/host/unkillable.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "progress.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_rv;

/* Each but `failed` may be NULL. */
struct hvd_driver_ops {
	void (*started)(void *arg); /* every host was sent its plan */
	void (*failed)(const struct hvd_err *why, void *arg);
	/* A rank has ended. `host` is its name. The times are by this process's clock; ended_at is known. */
	void (*rank_exit)(const struct hvd_rank_end *end, const char *host, void *arg);
	/* SIGKILL has not ended a rank, or a process that it has left. */
	void (*unkillable)(uint32_t rank, const char *host, const struct hvd_unkillable *what, void *arg);
	/* After the start: the connection of a host's agent has ended before the host's ranks. why->code:
	 * HVD_E_TIMEOUT: the host no longer answers. HVD_E_FAILED: the process that started the ranks has gone, and
	 * they are ended. Other codes: the agent has gone, as when all processes are being ended. */
	void (*host_gone)(const char *host, const struct hvd_err *why, void *arg);

	void (*host_registered)(uint32_t host, void *arg); /* by its index */
	/* The rendezvous is open in this process, and no rank knows of it yet. -1 with err set: the start fails. */
	int (*rendezvous_opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	/* If a backend's one process has started all ranks: every rank has ended, or its host is lost. Called once.
	 * `without_munge`: the hosts whose munged had gone by then; not owned. */
	void (*ranks_ended)(const struct hvd_strv *without_munge, void *arg);
	/* The connection of the last agent has ended. */
	void (*all_left)(void *arg);
	void (*told_to_end)(void *arg); /* an agent got SIGTERM, and with it perhaps its ranks. May be NULL */
	hvd_stalled_fn *stalled;        /* with --hang-timeout: no rank makes progress */
	void (*host_left_out)(uint32_t host, void *arg); /* before the plan: it has no ranks (spares.c) */
	/* After the plan: a process of the launch has ended before the ranks. Called again when more is known of it. If
	 * ranks that have not yet called init_process_group() need it, `failed` follows some seconds later, because the
	 * launch may just be ending. */
	void (*process_lost)(const struct hvd_loss *loss, void *arg);
};

struct hvd_driver;
struct hvd_layout;
struct hvd_stacks;

/* `opts` (with what it points to), `session` and `log` are not owned and must outlive the driver. */
struct hvd_driver *hvd_driver_create(struct event_base *base, const struct hvd_driver_opts *opts,
				     struct hvd_session *session, const struct hvd_driver_ops *ops, void *arg,
				     const struct hvd_log *log, struct hvd_err *err);
void hvd_driver_destroy(struct hvd_driver *driver); /* NULL is fine */

/* The hosts where a rank still runs while all ranks of another host have ended: their names, with commas between them.
 * NULL if there are no hosts of the one or the other kind. The caller frees it. */
char *hvd_driver_hosts_behind(const struct hvd_driver *driver);
/* The hosts where a rank still runs, as far as is known, in the same way; NULL when there is none. */
char *hvd_driver_hosts_left(const struct hvd_driver *driver);
/* The host is lost: all of its ranks count as ended. */
void hvd_driver_lose_host(struct hvd_driver *driver, const char *host);
/* Something outside the driver has made the start fail; `failed` is called, unless it was already. */
void hvd_driver_give_up(struct hvd_driver *driver, const struct hvd_err *why);

/* Is any process connected that could still report ends of ranks? */
bool hvd_driver_connected(const struct hvd_driver *driver);

/* The host's agent will not come, or has gone, before the plan. True: the host is left out (spares.c). False: the job
 * needs the host, and nothing has happened. */
bool hvd_driver_leave_out(struct hvd_driver *driver, uint32_t host, const struct hvd_err *why);

/* Before the plan: "no registration from …", the hosts that have not registered; NULL if all have. The caller frees
 * it. */
char *hvd_driver_unregistered(const struct hvd_driver *driver);

/* Has an agent sent "output-lost"? */
bool hvd_driver_output_lost(const struct hvd_driver *driver);

/* Which rank is on which host; NULL while there is no plan. */
const struct hvd_layout *hvd_driver_layout(const struct hvd_driver *driver);

/* The number of Slurm's job in which the hosts are, as they have said; 0 = none. */
uint32_t hvd_driver_slurm_job(const struct hvd_driver *driver);

/* The object that asks where the ranks are (stacks.h). The driver owns it. */
struct hvd_stacks *hvd_driver_stacks(const struct hvd_driver *driver);

/* What agents must know to connect. */
void hvd_driver_boot(const struct hvd_driver *driver, struct hvd_boot *boot);

/* Have the agents end their ranks (twice: at once), or pass a signal on to them. */
void hvd_driver_end_ranks(struct hvd_driver *driver);
void hvd_driver_signal_ranks(struct hvd_driver *driver, int sig);

#endif
