/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_text.c - what NCCL says of its communicators (agent/nccl_comms.h), as lines for people. It is no verdict: NCCL may
 * count equal operations while one of its processes does nothing. */
#include "stack_groups_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define MOST_COMMS 8
#define MOST_RANKS 8
#define MOST_LINES 24  /* of an older NCCL's text */
#define LINE_CHARS 160 /* of each */

/* Between two questions. */
#define STILL  "; no rank calls further ones"
#define MOVING "; ranks call further ones"

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* "rank 3 (n2)", a rank of the launch; or "its rank 3 (process 17 on 10.0.0.4)", one of the communicator. */
static void append_rank(char **text, const json_t *rank)
{
	const char *host = hvd_json_text(rank, *hvd_json_text(rank, "host") ? "host" : "address");

	if (json_is_integer(json_object_get(rank, "rank")))
		hvd_xappendf(text, "rank %lld (%s)", (long long)number_of(rank, "rank"), host);
	else
		hvd_xappendf(text, "its rank %lld (process %lld on %s)", (long long)number_of(rank, "number"),
			     (long long)number_of(rank, "pid"), host);
}

/* The first ones of so many. */
static char *name_ranks(const json_t *ranks, json_int_t n)
{
	char *text = hvd_xstrdup("");
	json_t *rank;
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		if (i == MOST_RANKS)
			break;
		hvd_xappendf(&text, "%s", i ? ", " : "");
		append_rank(&text, rank);
	}
	if (n > (json_int_t)i)
		hvd_xappendf(&text, " and %lld more", (long long)n - (long long)i);
	return text;
}

static const char *motion(const json_t *moves)
{
	if (json_is_true(moves))
		return MOVING;
	return json_is_false(moves) ? STILL : "";
}

static void add_behind(struct hvd_strv *lines, const json_t *comm)
{
	const json_int_t n = number_of(comm, "behind");
	hvd_cleanup_free char *who = name_ranks(json_object_get(comm, "ranks"), n);
	const char *op = hvd_json_text(comm, "op");

	hvd_strv_addf(
		lines,
		"nccl: in a communicator of %lld, %s %s behind: %lld operations called, %lld by others%s%.64s%s%s",
		(long long)number_of(comm, "size"), who, n == 1 ? "is" : "are", (long long)number_of(comm, "count"),
		(long long)number_of(comm, "most"), *op ? " (missing: " : "", op, *op ? ")" : "",
		motion(json_object_get(comm, "moves")));
}

static void add_lost(struct hvd_strv *lines, const json_t *comm)
{
	const json_int_t n = number_of(comm, "missing");
	const json_t *lost = json_object_get(comm, "lost");
	hvd_cleanup_free char *who = name_ranks(lost, n);
	size_t dead = 0, i;
	json_t *rank;

	json_array_foreach(lost, i, rank)
	{
		dead += json_is_true(json_object_get(rank, "dead"));
	}
	hvd_strv_addf(lines, "nccl: in a communicator of %lld, there is no answer from %s%s",
		      (long long)number_of(comm, "size"), who,
		      dead && dead == json_array_size(lost) ? ", which NCCL holds for dead" : "");
}

static void add_even(struct hvd_strv *lines, const json_t *nccl)
{
	const json_int_t n = number_of(nccl, "even"), still = number_of(nccl, "still");
	const bool twice = json_is_true(json_object_get(nccl, "twice"));

	if (n <= 0)
		return;
	hvd_strv_addf(lines, "nccl: in %lld communicator%s all ranks have called as many operations%s", (long long)n,
		      n == 1 ? "" : "s",
		      !twice       ? ""
		      : still == n ? STILL
				   : MOVING);
}

/* An older NCCL's. */
static void add_text(struct hvd_strv *lines, const char *text)
{
	for (size_t n = 0; *text && n < MOST_LINES; n++) {
		int len = (int)strcspn(text, "\n");

		if (len > 0)
			hvd_strv_addf(lines, "nccl: %.*s", len < LINE_CHARS ? len : LINE_CHARS, text);
		text += len;
		text += *text == '\n';
	}
}

void hvd_nccl_lines(const json_t *answers, struct hvd_strv *lines)
{
	const json_t *nccl = json_object_get(answers, "nccl");
	json_t *comm;
	size_t i;

	add_text(lines, hvd_json_text(nccl, "text"));
	json_array_foreach(json_object_get(nccl, "odd"), i, comm)
	{
		if (i == MOST_COMMS)
			break;
		if (number_of(comm, "behind") > 0)
			add_behind(lines, comm);
		if (number_of(comm, "missing") > 0)
			add_lost(lines, comm);
	}
	add_even(lines, nccl);
}
