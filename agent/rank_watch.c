/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_watch.c - answers the driver's questions about the ranks of a world on this host while they run.
 *
 * The watch only looks at ranks: it sends nothing to their processes, and changes nothing of them.
 *
 * A message of the driver, and its answer:
 *   {"t":"stacks", "id":I, "seconds":S, "nccl":B, "stop":B}
 *                                            where are the ranks, and what does their NCCL say (stacks.h)? stop: a tool may
 *                                            stop a rank while it looks. Answered within S seconds (60 at most) and one by
 *   {"t":"stacks", "id":I, "ranks":[…], "nccl":{…}}
 *                                            stacks.h has the format. Without "nccl" it was not asked for, or there is
 *                                            none. A question that arrives during another one is
 *                                            answered by {"t":"stacks", "id":I, "busy":true}
 *
 *   {"t":"owners", "id":I, "pids":[PID,…]}   which ranks are these processes part of?
 *   {"t":"answer", "id":I, "ranks":[RANK,…]} in the same order; -1: of none
 *   {"t":"lines", "id":I, "rank":RANK}       what has the rank written last?
 *   {"t":"answer", "id":I, "lines":TEXT, "of":OF}
 *                                            OF: what of its output the agent sees (struct hvd_rank_lines)
 * RANK is what the driver calls the process (agent.h).
 *
 * Without a question, if a rank is one of PyTorch whose store is the launch's:
 *   {"t":"refused", "at":ADDRESS, "port":P, "ranks":[RANK,…], "clients":BOOL}
 *                                            something on this host tries again and again to reach this port of it,
 *                                            where nobody listens (refused.h). It may be another program than one of
 *                                            these ranks, which are those of PyTorch. clients: PyTorch lets no rank
 *                                            serve (TORCHELASTIC_USE_AGENT_STORE=True)
 */
#include "agent.h"
#include "child_answer.h"
#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/procfs.h"
#include "lib/process/spawn.h"
#include "lib/protocol/wire.h"
#include "refused.h"
#include "stack_find.h"
#include "stacks.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After so long, with the pauses that PyTorch makes, it is told within five seconds. */
#define REFUSED_SECONDS 2.0
#define REFUSED_RANKS   1024 /* that are named */
#define TORCH_PROCESSES 64   /* how many processes of a rank are looked at */
#define STACKS_RANKS    4096 /* as many as fit into an argument */
#define OWNERS_MOST     4096 /* processes that the driver asks about */
#define ANCESTORS       64   /* that are looked at between a process and its rank */

#define STORE_ENV "TORCHELASTIC_USE_AGENT_STORE"

struct rank_watch {
	struct hvd_of_world of;
	struct hvd_watched_rank *ranks;
	size_t n, room;
	struct hvd_refused *refused;
	struct hvd_child_answer *stacks; /* NULL: nobody asks */
	int64_t asked;
};

static struct hvd_watched_rank *find(struct rank_watch *watch, uint32_t rank)
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
	struct rank_watch *watch = arg;
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
		hvd_of_world_send(&watch->of, json_pack("{s:s, s:s, s:i, s:O, s:b}", "t", "refused", "at",
							hvd_addr_text(addr, text), "port", (int)port, "ranks", ranks,
							"clients", clients));
	json_decref(ranks);
}

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct rank_watch *watch = arg;
	struct hvd_watched_rank *known = find(watch, rank.rank);

	if (!watch->refused)
		watch->refused = hvd_refused_create(watch->of.agent->base, REFUSED_SECONDS, on_refused, watch);
	if (known) {
		known->pid = pid;
		return;
	}
	if (watch->n == watch->room) {
		watch->room = watch->room ? 2 * watch->room : 16;
		watch->ranks = hvd_xrealloc(watch->ranks, watch->room, sizeof(*watch->ranks));
	}
	watch->ranks[watch->n++] = (struct hvd_watched_rank){.rank = rank.rank, .pid = pid};
}

