/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_question.h - messages that ask whose the other ends of TCP connections between two hosts are.
 *
 * The relay of rank 0's host has accepted connections from another host of the job. Only the kernel of that host can
 * say who owns the sockets there, so the host's agent is asked, by way of the driver (lib/rendezvous/remote_owner.h):
 *
 *   relay's agent → driver   {"t":"whose", "id":N, "from":ADDR, "to":ADDR, "port":P, "ports":[PORT,…]}
 *   driver → agent           the same with "asker":HOST, which is the number of the relay's host
 *   agent → driver           {"t":"owner", "id":N, "asker":HOST, "owners":[OWNER,…]}, in the order of the ports
 *   driver → relay's agent   the same without "asker"
 *
 * All of them have the number of the relay's world (worlds.h), of which the relay's agent may have several. "from" is the
 * address of the clients, and "to", "port" the relay's end. The driver answers with an empty list for an
 * address that no host of the job has. Agents that are part of the plan send and answer these messages, until the end.
 */
#ifndef HVD_OWNER_QUESTION_H
#define HVD_OWNER_QUESTION_H

#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_OWNER_PORTS    128 /* in one question, at most */
#define HVD_OWNER_NO_ASKER UINT32_MAX

/* Whose a socket is: the number of bytes of its output that were acknowledged, its SYN included, if it is the user's
 * and connected; or one of these. */
enum {
	HVD_OWNER_NONE = -1,    /* there is no such socket, or it is not connected, or no process has it */
	HVD_OWNER_OTHER = -2,   /* it is another user's */
	HVD_OWNER_UNKNOWN = -3, /* the host could not tell */
};

struct hvd_owner_question {
	uint32_t id, asker; /* `asker`: a host's number, or HVD_OWNER_NO_ASKER */
	unsigned world;
	struct hvd_addr from, to;
	in_port_t port; /* of `to` */
	size_t n;
	in_port_t ports[HVD_OWNER_PORTS]; /* of `from` */
};

struct hvd_owner_answer {
	uint32_t id, asker;
	unsigned world;
	size_t n;
	int64_t owners[HVD_OWNER_PORTS];
};

/* New references. */
json_t *hvd_owner_question_to_json(const struct hvd_owner_question *question);
json_t *hvd_owner_answer_to_json(const struct hvd_owner_answer *answer);

/* Untrusted input is fine. -1 with HVD_E_PROTO or HVD_E_LIMIT. */
int hvd_owner_question_read(const json_t *msg, struct hvd_owner_question *out, struct hvd_err *err);
int hvd_owner_answer_read(const json_t *msg, struct hvd_owner_answer *out, struct hvd_err *err);

#endif
