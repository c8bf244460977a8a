/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_question.h - when are the ranks of a world ready? What a user may write for it, and the messages in which the driver
 * asks the agent of each host that has ranks of the world:
 *
 *   driver → agent   {"t":"ready", "n":N, "how":TEXT, "ranks":RANKS, "seconds":S}
 *                                     before the ranks of a generation start: RANKS of them on this host. TEXT: the user's
 *   agent → driver   {"t":"ready", "n":N, "up":true}                           once, as soon as they are ready
 *                    {"t":"ready", "n":N, "up":false, "why":TEXT, "id":ID, "lines":TEXT, "of":TEXT}
 *                                     they are not, after S seconds; "id", "lines" and "of" (agent/last_lines.h) are of one
 *                                     that is not, and are left out if there is none
 *
 * N is a number that tells the answers from those to former questions. With the number of the world (worlds.h).
 */
#ifndef HVD_READY_QUESTION_H
#define HVD_READY_QUESTION_H

#include "lib/base/err.h"

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum hvd_ready_kind {
	HVD_READY_STARTED = 0, /* "started": they have been started, and no agent is asked */
	HVD_READY_TCP,         /* "tcp:PORT": the port takes connections on each host */
	HVD_READY_HTTP,        /* "http:PORT/PATH": GET of the path has a status of 2xx on each host */
	HVD_READY_FILE,        /* "file:PATH": the file was made or changed since the start, on each host */
	HVD_READY_NOTIFY,      /* "notify": each rank has sent READY=1 as sd_notify(3) does */
};

/* A zeroed struct: as soon as they are started. */
struct hvd_ready_spec {
	enum hvd_ready_kind kind;
	in_port_t port;   /* of TCP and HTTP */
	const char *path; /* of HTTP, where it begins with '/', and of FILE; part of `text`, or constant */
	const char *text; /* what was read, not owned; NULL in a zeroed struct */
	double timeout;   /* seconds since the start of the ranks */
};

/* Read what a user has written. -1 with err set (HVD_E_USAGE), and *spec is zeroed but for its timeout. Untrusted input is
 * fine. */
int hvd_ready_spec_parse(const char *text, struct hvd_ready_spec *spec, struct hvd_err *err);

struct hvd_ready_question {
	int64_t n;
	struct hvd_ready_spec spec; /* its texts are the message's */
	uint32_t ranks;
};

#define HVD_READY_WHY   1023 /* bytes of such a text, at most */
#define HVD_READY_LINES (256 * 1024)

struct hvd_ready_answer {
	int64_t n;
	bool up;
	int64_t id;                   /* -1: of no rank */
	const char *why, *lines, *of; /* the message's, or "" */
};

/* New references. Of an answer with an id the caller adds "lines" and "of". */
json_t *hvd_ready_question_to_json(const struct hvd_ready_question *question);
json_t *hvd_ready_answer_to_json(const struct hvd_ready_answer *answer);

/* Untrusted input is fine. -1 with HVD_E_PROTO, HVD_E_LIMIT or HVD_E_USAGE. */
int hvd_ready_question_read(const json_t *msg, struct hvd_ready_question *out, struct hvd_err *err);
int hvd_ready_answer_read(const json_t *msg, struct hvd_ready_answer *out, struct hvd_err *err);

#endif