static void rank_ended(void *arg, struct hvd_world_rank rank)
{
	struct rank_watch *watch = arg;
	struct hvd_watched_rank *known = find(watch, rank.rank);

	if (known)
		*known = watch->ranks[--watch->n];
}

/* Takes the reference of `ranks`; `nccl` may be NULL. */
static void answer(struct rank_watch *watch, int64_t id, json_t *ranks, json_t *nccl)
{
	hvd_of_world_send(&watch->of, json_pack("{s:s, s:I, s:o, s:O*}", "t", "stacks", "id", (json_int_t)id, "ranks",
						ranks, "nccl", nccl));
}

static void on_answer(json_t *object, void *arg)
{
	struct rank_watch *watch = arg;
	json_t *ranks = json_object_get(object, "ranks");

	answer(watch, watch->asked, json_is_array(ranks) ? json_incref(ranks) : json_array(),
	       json_object_get(object, "nccl"));
	hvd_child_answer_destroy(watch->stacks);
	watch->stacks = NULL;
	watch->of.agent->inspections++;
	watch->of.agent->inspecting--;
}

/* Start a process that finds out where the ranks are (stacks.h). Processes that it starts end with it. */
static pid_t inspect(const struct rank_watch *watch, double seconds, const char *wishes, int out, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	hvd_cleanup_free char *which = NULL;
	struct hvd_spawn sp = {.path = "/proc/self/exe", .new_group = 1, .parent_death_signal = SIGKILL};

	for (size_t i = 0; i < watch->n && i < STACKS_RANKS; i++)
		hvd_xappendf(&which, "%s%u:%d", i ? "," : "", (unsigned)watch->ranks[i].rank, (int)watch->ranks[i].pid);
	hvd_strv_add(&argv, "hvd-agent");
	hvd_strv_add(&argv, "inspect");
	hvd_strv_addf(&argv, "%s@%.3f%s", which ? which : "", seconds, wishes);
	sp.argv = argv.v;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, out, STDOUT_FILENO);
	hvd_spawn_fd(&sp, -1, STDERR_FILENO);
	return hvd_spawn(&sp, err);
}

static struct hvd_child_answer *ask_stacks(struct rank_watch *watch, double seconds, const char *wishes,
					   struct hvd_err *err)
{
	const hvd_time latest = hvd_deadline_in(seconds + 0.5);
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		hvd_err_sys(err, "cannot make a pipe");
		return NULL;
	}
	pid = inspect(watch, seconds, wishes, fds[1], err);
	close(fds[1]);
	if (pid > 0)
		return hvd_child_answer_begin(watch->of.agent->base, pid, fds[0], 2 * HVD_STACKS_MAX_OUTPUT, latest,
					      on_answer, watch);
	close(fds[0]);
	return NULL;
}

static void on_stacks(void *arg, const json_t *msg)
{
	struct rank_watch *watch = arg;
	double seconds = json_number_value(json_object_get(msg, "seconds"));
	struct hvd_err err = {0};
	char wishes[32];
	int64_t id;

	if (hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) != 0 || !(seconds > 0))
		return;
	if (watch->stacks) {
		hvd_of_world_send(&watch->of,
				  json_pack("{s:s, s:I, s:b}", "t", "stacks", "id", (json_int_t)id, "busy", 1));
		return;
	}
	if (watch->n == 0) {
		answer(watch, id, json_array(), NULL);
		return;
	}
	seconds = seconds < HVD_STACKS_MAX_SECONDS ? seconds : HVD_STACKS_MAX_SECONDS;
	watch->asked = id;
	snprintf(wishes, sizeof(wishes), "%s%s", json_is_true(json_object_get(msg, "nccl")) ? HVD_STACKS_NCCL : "",
		 json_is_true(json_object_get(msg, "stop")) ? "" : HVD_STACKS_NO_STOP);
	watch->stacks = ask_stacks(watch, seconds, wishes, &err);
	if (watch->stacks) {
		watch->of.agent->inspections++;
		watch->of.agent->inspecting++;
		return;
	}
	hvd_log_err(watch->of.agent->log, &err);
	answer(watch, id, json_array(), NULL);
}

