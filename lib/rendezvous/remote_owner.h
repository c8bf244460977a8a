/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_owner.h - questions whose the connections from other hosts are.
 *
 * Only the kernel of a client's host knows who owns the client's socket (access.h), so a connection from another host
 * waits until that host has said so. Who is asked, and how, is the caller's business: it gets a question for one pair of
 * addresses with many ports, and hands in the answer when it has come.
 *
 * Anybody on the client's host can connect, so questions are limited, however many connections there are:
 *   - A source (a pair of addresses) has one question open, and asks the next one a moment after the answer at the
 *     earliest. Connections that come meanwhile share it.
 *   - Sources take turns, and all together ask no more than 8 questions in a millisecond.
 *   - No more than 1,024 connections of a source wait for a question. One more is refused; its client may try again.
 *   - If no answer comes within 10 s, as from an agent that is stopped, the owners count as unknown.
 * So connections of strangers on one host delay those of the job's ranks on that host, and no others.
 *
 * One thread, that of the server. Callbacks come from the event loop, or from hvd_rv_owners_answer().
 */
#ifndef HVD_RENDEZVOUS_REMOTE_OWNER_H
#define HVD_RENDEZVOUS_REMOTE_OWNER_H

#include "lib/net/addr.h"
#include "lib/protocol/owner_question.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

struct hvd_rv_owners;
struct hvd_rv_source;

/* A connection that waits for its owner: a member of the caller's struct. Zeroed: it does not wait. */
struct hvd_rv_asked {
	TAILQ_ENTRY(hvd_rv_asked) link;
	struct hvd_rv_source *source; /* NULL: does not wait */
	in_port_t port;               /* the client's */
	/* The owner is known (enum in owner_question.h), and *asked does not wait any longer. */
	void (*known)(struct hvd_rv_asked *asked, int64_t owner);
};

/* Ask this. The question is valid during the call. */
typedef void hvd_rv_ask_fn(const struct hvd_owner_question *question, void *arg);

struct hvd_rv_owners *hvd_rv_owners_create(struct event_base *base, hvd_rv_ask_fn *ask, void *arg);
/* Nothing waits any longer. NULL is fine. */
void hvd_rv_owners_destroy(struct hvd_rv_owners *owners);

/* Find out who owns the client's end of a connection from `from` at asked->port to `to` at `port`. `known` is called
 * later. False: too many connections of this source wait. */
bool hvd_rv_owners_ask(struct hvd_rv_owners *owners, const struct hvd_addr *from, const struct hvd_addr *to,
		       in_port_t port, struct hvd_rv_asked *asked);
/* The connection is closed: `known` is not called. One that does not wait is fine. */
void hvd_rv_owners_forget(struct hvd_rv_asked *asked);
/* The answer to a question. Owners that it lacks are unknown. An answer that comes too late has no effect. */
void hvd_rv_owners_answer(struct hvd_rv_owners *owners, const struct hvd_owner_answer *answer);

#endif
