/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_watch.h"

#include "activity.h"
#include "lib/base/xalloc.h"
#include "lib/process/descendants.h"
#include "lib/protocol/wire.h"
#include "refused.h"
#include "stacks.h"
#include "stacks_ask.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After so long, with the pauses that PyTorch makes, it is told within five seconds. */
#define REFUSED_SECONDS 2.0
#define REFUSED_RANKS   1024 /* that are named */
#define TORCH_PROCESSES 64   /* how many processes of a rank are looked at */

#define STORE_ENV "TORCHELASTIC_USE_AGENT_STORE"

struct hvd_rank_watch {
	struct event_base *base;
	void (*send)(json_t *msg, void *arg);
	void *arg;
	const struct hvd_log *log;
	struct hvd_watched_rank *ranks;
	size_t n, room;
	struct hvd_activity *activity;
	struct hvd_refused *refused;
	struct hvd_stacks_ask *stacks; /* NULL: nobody asks */
	int64_t asked;
};

struct hvd_rank_watch *hvd_rank_watch_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg,
					     const struct hvd_log *log)
{
	struct hvd_rank_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	watch->base = base;
	watch->send = send;
	watch->arg = arg;
	watch->log = log;
	watch->activity = hvd_activity_create(base, send, arg);
	return watch;
}

void hvd_rank_watch_destroy(struct hvd_rank_watch *watch)
{
	if (!watch)
		return;
	hvd_stacks_ask_destroy(watch->stacks);
	hvd_activity_destroy(watch->activity);
	hvd_refused_destroy(watch->refused);
	free(watch->ranks);
	free(watch);
}

static struct hvd_watched_rank *find(struct hvd_rank_watch *watch, uint32_t rank)
{
	for (size_t i = 0; i < watch->n; i++)
		if (watch->ranks[i].rank == rank)
			return &watch->ranks[i];
	return NULL;
}

/* Has the file of the process a piece that ends with `end` and has this text? */
static bool has_piece(pid_t pid, const char *file, int end, const char *text)
{
	char path[64], *piece = NULL;
	bool found = false;
	size_t room = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && (n = getdelim(&piece, &room, end, f)) > 0)
		found = strstr(piece, text) != NULL;
	free(piece);
	fclose(f);
	return found;
}

/* Is a rank one of PyTorch that uses the launch's store: has this process, or one below it, loaded PyTorch, with
 * TORCHELASTIC_USE_AGENT_STORE in its environment? False if that cannot be read. */
static bool is_torch_rank(pid_t pid)
{
	struct hvd_pids below = {0};
	bool is = false;

	for (size_t i = 0; !is && i <= below.n && i < TORCH_PROCESSES; i++) {
		pid_t each = i == 0 ? pid : below.v[i - 1];

		is = has_piece(each, "environ", '\0', STORE_ENV "=") && has_piece(each, "maps", '\n', "/libtorch");
		if (!is)
			hvd_pids_add_children(&below, each);
	}
	free(below.v);
	return is;
}

static void on_refused(const struct hvd_addr *addr, in_port_t port, void *arg)
{
	struct hvd_rank_watch *watch = arg;
	char text[HVD_ADDR_TEXT];
	json_t *ranks = json_array();
	bool clients = false;

	for (size_t i = 0; i < watch->n && json_array_size(ranks) < REFUSED_RANKS; i++) {
		if (!is_torch_rank(watch->ranks[i].pid))
			continue;
		clients |= has_piece(watch->ranks[i].pid, "environ", '\0', STORE_ENV "=True");
		json_array_append_new(ranks, json_integer(watch->ranks[i].rank));
	}
	if (json_array_size(ranks) > 0)
		watch->send(json_pack("{s:s, s:s, s:i, s:O, s:b}", "t", "refused", "at", hvd_addr_text(addr, text),
				      "port", (int)port, "ranks", ranks, "clients", clients),
			    watch->arg);
	json_decref(ranks);
}

