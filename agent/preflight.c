/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.c - the process that checks the host, see preflight.h. It is forked, writes one JSON text into a pipe, and
 * ends. It dies with this process; the programs that it runs die with it.
 *
 * An agent checks its host again while ranks are being ended, at the driver's order:
 *
 *   {"t":"check", "ms":N, "hook":PATH, "mib":[N,…]}
 *
 * The checks that need not wait for the ranks begin at once. Then, if the order has the memory that was in use on each
 * GPU before the ranks started ("mib"), the memory is awaited to be free again, once the last rank of the host has ended.
 * The answer is {"t":"checked", "preflight":{…}} (lib/host/host_check.h).
 */
#include "preflight.h"

#include "agent.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/host/host_check.h"
#include "lib/process/call.h"
#include "lib/process/capture.h"
#include "lib/process/spawn.h"
#include "lib/protocol/wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RESULT 4096
#define MAX_OUTPUT 65536 /* of a program */

/* A GPU may have so many MiB more in use than before the ranks: other processes may have begun to use it. While more is
 * in use, it is read again this often. */
#define HELD_MIB     500
#define HELD_POLL_MS 250
/* How long GPU memory may take to be free again after the end of the last rank: less than the driver waits for that
 * (launcher/job/elastic.c). */
#define HELD_SECONDS 1.5

/* ---- in the process that checks ---- */

static int64_t free_bytes(const char *path)
{
	struct statvfs fs;

	if (statvfs(path, &fs) != 0)
		return -1;
	return fs.f_bavail > INT64_MAX / (fs.f_frsize ? fs.f_frsize : 1) ? INT64_MAX
									 : (int64_t)(fs.f_bavail * fs.f_frsize);
}

static int64_t limit(int which)
{
	struct rlimit rl;

	if (getrlimit((__rlimit_resource_t)which, &rl) != 0)
		return -1;
	return rl.rlim_cur == RLIM_INFINITY || rl.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)rl.rlim_cur;
}

/* The texts, one behind the other. */
static char *reason(const char *before, const char *what, const char *behind)
{
	char shown[HVD_HOST_CHECK_TEXT - 64];

	hvd_printable(what, shown, sizeof(shown));
	return hvd_xasprintf("%s%s%s", before, shown, behind);
}

