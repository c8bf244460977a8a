/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lobby_internal.h - what the files of the lobby share.
 *
 *   lobby.c          opened and closed; hosts that the job takes and releases
 *   lobby_guest.c    an agent, from its offer until it leaves
 *   lobby_gather.c   the wait until there are agents enough for a job of fixed size
 */
#ifndef HVD_LOBBY_INTERNAL_H
#define HVD_LOBBY_INTERNAL_H

#include "lib/base/strv.h"
#include "lib/job/join.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/pending.h"
#include "lobby.h"

enum hvd_guest_state {
	GUEST_OFFERING, /* no offer has come */
	GUEST_WAITING,  /* … and it was accepted */
	GUEST_TAKEN,    /* the connection is the job's */
};

struct hvd_guest {
	struct hvd_lobby *lobby;
	struct hvd_guest *prev, *next; /* by the time of their coming */
	enum hvd_guest_state state;
	struct hvd_join_offer offer;
	char *host;            /* its name in the job; NULL before its offer */
	struct hvd_conn *conn; /* NULL: taken */
};

struct hvd_lobby {
	struct hvd_lobby_opts opts;
	struct event_base *base;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_pending *pending;
	struct hvd_boot boot; /* where it listens */
	char machine[HVD_MACHINE_LEN + 1];
	char address[HVD_JOIN_ADDRESS_MAX];
	bool file_written;
	struct hvd_guest *first, *last;
	struct hvd_strv names; /* that were given out */
	unsigned n_warnings;
	bool enough; /* no more agents are needed */
	bool failed; /* … since the job could not begin */
	int want;    /* slots that are waited for; 0 = any number */
	int sig;     /* has ended the wait */
	struct event *tell;
	void (*changed)(void *arg);
	void *arg;
};

void hvd_guest_arrive(struct hvd_conn *conn, void *lobby); /* an agent has proven that it has the key */
void hvd_guest_free(struct hvd_guest *g);
/* Tell an agent that waits that it is not needed. */
void hvd_guest_turn_off(struct hvd_guest *g);
/* … all that wait, and all that come from now on. */
void hvd_lobby_turn_off_waiting(struct hvd_lobby *lobby);

int hvd_lobby_slots_waiting(const struct hvd_lobby *lobby);
/* Agents have come or gone: whoever waits for that is told, from the event loop. */
void hvd_lobby_tell(struct hvd_lobby *lobby);
void hvd_lobby_on_tell(evutil_socket_t fd, short what, void *lobby);
void hvd_lobby_remove_file(struct hvd_lobby *lobby);

#endif