void hvd_rank_watch_add(struct hvd_rank_watch *watch, uint32_t rank, pid_t pid)
{
	struct hvd_watched_rank *known = find(watch, rank);

	hvd_activity_add(watch->activity, rank, pid);
	if (!watch->refused)
		watch->refused = hvd_refused_create(watch->base, REFUSED_SECONDS, on_refused, watch);
	if (known) {
		known->pid = pid;
		return;
	}
	if (watch->n == watch->room) {
		watch->room = watch->room ? 2 * watch->room : 16;
		watch->ranks = hvd_xrealloc(watch->ranks, watch->room, sizeof(*watch->ranks));
	}
	watch->ranks[watch->n++] = (struct hvd_watched_rank){.rank = rank, .pid = pid};
}

void hvd_rank_watch_remove(struct hvd_rank_watch *watch, uint32_t rank)
{
	struct hvd_watched_rank *known = find(watch, rank);

	hvd_activity_remove(watch->activity, rank);
	if (known)
		*known = watch->ranks[--watch->n];
}

/* Takes the reference of `ranks`. */
static void answer(struct hvd_rank_watch *watch, int64_t id, json_t *ranks)
{
	watch->send(json_pack("{s:s, s:I, s:o}", "t", "stacks", "id", (json_int_t)id, "ranks", ranks), watch->arg);
}

static void on_found(json_t *found, void *arg)
{
	struct hvd_rank_watch *watch = arg;

	answer(watch, watch->asked, json_incref(found));
	hvd_stacks_ask_destroy(watch->stacks);
	watch->stacks = NULL;
	hvd_activity_inspected(watch->activity, false);
}

static void on_stacks(void *arg, const json_t *msg)
{
	struct hvd_rank_watch *watch = arg;
	double seconds = json_number_value(json_object_get(msg, "seconds"));
	struct hvd_err err = {0};
	int64_t id;

	if (hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) != 0 || !(seconds > 0))
		return;
	if (watch->stacks) {
		watch->send(json_pack("{s:s, s:I, s:b}", "t", "stacks", "id", (json_int_t)id, "busy", 1), watch->arg);
		return;
	}
	if (watch->n == 0) {
		answer(watch, id, json_array());
		return;
	}
	seconds = seconds < HVD_STACKS_MAX_SECONDS ? seconds : HVD_STACKS_MAX_SECONDS;
	watch->asked = id;
	watch->stacks = hvd_stacks_ask_begin(watch->base, watch->ranks, watch->n, seconds, on_found, watch, &err);
	if (watch->stacks) {
		hvd_activity_inspected(watch->activity, true);
		return;
	}
	hvd_log_err(watch->log, &err);
	answer(watch, id, json_array());
}

static void on_watch(void *arg, const json_t *msg)
{
	hvd_activity_watch(((struct hvd_rank_watch *)arg)->activity, msg);
}

/* ---- as a feature of the agent ---- */

static void *create(struct hvd_agent *agent)
{
	return hvd_rank_watch_create(agent->base, hvd_driver_client_answer, agent->driver, agent->log);
}

static void rank_began(void *self, uint32_t rank, pid_t pid)
{
	hvd_rank_watch_add(self, rank, pid);
}

static void rank_output(void *self, size_t bytes)
{
	hvd_activity_output(((struct hvd_rank_watch *)self)->activity, bytes);
}

static void rank_ended(void *self, uint32_t rank)
{
	hvd_rank_watch_remove(self, rank);
}

static void destroy(void *self)
{
	hvd_rank_watch_destroy(self);
}

const struct hvd_feature hvd_rank_watch_feature = {
	.messages = (const struct hvd_agent_message[]){{"stacks", on_stacks}, {"watch", on_watch}, {NULL, NULL}},
	.create = create,
	.rank_began = rank_began,
	.rank_output = rank_output,
	.rank_ended = rank_ended,
	.destroy = destroy,
};
