/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_client.h - the connection of a host's agent to the driver: register the host, get the plan.
 *
 * Messages to the driver, after the handshake (handshake.h). What is of a relay or of ranks is a part of a message that each
 * world has (lib/protocol/worlds.h):
 *   register   the host (host_info.h). "hosts":TEXT, if it is known, lists all hosts of the step (hvdn[1-4]).
 *              "clock":NS is this host's time (launcher/hosts/clocks.h).
 *              "relay":PORT is the loopback port of this host's relay (relay.c). "relay_network":PORT and
 *              "relay_children":PORT are the ports on all addresses for ranks of other hosts and for other relays; they
 *              are left out if none will connect. "cannot":{"why":TEXT, "hint":TEXT}: the host cannot take part, for
 *              this reason, and may have no relay ("relay":0). "switch_path":TEXT, if it is known: where the host is
 *              in the network (lib/host/switch_path.h)
 *   {"t":"cannot", "host":TEXT, "why":TEXT, "hint":TEXT}   the host cannot take part, as it has found since
 * Messages from the driver:
 *   {"t":"plan", "ranks":[{NAME:VALUE,…},…]}               the plans of all ranks of the host, by local rank, with
 *                                                          "func_key":BOOL, see rank_env.h; and with --multi-prog
 *                                                          "commands":[[WORD,…],…], what they run
 *              It has "settings":{…} (lib/protocol/agent_settings.h), and "relay":{"relay_id":I, "addr":ADDR,
 *              "children":BOOL, "up":[ADDR,…], "port":N, "network":[ADDR,…]}: this relay's number; the host's address
 *              for messages; whether other relays connect to this one; the addresses and the port of its parent, if
 *              that is another relay; and, if it listens on the network, the addresses from which ranks may come (in an
 *              elastic job none at first, see launcher/world/world.h)
 *   {"t":"plan", "spare":true}                             this host takes no part in the job; all plans may have
 *                                                          "numbers" and "size" (launcher/world/rank_numbers.c)
 *   {"t":"failed"}, {"t":"misused"}                        the start failed (misused: because of the user's input); the
 *                                                          driver has told the user why
 * All others are read, and sent, by the agent (agent.c) and its features. launcher/hosts/agent_messages.c lists them.
 */
#ifndef HVD_DRIVER_CLIENT_H
#define HVD_DRIVER_CLIENT_H

#include "lib/base/log.h"
#include "lib/host/host_info.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"
#include "taskinfo.h"

#include <event2/event.h>

struct hvd_driver_client;

struct hvd_driver_client_ops {
	/* The connection is there, and the host is about to be registered. */
	void (*connected)(void *arg);
	/* The plan has arrived; `plan` is released after the call. The connection stays until the client is
	 * destroyed. */
	void (*plan)(const json_t *plan, void *arg);
	/* In place of `plan`: this host takes no part in the job, which has others; or the driver cannot be reached in
	 * a job that can do without this host (boot.spares). The user was told; the process must end with status 0. */
	void (*spare)(void *arg);
	/* Any other message. False: it is not known, which before the plan is a failure. */
	bool (*message)(const char *type, const json_t *msg, void *arg);
	/* The agent cannot go on; called at most once. HVD_E_FAILED: the driver has already told the user. The end of
	 * the connection is a failure, also after the plan. */
	void (*failed)(const struct hvd_err *why, void *arg);
	void (*drained)(void *arg); /* after the plan: all messages have left this process */
};

/* Begins to connect at once, unless there is a connection `conn` already (else NULL), on which both ends have proven in
 * this session that they belong to the launch. It is then owned, also after an error. `failed` is called if the plan has
 * not arrived within the launch's start timeout. `session` (hvd_driver_client_session()) is copied; `boot`, `info` and
 * `log` are not owned, and must outlive the client. If the plan numbers the ranks anew, *info gets the new numbers just
 * before `plan` is called. NULL with err set. */
struct hvd_driver_client *hvd_driver_client_create(struct event_base *base, struct hvd_conn *conn,
						   const struct hvd_boot *boot, const struct hvd_session *session,
						   struct hvd_taskinfo *info, const struct hvd_driver_client_ops *ops,
						   void *arg, const struct hvd_log *log, struct hvd_err *err);
/* Queued messages are still sent: run the event loop until it is empty, which takes at most a second, or a minute if there
 * was a connection already. */
void hvd_driver_client_destroy(struct hvd_driver_client *driver); /* NULL is fine */

/* Before the event loop runs: register this host as one that cannot take part. `why` must outlive the client. */
void hvd_driver_client_refuse(struct hvd_driver_client *driver, const struct hvd_err *why);

/* This host, as it is registered after `connected`: until then ports may be added. Valid as long as the client. */
struct hvd_host_info *hvd_driver_client_host(struct hvd_driver_client *driver);

/* Before the plan: fail, and tell the driver, which reports why the launch fails, with the name of this host. */
void hvd_driver_client_cannot(struct hvd_driver_client *driver, const struct hvd_err *why);

/* Queue a message for the driver; takes the reference. Without a client, or a connection, it is dropped. NULL is fine. */
void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg);
/* Is a message still queued that may be sent? Then `drained` follows, or `failed`. */
bool hvd_driver_client_sending(const struct hvd_driver_client *driver);

/* The connection, for the host's relay (relay.c): valid from the plan until `failed`. The client owns it. */
struct hvd_conn *hvd_driver_client_conn(const struct hvd_driver_client *driver);

/* After `failed`: has the connection broken, so that the driver may go on without this host? False if it was closed, as by
 * the end of the driver. */
bool hvd_driver_client_cut_off(const struct hvd_driver_client *driver);

/* The session's key; valid from `connected` on, until the client is destroyed. */
const struct hvd_key *hvd_driver_client_key(const struct hvd_driver_client *driver);

/* Log the error of `failed`, under the name of this host. Logs nothing and returns false if the driver has already told
 * the user. */
bool hvd_driver_client_log_failure(const struct hvd_log *log, const struct hvd_taskinfo *info,
				   const struct hvd_err *why);

/* Does munged answer on this host, within seconds, or does the launch not use munge? Without munge slurmstepd cannot
 * tell srun that its tasks have ended. */
bool hvd_driver_client_munge_answers(const struct hvd_boot *boot);

/* Fill in a session from the boot text: its identity and, where that is not munge's, its key. -1 with err set. */
int hvd_driver_client_session(const struct hvd_boot *boot, struct hvd_session *session, struct hvd_err *err);

#endif