/* The last line of `text` that has something; it is cut there. */
static const char *last_line(char *text)
{
	size_t len = strlen(text);
	char *line;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
		text[--len] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

/* MiB as nvidia-smi prints it; forget the list if it is none, as where a GPU is shared out (MIG). */
static void add_memory(json_t **mib, const char *text)
{
	char *end = NULL;
	long long used = text ? strtoll(text, &end, 10) : -1;

	if (*mib && used >= 0 && end != text && json_array_size(*mib) < HVD_HOST_CHECK_GPUS) {
		json_array_append_new(*mib, json_integer(used));
	} else {
		json_decref(*mib);
		*mib = NULL;
	}
}

/* One line of nvidia-smi: index, uncorrected ECC errors, pages that wait for their retirement, memory in use. A GPU
 * without these counters prints [N/A]; a lost GPU prints a text in place of numbers. */
static void check_gpu(struct hvd_host_check *check, char *line)
{
	char *save = NULL, *index = strtok_r(line, ",", &save), *errors = strtok_r(NULL, ",", &save),
	     *pending = strtok_r(NULL, ",", &save);

	check->gpus++;
	add_memory(&check->mib, strtok_r(NULL, ",", &save));
	if (check->gpu)
		return;
	if (!index || !errors || !pending || strstr(errors, "lost") || strstr(errors, "Unknown Error"))
		check->gpu = reason("nvidia-smi reports for a GPU: ", index ? index : "nothing", "");
	else if (strtoll(errors, NULL, 10) > 0)
		check->gpu = reason("a GPU has uncorrected ECC errors:", errors, "");
	else if (strstr(pending, "Yes"))
		check->gpu = reason("GPU ", index, " has memory pages pending retirement");
}

/* What nvidia-smi prints of these properties, a line for each GPU. As hvd_capture(). */
static char *query_gpus(const char *properties, hvd_time deadline, int *status, struct hvd_err *err)
{
	hvd_cleanup_free char *query = hvd_xasprintf("--query-gpu=%s", properties);
	char *argv[] = {(char *)"nvidia-smi", query, (char *)"--format=csv,noheader,nounits", NULL};
	struct hvd_spawn sp = {.path = argv[0], .argv = argv};
	size_t len;

	return hvd_capture(&sp, MAX_OUTPUT, deadline, &len, status, err);
}

static void check_gpus(struct hvd_host_check *check, hvd_time deadline)
{
	struct hvd_err why = {0};
	char *text, *save = NULL;
	int status = 0;

	text = query_gpus("index,ecc.errors.uncorrected.volatile.total,retired_pages.pending,memory.used", deadline,
			  &status, &why);
	if (!text && why.code == HVD_E_TIMEOUT)
		check->gpu = hvd_xstrdup("nvidia-smi hangs");
	if (!text)
		return;
	check->gpus = 0;
	check->mib = json_array();
	for (char *line = strtok_r(text, "\n", &save); status == 0 && line; line = strtok_r(NULL, "\n", &save))
		check_gpu(check, line);
	if (status != 0 && !strstr(text, "No devices were found"))
		check->gpu = reason("nvidia-smi fails: ", last_line(text), "");
	free(text);
}

/* Read nvidia-smi's list of the memory that is in use. NULL: it prints none. */
static json_t *memory_in_use(hvd_time deadline)
{
	json_t *mib = json_array();
	char *text, *save = NULL;
	int status = 0;

	text = query_gpus("memory.used", deadline, &status, NULL);
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		add_memory(&mib, line);
	free(text);
	if (status == 0 && json_array_size(mib) > 0)
		return mib;
	json_decref(mib);
	return NULL;
}

/* Name the first GPU that has more memory in use than `before`, by more than other processes may have taken since.
 * Returns -1 if there is none. */
static int first_held(const json_t *before, const json_t *now)
{
	for (size_t i = 0; i < json_array_size(now) && i < json_array_size(before); i++)
		if (json_integer_value(json_array_get(now, i)) >
		    json_integer_value(json_array_get(before, i)) + HELD_MIB)
			return (int)i;
	return -1;
}

/* Wait until the GPUs have as little memory in use as before the ranks. */
static void await_memory(struct hvd_host_check *check, const json_t *before, hvd_time deadline)
{
	json_t *now = NULL;
	int gpu = -1;

	do {
		if (now)
			poll(NULL, 0, HELD_POLL_MS);
		json_decref(now);
		now = memory_in_use(deadline);
		gpu = now ? first_held(before, now) : -1;
	} while (gpu >= 0 && hvd_left(deadline) > HELD_POLL_MS / 1e3);
	if (gpu >= 0)
		check->held = hvd_xasprintf("GPU %d has %lld MiB in use, and had %lld MiB before the ranks", gpu,
					    (long long)json_integer_value(json_array_get(now, (size_t)gpu)),
					    (long long)json_integer_value(json_array_get(before, (size_t)gpu)));
	json_decref(now);
}

static void ask_site(struct hvd_host_check *check, const char *hook, hvd_time deadline)
{
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exec \"$0\" 2>&1", (char *)hook, NULL};
	struct hvd_spawn sp = {.path = argv[0], .argv = argv};
	struct hvd_err why = {0};
	char ended[64];
	const char *line;
	int status = 0;
	size_t len;
	char *text = hvd_capture(&sp, MAX_OUTPUT, deadline, &len, &status, &why);

	if (!text) {
		check->hook = reason(why.code == HVD_E_TIMEOUT ? "it does not end" : "",
				     why.code == HVD_E_TIMEOUT ? "" : why.msg, "");
	} else if (status != 0) {
		line = last_line(text);
		check->hook = reason("", *line ? line : hvd_status_text(status, ended, sizeof(ended)), "");
	}
	free(text);
}

static void check_all(struct hvd_host_check *check, const struct hvd_preflight_order *order)
{
	check->tmp = free_bytes("/tmp");
	check->shm = free_bytes("/dev/shm");
	check->memlock = limit(RLIMIT_MEMLOCK);
	check->nofile = limit(RLIMIT_NOFILE);
	check_gpus(check, hvd_deadline_in(order->hook ? order->seconds / 2 : order->seconds));
	if (order->hook)
		ask_site(check, order->hook, hvd_deadline_in(order->seconds / 2));
}

static void check_and_write(int out, void *arg)
{
	const struct hvd_preflight_order *order = arg;
	struct hvd_host_check check = {.known = true, .tmp = -1, .shm = -1, .memlock = -1, .nofile = -1, .gpus = -1};
	json_t *object;
	char *text;

	if (order->mib)
		await_memory(&check, order->mib, hvd_deadline_in(order->seconds));
	else
		check_all(&check, order);
	object = hvd_host_check_json(&check);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	hvd_host_check_clear(&check);
	if (!text || write(out, text, strlen(text)) < 0)
		_exit(1);
}

