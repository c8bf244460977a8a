/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.c - the process that checks the host, see preflight.h. It is forked, writes one JSON text into a pipe, and
 * ends. It dies with this process; the programs that it runs die with it.
 */
#include "preflight.h"

#include "lib/base/deadline.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/job/host_check.h"
#include "lib/process/call.h"
#include "lib/process/capture.h"
#include "lib/process/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FOUND  4096
#define MAX_OUTPUT 65536 /* of a program */

struct hvd_preflight {
	pid_t pid;
	int fd;
	struct event *readable, *late;
	char found[MAX_FOUND];
	size_t len;
	void (*done)(json_t *found, void *arg);
	void *arg;
};

/* ---- in the process that looks ---- */

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

/* One line of nvidia-smi: index, uncorrected ECC errors, pages that wait for their retirement. A GPU without these
 * counters prints [N/A]; a lost GPU prints a text in place of numbers. */
static void look_at_gpu(struct hvd_host_check *check, char *line)
{
	char *save = NULL, *index = strtok_r(line, ",", &save), *errors = strtok_r(NULL, ",", &save),
	     *pending = strtok_r(NULL, ",", &save);

	check->gpus++;
	if (check->gpu)
		return;
	if (!index || !errors || !pending || strstr(errors, "lost") || strstr(errors, "Unknown Error"))
		check->gpu = reason("nvidia-smi reports for a GPU: ", index ? index : "nothing", "");
	else if (strtoll(errors, NULL, 10) > 0)
		check->gpu = reason("a GPU has uncorrected ECC errors:", errors, "");
	else if (strstr(pending, "Yes"))
		check->gpu = reason("GPU ", index, " has memory pages pending retirement");
}

static void look_at_gpus(struct hvd_host_check *check, hvd_time deadline)
{
	char *argv[] = {(char *)"nvidia-smi",
			(char *)"--query-gpu=index,ecc.errors.uncorrected.volatile.total,retired_pages.pending",
			(char *)"--format=csv,noheader,nounits", NULL};
	struct hvd_spawn sp = {.path = argv[0], .argv = argv};
	struct hvd_err why = {0};
	char *text, *save = NULL;
	int status = 0;
	size_t len;

	text = hvd_capture(&sp, MAX_OUTPUT, deadline, &len, &status, &why);
	if (!text && why.code == HVD_E_TIMEOUT)
		check->gpu = hvd_xstrdup("nvidia-smi hangs");
	if (!text)
		return;
	check->gpus = 0;
	for (char *line = strtok_r(text, "\n", &save); status == 0 && line; line = strtok_r(NULL, "\n", &save))
		look_at_gpu(check, line);
	if (status != 0 && !strstr(text, "No devices were found"))
		check->gpu = reason("nvidia-smi fails: ", last_line(text), "");
	free(text);
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

static char *look(const char *hook, double seconds)
{
	struct hvd_host_check check = {.known = true, .gpus = -1};
	json_t *object;
	char *text;

	check.tmp = free_bytes("/tmp");
	check.shm = free_bytes("/dev/shm");
	check.memlock = limit(RLIMIT_MEMLOCK);
	check.nofile = limit(RLIMIT_NOFILE);
	look_at_gpus(&check, hvd_deadline_in(hook ? seconds / 2 : seconds));
	if (hook)
		ask_site(&check, hook, hvd_deadline_in(seconds / 2));
	object = hvd_host_check_json(&check);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	hvd_host_check_clear(&check);
	return text;
}

struct wanted {
	const char *hook;
	double seconds;
};

static void look_and_tell(int out, void *arg)
{
	const struct wanted *wanted = arg;
	char *text = look(wanted->hook, wanted->seconds);

	if (!text || write(out, text, strlen(text)) < 0)
		_exit(1);
}

/* ---- in the node agent ---- */

static void end_child(struct hvd_preflight *pf)
{
	if (pf->pid > 0)
		hvd_end(pf->pid, 0, NULL);
	pf->pid = 0;
}

static void finish(struct hvd_preflight *pf)
{
	json_t *found;

	event_del(pf->readable);
	event_del(pf->late);
	end_child(pf);
	found = json_loadb(pf->found, pf->len, 0, NULL);
	if (!json_is_object(found)) {
		json_decref(found);
		found = json_pack("{s:s}", "failed", "the checks of the host failed or took too long");
	}
	pf->done(found, pf->arg);
	json_decref(found);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_preflight *pf = arg;
	ssize_t n = read(fd, pf->found + pf->len, sizeof(pf->found) - pf->len);

	(void)what;
	if (n > 0)
		pf->len += (size_t)n;
	if (n <= 0 || pf->len == sizeof(pf->found))
		finish(pf);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	finish(arg);
}

struct hvd_preflight *hvd_preflight_start(struct event_base *base, const char *hook, double seconds,
					  void (*done)(json_t *found, void *arg), void *arg, struct hvd_err *err)
{
	struct timeval tv = hvd_left_tv(hvd_deadline_in(seconds + 1));
	struct wanted wanted = {.hook = hook, .seconds = seconds};
	struct hvd_preflight *pf;
	int in;
	pid_t pid = hvd_call_begin(look_and_tell, &wanted, &in, err);

	if (pid < 0)
		return NULL;
	pf = hvd_xcalloc(1, sizeof(*pf));
	pf->pid = pid;
	pf->fd = in;
	pf->done = done;
	pf->arg = arg;
	pf->readable = event_new(base, pf->fd, EV_READ | EV_PERSIST, on_readable, pf);
	pf->late = evtimer_new(base, on_late, pf);
	event_add(pf->readable, NULL);
	event_add(pf->late, &tv);
	return pf;
}

void hvd_preflight_destroy(struct hvd_preflight *pf)
{
	if (!pf)
		return;
	end_child(pf);
	event_free(pf->readable);
	event_free(pf->late);
	close(pf->fd);
	free(pf);
}
