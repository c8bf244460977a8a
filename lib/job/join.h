/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - agents that come to a launch by themselves (hvd-task --join): how they are told where it is, and messages.
 *
 * A join address is a text of one line, which holds no secret:
 *
 *     ADDRESS[,ADDRESS…]:PORT/SESSION
 *
 * Launcher and agent have the same key. After the handshake (lib/protocol/handshake.h):
 *
 *   agent     {"t":"offer", "host":TEXT, "machine":TEXT, "slots":N, "index":N}   index may be left out
 *   launcher  {"t":"accepted"}, or {"t":"declined", "why":TEXT, "hint":TEXT}, or {"t":"enough"}
 *   agent     {"t":"ready"}, after accepted
 *
 * Then neither end says more, and both forget the connection's key: its server end goes from the launcher to the
 * process that carries what the ranks of the agent's host write and read (hvd-task --carry). That process, or the
 * launcher if it has nothing for the agent to do, begins a second handshake on the same connection. After it:
 *
 *   server    {"t":"run", "boot":TEXT}, or "enough" or "declined", as above. run: start hvd-task, which reads a
 * preamble (lib/protocol/preamble.h) with this boot text from its stdin server    bytes: the arguments of that
 * hvd-task, each with a zero byte behind it server    bytes: 0, and then what follows on its stdin; 0 alone: its end
 *   agent     {"t":"took"}   those bytes were passed on; the server sends no others before
 *   agent     bytes: 1 or 2, and then what was written to stdout or stderr
 *   agent     {"t":"ending", "why":TEXT}   it ends that hvd-task, and so the ranks, before the launcher wants it
 *   agent     {"t":"exit", "status":S}   that hvd-task has ended; S as from waitpid(2)
 */
#ifndef HVD_JOIN_H
#define HVD_JOIN_H

#include "lib/base/strv.h"
#include "lib/protocol/boot.h"
#include "this_host.h"

#include <jansson.h>

#define HVD_JOIN_ADDRESS_MAX 1024    /* bytes of a join address, its zero byte included */
#define HVD_JOIN_ARGS_MAX    4194304 /* bytes of the arguments; the kernel takes no more either */
#define HVD_JOIN_PIECE       65536   /* bytes of stdin, stdout or stderr in one message, at most */
#define HVD_JOIN_QUEUE       1048576 /* with so many bytes queued, an agent reads no more from its hvd-task */
#define HVD_JOIN_INDEX_MAX   1000000000
/* hvd-task --carry exits with this when the agent's connection ended before what it carries. */
#define HVD_JOIN_LOST 255

struct hvd_join_offer {
	char host[256];                    /* what the agent calls its host */
	char machine[HVD_MACHINE_LEN + 1]; /* hvd_machine_id() */
	int slots;                         /* 1 … HVD_MAX_HOST_RANKS */
	int index;                         /* where the agent wants to be among the others; -1 = no matter */
};

/* Of `boot`, addresses, port and session count. */
void hvd_join_address_format(const struct hvd_boot *boot, char text[HVD_JOIN_ADDRESS_MAX]);
/* Sets addresses, port and session of *boot; -1 with HVD_E_USAGE. */
int hvd_join_address_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err);

/* The message, a new reference. */
json_t *hvd_join_offer(const struct hvd_join_offer *offer);
/* Read it; untrusted input is fine. -1 with err set, whose text is fit for both ends: HVD_E_PROTO for a malformed one,
 * HVD_E_LIMIT for too many or no slots, HVD_E_USAGE for a host name that none can be. */
int hvd_join_offer_read(const json_t *msg, struct hvd_join_offer *offer, struct hvd_err *err);

/* The arguments as *n bytes, which the caller frees. `args` is NULL-terminated. */
char *hvd_join_args(char *const *args, size_t *n);
/* Read them; `args` is empty before and after an error. Untrusted input is fine. */
int hvd_join_args_read(const char *bytes, size_t n, struct hvd_strv *args, struct hvd_err *err);

/* Read "run": the boot text, which can be parsed. -1 with err set. Untrusted input is fine. */
int hvd_join_run_read(const json_t *msg, char boot[HVD_BOOT_MAX], struct hvd_err *err);

json_t *hvd_join_declined(const struct hvd_err *why);
/* Set *why, always, to what the message says. Untrusted input is fine. */
void hvd_join_declined_read(const json_t *msg, struct hvd_err *why);

#endif