/* ---- in the node agent ---- */

int hvd_preflight_order_read(const json_t *msg, struct hvd_preflight_order *order, struct hvd_err *err)
{
	int64_t ms;

	if (hvd_get_int(msg, "ms", 1, 3600000, &ms, err) != 0)
		return -1;
	*order = (struct hvd_preflight_order){.hook = json_string_value(json_object_get(msg, "hook")),
					      .seconds = (double)ms / 1000};
	return 0;
}

struct hvd_child_answer *hvd_preflight_start(struct event_base *base, const struct hvd_preflight_order *order,
					     void (*done)(json_t *result, void *arg), void *arg, struct hvd_err *err)
{
	struct hvd_preflight_order wanted = *order;
	int in;
	pid_t pid = hvd_call_begin(check_and_write, &wanted, &in, err);

	if (pid < 0)
		return NULL;
	return hvd_child_answer_begin(base, pid, in, MAX_RESULT, hvd_deadline_in(order->seconds + 1), done, arg);
}

json_t *hvd_preflight_result(json_t *result)
{
	return result ? json_incref(result)
		      : json_pack("{s:s}", "failed", "the checks of the host failed or took too long");
}

/* ---- the check between two generations ---- */

struct recheck {
	struct hvd_agent *agent;
	struct hvd_child_answer *check; /* under way, or over; NULL: none */
	json_t *result;                 /* of the first checks; NULL: there is none yet */
	json_t *mib;                    /* the GPUs' memory is to be awaited; NULL: it is not, or no longer */
	bool ranks;                     /* the ranks of the order's time have not all ended */
};

static bool has_ranks(const struct hvd_agent *agent)
{
	return agent->source->running(agent->ranks) > 0;
}

static void forget(void *arg)
{
	struct recheck *recheck = arg;

	hvd_child_answer_destroy(recheck->check);
	json_decref(recheck->result);
	json_decref(recheck->mib);
	recheck->check = NULL;
	recheck->result = recheck->mib = NULL;
}

static void answer(struct recheck *recheck)
{
	hvd_driver_client_send(recheck->agent->driver,
			       json_pack("{s:s, s:o}", "t", "checked", "preflight", recheck->result));
	recheck->result = NULL;
}

static void on_memory(json_t *result, void *arg)
{
	struct recheck *recheck = arg;
	json_t *held = json_object_get(result, "held");

	if (held)
		json_object_set(recheck->result, "held", held);
	answer(recheck);
}

/* Take the next step, if the ranks let it. */
static void go_on(struct recheck *recheck)
{
	struct hvd_preflight_order order = {.seconds = HELD_SECONDS, .mib = recheck->mib};

	if (!recheck->result || (recheck->mib && recheck->ranks))
		return;
	if (recheck->mib) {
		hvd_child_answer_destroy(recheck->check);
		recheck->check = hvd_preflight_start(recheck->agent->base, &order, on_memory, recheck, NULL);
		json_decref(recheck->mib);
		recheck->mib = NULL;
		if (recheck->check)
			return;
	}
	answer(recheck);
}

static void on_checked(json_t *result, void *arg)
{
	struct recheck *recheck = arg;

	recheck->result = hvd_preflight_result(result);
	go_on(recheck);
}

/* A check that is under way is given up for the new one. */
static void on_check(void *arg, const json_t *msg)
{
	struct recheck *recheck = arg;
	json_t *mib = json_object_get(msg, "mib");
	struct hvd_preflight_order order;

	forget(recheck);
	if (hvd_preflight_order_read(msg, &order, NULL) != 0)
		return;
	recheck->ranks = has_ranks(recheck->agent);
	recheck->mib = hvd_host_check_is_mib(mib) ? json_incref(mib) : NULL;
	recheck->check = hvd_preflight_start(recheck->agent->base, &order, on_checked, recheck, NULL);
}

static void on_rank_ended(void *arg, struct hvd_world_rank rank)
{
	struct recheck *recheck = arg;

	(void)rank;
	if (!recheck->ranks || has_ranks(recheck->agent))
		return;
	recheck->ranks = false;
	go_on(recheck);
}

const struct hvd_feature hvd_recheck_feature = {
	.size = sizeof(struct recheck),
	.messages = (const struct hvd_agent_message[]){{"check", on_check}, {NULL, NULL}},
	.rank_ended = on_rank_ended,
	.end = forget,
};
