/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the one process of a launch that all hosts talk to.
 *
 * It lives in the caller's event loop. How it starts and stops:
 *   create    binds the driver's port; with hvd_driver_boot() the shims can be
 *             told where that is
 *   register  each host's agent says what it is
 *   meeting   the rendezvous starts, here or on the first host
 *   probe     each agent tries its neighbours and the rendezvous
 *   plan      every rank gets its environment; `started` is called
 *   afterwards the rendezvous goes on; shims report ranks that have ended
 * One deadline covers all of it up to the plan. When it passes, or anything
 * fails, `failed` is called once, all shims are told to end, and nothing more
 * happens but hvd_driver_destroy().
 */
#ifndef HVD_DRIVER_H
#define HVD_DRIVER_H

#include "driver_opts.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_rv;

/* Each but `failed` may be NULL. */
struct hvd_driver_ops {
	void (*started)(void *arg); /* every rank has its plan */
	void (*failed)(const struct hvd_err *why, void *arg);
	/* A rank has ended; status as from waitpid(2). `host` is its name. */
	void (*rank_exit)(uint32_t rank, const char *host, int status, void *arg);
	/* After the start: a host's shim has gone before its ranks ended, or (where the backend starts ranks) without a
	 * goodbye. why->code is HVD_E_TIMEOUT when the host itself does not answer any longer, and HVD_E_FAILED when a
	 * shim says that what had started it has gone; then its ranks are being ended. With any other, just the process
	 * has gone, as when all are being ended. */
	void (*host_gone)(const char *host, const struct hvd_err *why, void *arg);

	void (*host_registered)(uint32_t host, void *arg); /* by its index */
	/* The rendezvous is open in this process, and no rank knows of it yet. -1 with err set: the start fails. */
	int (*rendezvous_opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	/* Where the backend starts ranks and all shims stay connected (plan_delivery.h): every rank has ended, or its
	 * host is lost. Called once. `without_munge`: the hosts whose munged had gone by then; not owned. */
	void (*ranks_ended)(const struct hvd_strv *without_munge, void *arg);
};

struct hvd_driver;
struct hvd_layout;

/* `opts` (with what it points to), `session` and `log` are not owned and must outlive the driver. */
struct hvd_driver *hvd_driver_create(struct event_base *base, const struct hvd_driver_opts *opts,
				     struct hvd_session *session, const struct hvd_driver_ops *ops, void *arg,
				     const struct hvd_log *log, struct hvd_err *err);
void hvd_driver_destroy(struct hvd_driver *driver); /* NULL is fine */

/* While all ranks of one host have ended: the names of those where a rank goes on, with commas between them. NULL while
 * there is none of the one or the other, or shims do not stay connected. The caller frees it. */
char *hvd_driver_hosts_behind(const struct hvd_driver *driver);
/* That host is lost: all of its ranks count as ended. */
void hvd_driver_lose_host(struct hvd_driver *driver, const char *host);
/* Something outside the driver has made the start fail; `failed` is called, unless it was already. */
void hvd_driver_give_up(struct hvd_driver *driver, const struct hvd_err *why);

/* Has a shim said that it could not write all that its ranks have printed? It has told the user why. */
bool hvd_driver_output_lost(const struct hvd_driver *driver);

/* Who is where; NULL while there is no plan. */
const struct hvd_layout *hvd_driver_layout(const struct hvd_driver *driver);

/* What shims need to find the driver. */
void hvd_driver_boot(const struct hvd_driver *driver, struct hvd_boot *boot);

/* Tell the shims that started ranks to end them (twice: at once), or to pass on a signal. */
void hvd_driver_end_ranks(struct hvd_driver *driver);
void hvd_driver_signal_ranks(struct hvd_driver *driver, int sig);

#endif
