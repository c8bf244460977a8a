/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_comms.h"

#include "lib/base/json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COMMS 1024 /* that are looked at */
#define MOST_ODD   8    /* that are named */
#define MOST_RANKS 64   /* of each that are named */
#define MOST_COUNT ((json_int_t)1 << 50)

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Each rank has its own number of these even where all goes well. */
static bool is_collective(const char *op)
{
	return strstr(op, "Send") != op && strstr(op, "Recv") != op && !strstr(op, "Signal");
}

static json_int_t count_in(const json_t *counts, const char *op)
{
	json_int_t n = number_of(counts, op);

	return n < 0 ? 0 : n < MOST_COUNT ? n : MOST_COUNT;
}

/* How many collective operations a rank has begun. */
static json_int_t begun(const json_t *rank)
{
	const json_t *counts = json_object_get(rank, "collective_counts");
	json_int_t sum = 0;
	const char *op;
	json_t *one;

	json_object_foreach((json_t *)counts, op, one)
	{
		if (is_collective(op) && sum < MOST_COUNT)
			sum += count_in(counts, op);
	}
	return sum;
}

/* Of all ranks. */
struct sums {
	json_int_t least, most;
	json_int_t all;
	const json_t *last, *first; /* a rank with the least, and one with the most */
};

static struct sums add_up(const json_t *comm)
{
	struct sums sums = {.least = INT64_MAX, .most = -1};
	size_t i;
	json_t *rank;

	json_array_foreach(json_object_get(comm, "ranks"), i, rank)
	{
		const json_int_t n = begun(rank);

		if (n < sums.least) {
			sums.least = n;
			sums.last = rank;
		}
		if (n > sums.most) {
			sums.most = n;
			sums.first = rank;
		}
		sums.all += sums.all < MOST_COUNT ? n : 0;
	}
	return sums;
}

/* An operation of which `last` has begun fewer than `first`. */
static const char *lacks(const json_t *last, const json_t *first)
{
	const json_t *has = json_object_get(last, "collective_counts"),
		     *counts = json_object_get(first, "collective_counts");
	const char *op;
	json_t *one;

	json_object_foreach((json_t *)counts, op, one)
	{
		if (is_collective(op) && count_in(has, op) < count_in(counts, op))
			return op;
	}
	return "";
}

static json_t *name_rank(const json_t *rank)
{
	return json_pack("{s:I, s:s, s:I, s:b}", "number", number_of(rank, "rank"), "address",
			 hvd_json_text(rank, "host"), "pid", number_of(rank, "pid"), "dead",
			 json_is_true(json_object_get(json_object_get(rank, "status"), "considered_dead")));
}

static const json_t *find_comm(const json_t *status, const json_t *which)
{
	size_t i;
	json_t *comm;

	json_array_foreach(json_object_get(status, "communicators"), i, comm)
	{
		if (i == MOST_COMMS)
			break;
		if (strcmp(hvd_json_text(comm, "hash"), hvd_json_text(which, "hash")) == 0 &&
		    strcmp(hvd_json_text(comm, "secondary_hash"), hvd_json_text(which, "secondary_hash")) == 0)
			return comm;
	}
	return NULL;
}

/* Has one of its ranks begun an operation since? True if the communicator is new. */
static bool moves(const json_t *comm, const json_t *earlier)
{
	const json_t *before = find_comm(earlier, comm);

	return !before || add_up(before).all != add_up(comm).all;
}

static json_t *describe(const json_t *comm, const json_t *earlier, const struct sums *sums)
{
	json_t *behind = json_array(), *lost = json_array(), *rank, *missing = json_object_get(comm, "missing_ranks");
	json_int_t n_behind = 0;
	size_t i;

	json_array_foreach(json_object_get(comm, "ranks"), i, rank)
	{
		if (begun(rank) == sums->most)
			continue;
		if (n_behind++ < MOST_RANKS)
			json_array_append_new(behind, name_rank(rank));
	}
	json_array_foreach(missing, i, rank)
	{
		if (i == MOST_RANKS)
			break;
		json_array_append_new(lost, name_rank(rank));
	}
	return json_pack("{s:I, s:o, s:I, s:I, s:o, s:s, s:I, s:I, s:o}", "size", number_of(comm, "size"), "moves",
			 earlier ? json_boolean(moves(comm, earlier)) : json_null(), "behind", n_behind, "missing",
			 (json_int_t)json_array_size(missing), "ranks", behind, "op", lacks(sums->last, sums->first),
			 "count", sums->last ? sums->least : 0, "most", sums->first ? sums->most : 0, "lost", lost);
}

/* Keep the largest ones, in their order. */
static void keep(json_t *odd, json_t *comm)
{
	size_t at = 0;

	while (at < json_array_size(odd) && number_of(json_array_get(odd, at), "size") >= number_of(comm, "size"))
		at++;
	json_array_insert_new(odd, at, comm);
	if (json_array_size(odd) > MOST_ODD)
		json_array_remove(odd, MOST_ODD);
}

json_t *hvd_nccl_comms(const json_t *status, const json_t *earlier)
{
	const json_t *comms = json_object_get(status, "communicators");
	json_int_t even = 0, still = 0, all = 0, most = 0, lost = 0;
	json_t *odd, *comm;
	size_t i;

	if (!json_is_array(comms))
		return NULL;
	odd = json_array();
	json_array_foreach(comms, i, comm)
	{
		const json_int_t missing = (json_int_t)json_array_size(json_object_get(comm, "missing_ranks"));
		const struct sums sums = add_up(comm);

		if (i == MOST_COMMS)
			break;
		all += all < MOST_COUNT ? sums.all : 0;
		most = sums.most > most ? sums.most : most;
		lost += missing;
		if (sums.least < sums.most || missing > 0) {
			keep(odd, describe(comm, earlier, &sums));
			continue;
		}
		even++;
		still += earlier && !moves(comm, earlier);
	}
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "version",
			 hvd_json_text(status, "nccl_version"), "twice", earlier != NULL, "comms",
			 (json_int_t)json_array_size(comms), "begun", all, "most", most, "missing", lost, "even", even,
			 "still", still, "odd", odd);
}
