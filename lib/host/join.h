/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - self-registering agents (hvd-agent connect): the address of the launch, and the messages.
 *
 * A join address is a text of one line, which holds no secret:
 *
 *     ADDRESS[,ADDRESS…]:PORT/SESSION
 *
 * Launcher and agent have the same key. After the handshake (lib/protocol/handshake.h):
 *
 *   agent     {"t":"offer", "host":TEXT, "machine":TEXT, "slots":N, "index":N}   index may be left out
 *
 * Then the agent waits without a limit for one of these:
 *
 *   launcher  {"t":"failed", "why":TEXT, "hint":TEXT}   the offer is refused, or the start has failed; both may be left
 *             out
 *   launcher  {"t":"plan", "spare":true}                the launch has agents enough
 *   launcher  HVD_CHANNEL_PREAMBLE: what an agent that hvdrun starts reads from its stdin (lib/protocol/preamble.h), with
 *             the command line of the hvd-agent host that the agent becomes. It holds no key, and neither environment
 *             nor directory
 *
 * From then on the agent is the agent of its host, and the connection is that of any agent to its driver
 * (agent/driver_client.h). It also carries the output and input of the host's ranks (lib/protocol/conn.h), in
 * messages of at most HVD_JOIN_PIECE bytes.
 *
 *   agent     {"t":"took"}                 the launcher may send the next input: first, and whenever the agent has
 *                                          passed the last input on
 *   launcher  {"t":"took", "n":N}          the launcher has passed on N bytes of output. While HVD_JOIN_WINDOW bytes or
 *                                          more are outstanding, the agent reads nothing of its ranks
 *   agent     {"t":"ending", "why":TEXT}   the agent ends its ranks, although the launcher has not asked for it
 *   agent     {"t":"ended", "status":S}    the last message: the exit status of the agent
 */
#ifndef HVD_JOIN_H
#define HVD_JOIN_H

#include "lib/protocol/boot.h"
#include "this_host.h"

#include <jansson.h>

#define HVD_JOIN_ADDRESS_MAX 1024   /* bytes of a join address, its zero byte included */
#define HVD_JOIN_PIECE       65536  /* bytes of stdin, stdout or stderr in one message, at most */
#define HVD_JOIN_WINDOW      262144 /* bytes that an agent has sent, and the launcher has not passed on */
#define HVD_JOIN_INDEX_MAX   1000000000

struct hvd_join_offer {
	char host[256];                    /* what the agent calls its host */
	char machine[HVD_MACHINE_LEN + 1]; /* hvd_machine_id() */
	int slots;                         /* 1 … HVD_MAX_HOST_RANKS */
	int index;                         /* where the agent wants to be among the others; -1 = no matter */
};

/* Uses addresses, port and session of `boot`. */
void hvd_join_address_format(const struct hvd_boot *boot, char text[HVD_JOIN_ADDRESS_MAX]);
/* Sets addresses, port and session of *boot; -1 with HVD_E_USAGE. */
int hvd_join_address_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err);

/* The message "offer", a new reference. */
json_t *hvd_join_offer(const struct hvd_join_offer *offer);
/* Read the message "offer"; untrusted input is fine. -1 with err set, whose text is fit for both ends: HVD_E_PROTO for
 * a malformed message, HVD_E_LIMIT for too many or no slots, HVD_E_USAGE for an impossible host name. */
int hvd_join_offer_read(const json_t *msg, struct hvd_join_offer *offer, struct hvd_err *err);

/* The message "failed". */
json_t *hvd_join_refusal(const struct hvd_err *why);
/* Set *why to what the message says; *why is always set. Untrusted input is fine. */
void hvd_join_refusal_read(const json_t *msg, struct hvd_err *why);

#endif
