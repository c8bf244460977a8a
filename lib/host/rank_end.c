/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_end.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/wire.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char *const causes[HVD_END_CAUSES] = {"none", "oom", "host-oom", "not-started", "with-all"};
static const char cut_mark[] = " [...]";

const char *hvd_end_cause_name(enum hvd_end_cause cause)
{
	return causes[cause];
}

/* Escaped, and cut to `most` bytes. NULL for no text. */
static char *bounded(const char *text, size_t most)
{
	char *out;
	size_t n;

	if (!text || !*text)
		return NULL;
	out = hvd_xcalloc(1, most + 8);
	n = hvd_printable(text, out, most + 8);
	if (n > most) {
		n = hvd_printable(text, out, most - sizeof(cut_mark) + 2);
		memcpy(out + n, cut_mark, sizeof(cut_mark));
	}
	return out;
}

static void set_time(json_t *msg, const char *key, hvd_time at)
{
	if (at)
		json_object_set_new(msg, key, json_integer(at));
}

static void set_text(json_t *msg, const char *key, const char *text, size_t most)
{
	hvd_cleanup_free char *out = bounded(text, most);

	if (out)
		json_object_set_new(msg, key, json_string(out));
}

json_t *hvd_rank_end_json(const struct hvd_rank_end *end)
{
	json_t *msg = json_pack("{s:i, s:I}", "status", end->status, "lrank", (json_int_t)end->local_rank);

	if (end->pid)
		json_object_set_new(msg, "pid", json_integer(end->pid));
	set_time(msg, "ended", end->ended_at);
	set_time(msg, "failed", end->failed_at);
	if (end->cause)
		json_object_set_new(msg, "cause", json_string(causes[end->cause]));
	set_text(msg, "error", end->error, HVD_RANK_END_ERROR);
	set_text(msg, "traceback", end->traceback, HVD_RANK_END_TRACEBACK);
	set_text(msg, "tail", end->tail, HVD_RANK_END_TAIL);
	return msg;
}

static int64_t number_in(const json_t *msg, const char *key, int64_t max)
{
	int64_t n;

	return hvd_get_int(msg, key, 0, max, &n, NULL) == 0 ? n : 0;
}

static char *text_in(const json_t *msg, const char *key, size_t most)
{
	return bounded(json_string_value(json_object_get(msg, key)), most);
}

/* The first line of the text that is not empty. */
static char *line_in(const json_t *msg, const char *key, size_t most)
{
	const char *text = json_string_value(json_object_get(msg, key));
	hvd_cleanup_free char *line = NULL;

	if (!text)
		return NULL;
	text += strspn(text, "\n");
	line = hvd_xstrndup(text, strcspn(text, "\n"));
	return bounded(line, most);
}

int hvd_rank_end_parse(const json_t *msg, struct hvd_rank_end *end, struct hvd_err *err)
{
	uint32_t rank = end->rank;
	const char *cause = json_string_value(json_object_get(msg, "cause"));
	int64_t status;

	*end = (struct hvd_rank_end){.rank = rank};
	if (hvd_get_int(msg, "status", 0, 0xffff, &status, err) != 0)
		return -1;
	end->status = (int)status;
	end->local_rank = (uint32_t)number_in(msg, "lrank", UINT32_MAX);
	end->pid = (pid_t)number_in(msg, "pid", INT_MAX);
	end->ended_at = number_in(msg, "ended", INT64_MAX);
	end->failed_at = number_in(msg, "failed", INT64_MAX);
	for (int i = 0; cause && i < HVD_END_CAUSES; i++)
		if (strcmp(cause, causes[i]) == 0)
			end->cause = (enum hvd_end_cause)i;
	end->error = line_in(msg, "error", HVD_RANK_END_ERROR);
	end->traceback = text_in(msg, "traceback", HVD_RANK_END_TRACEBACK);
	end->tail = text_in(msg, "tail", HVD_RANK_END_TAIL);
	return 0;
}

void hvd_rank_end_clear(struct hvd_rank_end *end)
{
	free(end->error);
	free(end->traceback);
	free(end->tail);
	*end = (struct hvd_rank_end){0};
}

/* Did SIGKILL end the rank, or one of its processes, of which it has failed then? */
static bool was_killed(const struct hvd_rank_end *end)
{
	return (WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL) ||
	       (WIFEXITED(end->status) && WEXITSTATUS(end->status) == 128 + SIGKILL) ||
	       (end->error && (strstr(end->error, "Killed") || strstr(end->error, "SIGKILL")));
}

bool hvd_rank_end_interrupted(const struct hvd_rank_end *end)
{
	return hvd_status_exit(end->status) == 128 + SIGINT || (end->error && strstr(end->error, "KeyboardInterrupt"));
}

bool hvd_rank_end_cancelled(const struct hvd_rank_end *end)
{
	int status = hvd_status_exit(end->status);

	return hvd_rank_end_interrupted(end) || status == 128 + SIGTERM || status == 128 + SIGKILL;
}

bool hvd_rank_end_may_be_oom(const struct hvd_rank_end *end)
{
	return end->cause == HVD_END_NONE && was_killed(end);
}

void hvd_rank_end_oom(struct hvd_rank_end *end, enum hvd_oom oom)
{
	static const enum hvd_end_cause oom_causes[] = {
		[HVD_OOM_NO] = HVD_END_NONE, [HVD_OOM_CGROUP] = HVD_END_OOM, [HVD_OOM_HOST] = HVD_END_HOST_OOM};

	end->cause = oom_causes[oom];
}
