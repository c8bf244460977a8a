/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joining_internal.h - what the files of joining.h share.
 *
 *   joining.c   opened and closed; the wait for enough agents; hosts that the job takes and releases
 *   joiner.c    an agent, from its offer until it leaves
 */
#ifndef HVD_JOINING_INTERNAL_H
#define HVD_JOINING_INTERNAL_H

#include "joining.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/job/join.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/preauth.h"

#include <sys/queue.h>

enum hvd_joiner_state {
	JOINER_OFFERING, /* its offer has not arrived */
	JOINER_WAITING,  /* its offer was accepted */
	JOINER_TAKEN,    /* the connection is the job's */
};

struct hvd_joiner {
	struct hvd_joining *joining;
	TAILQ_ENTRY(hvd_joiner) in; /* joining->all */
	enum hvd_joiner_state state;
	struct hvd_join_offer offer;
	char *host;            /* its name in the job; NULL before its offer */
	struct hvd_conn *conn; /* NULL: taken */
};

struct hvd_joining {
	struct hvd_joining_opts opts;
	struct event_base *base;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_preauth *pending;
	struct hvd_boot boot; /* where it listens */
	char machine[HVD_MACHINE_LEN + 1];
	char address[HVD_JOIN_ADDRESS_MAX];
	bool file_written;
	/* Those that wait or were taken come in the order of their ranks: first those with an index, then the others
	 * as they came. Those without an offer come last. */
	TAILQ_HEAD(, hvd_joiner) all;
	struct hvd_strv names; /* all that agents have had */
	unsigned n_warnings;
	bool enough; /* no more agents are needed */
	bool failed; /* no more agents are needed because the job could not start */
	int want;    /* slots that are waited for; 0 = any number */
	int sig;     /* the signal that ended the wait; 0 = none */
	struct hvd_timer *tell;
	void (*changed)(void *arg);
	void *arg;
};

void hvd_joiner_arrive(struct hvd_conn *conn, void *joining); /* an agent has proven that it has the key */
void hvd_joiner_free(struct hvd_joiner *j);
/* Send a waiting agent the message that it is not needed. */
void hvd_joiner_turn_off(struct hvd_joiner *j);
/* Send this message to all waiting agents, and to all that connect later. */
void hvd_joining_turn_off_waiting(struct hvd_joining *joining);

int hvd_joining_slots_waiting(const struct hvd_joining *joining);
/* Agents have joined or left: run the callbacks that wait for that, from the event loop. */
void hvd_joining_tell(struct hvd_joining *joining);
void hvd_joining_on_tell(void *joining);
void hvd_joining_remove_file(struct hvd_joining *joining);

#endif