/* ---- owners ---- */

/* The rank whose process this is, or that it is below; else that in whose group or session it is. -1: none. */
static json_int_t owner_of(const struct rank_watch *watch, pid_t pid)
{
	struct hvd_process process;
	json_int_t in_group = -1;

	for (int i = 0; i < ANCESTORS && pid > 1 && hvd_process_read(pid, &process) == 0; i++) {
		for (size_t r = 0; r < watch->n; r++) {
			if (watch->ranks[r].pid == pid)
				return watch->ranks[r].rank;
			/* Several ranks may be in one group (rank_scan.c). */
			if (in_group < 0 &&
			    (watch->ranks[r].pid == process.group || watch->ranks[r].pid == process.session))
				in_group = watch->ranks[r].rank;
		}
		pid = process.parent;
	}
	return in_group;
}

static void on_owners(void *arg, const json_t *msg)
{
	const struct rank_watch *watch = arg;
	json_t *pids, *pid, *ranks;
	size_t i;

	if (hvd_get_array(msg, "pids", OWNERS_MOST, &pids, NULL) != 0)
		return;
	ranks = json_array();
	json_array_foreach(pids, i, pid)
	{
		const json_int_t number = json_integer_value(pid);

		json_array_append_new(
			ranks, json_integer(number > 0 && number <= INT_MAX ? owner_of(watch, (pid_t)number) : -1));
	}
	hvd_of_world_send(&watch->of, json_pack("{s:s, s:O, s:o}", "t", "answer", "id", json_object_get(msg, "id"),
						"ranks", ranks));
}

/* ---- last lines ---- */

/* Of a line that was written again and again, as a progress bar, the last is what a terminal shows. */
static void drop_overwritten(char *text)
{
	char *to = text;

	for (char *line = text, *next; *line; line = next) {
		size_t len = strcspn(line, "\n"), end;

		next = line + len + (line[len] == '\n');
		for (end = len; end > 0 && line[end - 1] == '\r'; end--)
			;
		for (size_t i = end; i > 0; i--)
			if (line[i - 1] == '\r') {
				line += i;
				end -= i;
				break;
			}
		memmove(to, line, end);
		to += end;
		if (next[-1] == '\n')
			*to++ = '\n';
	}
	*to = '\0';
}

/* Escaped, since it need not be UTF-8. The caller frees it. */
static char *make_printable(char *text)
{
	const size_t size = 4 * strlen(text) + 1;
	char *out = hvd_xcalloc(1, size);

	drop_overwritten(text);
	hvd_printable(text, out, size);
	return out;
}

static void on_lines(void *arg, const json_t *msg)
{
	const struct rank_watch *watch = arg;
	struct hvd_rank_lines lines = {0};
	hvd_cleanup_free char *text = NULL;
	int64_t rank;

	if (hvd_get_int(msg, "rank", 0, INT_MAX, &rank, NULL) != 0)
		return;
	watch->of.agent->source->lines(watch->of.agent->ranks, (struct hvd_world_rank){watch->of.world, (uint32_t)rank},
				       &lines);
	text = lines.text ? make_printable(lines.text) : NULL;
	hvd_of_world_send(&watch->of, json_pack("{s:s, s:O, s:s, s:s}", "t", "answer", "id", json_object_get(msg, "id"),
						"lines", text ? text : "", "of", lines.of ? lines.of : "nothing"));
	free(lines.text);
	free(lines.of);
}

/* ---- life ---- */

static void end(void *arg)
{
	struct rank_watch *watch = arg;

	hvd_child_answer_destroy(watch->stacks);
	hvd_refused_destroy(watch->refused);
	free(watch->ranks);
}

const struct hvd_feature hvd_rank_watch_feature = {
	.size = sizeof(struct rank_watch),
	.by_world = true,
	.messages =
		(const struct hvd_agent_message[]){
			{"stacks", on_stacks}, {"owners", on_owners}, {"lines", on_lines}, {NULL, NULL}},
	.rank_began = rank_began,
	.rank_ended = rank_ended,
	.end = end,
};
