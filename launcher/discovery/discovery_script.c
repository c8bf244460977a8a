/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_script.c - a discovery script, run again and again.
 *
 * One process runs at a time, in a process group of its own. Its stdout is collected, its stderr is hvdrun's. A run is
 * over when the process has ended, even if other processes still have its stdout open: those that it left behind are
 * killed. A script that takes too long, prints too much, or runs when the discovery is destroyed is killed as well. The
 * next run starts --discovery-interval after the last one started: by default a second, or more for a heavy script
 * (hvd_discovery_pause()).
 */
#include "discovery_kind.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/process_watch.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTERVAL_MAX 10.0 /* seconds; of a heavy script */
#define TIME_LIMIT   30.0 /* seconds that a run may take */
#define OUTPUT_MAX   (1u << 20)
#define TOO_MUCH     "printed more than a megabyte, and was killed"

struct own {
	struct hvd_timer *next; /* start the next run, or end the one that takes too long */
	struct event *out;      /* its stdout */
	struct event *ended;    /* its end */
	pid_t pid;              /* 0: none runs */
	int out_fd, pid_fd;     /* pid_fd: hvd_child_watch() */
	const char *cause;      /* why this run was killed; NULL: it was not */
	hvd_time began, due;    /* of this run; the next one is due, when none runs */
	char *text, *last;      /* output of this run; of the last good one */
	size_t len, room, last_len;
};

/* ---- what it printed ---- */

static int add_line(struct hvd_alloc *out, const char *line, size_t len, int default_slots, struct hvd_err *err)
{
	hvd_cleanup_free char *name = NULL;
	int slots, at;

	if (hvd_alloc_parse_host(line, len, default_slots, &name, &slots, err) != 0)
		return -1;
	at = hvd_alloc_find(out, name);
	if (at < 0)
		return hvd_alloc_add(out, name, slots, err);
	out->slots += slots - out->hosts[at].slots;
	out->hosts[at].slots = slots;
	return out->slots > HVD_MAX_RANKS ? hvd_err_set(err, HVD_E_LIMIT, "too many slots") : 0;
}

int hvd_script_parse(const char *text, size_t len, int default_slots, struct hvd_alloc *out, struct hvd_err *err)
{
	const char *end = text + len;

	memset(out, 0, sizeof(*out));
	for (int number = 1; text < end; number++) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((eol ? eol : end) - text), blank = 0;

		while (blank < n && strchr(" \t\r", text[blank]) && text[blank])
			blank++;
		if (blank < n && add_line(out, text, n, default_slots < 1 ? 1 : default_slots, err) != 0) {
			hvd_err_prefix(err, "line %d of its output", number);
			hvd_alloc_clear(out);
			return -1;
		}
		text += n + 1;
	}
	return 0;
}

/* ---- a run and its end ---- */

static void close_run(struct own *own)
{
	if (own->out)
		event_free(own->out);
	if (own->ended)
		event_free(own->ended);
	if (own->out_fd >= 0)
		close(own->out_fd);
	if (own->pid_fd >= 0)
		close(own->pid_fd);
	own->out = own->ended = NULL;
	own->out_fd = own->pid_fd = -1;
}

/* The script has ended: kill what it started, and reap it. *cpu: seconds of a core that it took. */
static int reap(struct own *own, double *cpu)
{
	struct rusage usage = {0};
	int status = 0;

	/* The group exists as long as its leader is not reaped. */
	kill(-own->pid, SIGKILL);
	while (wait4(own->pid, &status, 0, &usage) < 0)
		if (errno != EINTR) {
			status = 1 << 8;
			break;
		}
	own->pid = 0;
	*cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	return status;
}

static void again(const struct hvd_discovery *s, double cpu)
{
	struct own *own = s->own;

	own->due = own->began + (hvd_time)(hvd_discovery_pause(&s->opts, cpu, INTERVAL_MAX) * 1e9);
	hvd_timer_at(own->next, own->due);
}

/* True at the end of its output. */
static bool collect(struct own *own)
{
	while (own->len <= OUTPUT_MAX) {
		ssize_t n;

		if (own->len + 4096 > own->room) {
			own->room = own->len + 8192;
			own->text = hvd_xrealloc(own->text, own->room, 1);
		}
		n = read(own->out_fd, own->text + own->len, own->room - own->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		own->len += (size_t)n;
	}
	return true;
}

/* Kill the script; on_ended() reports it. */
static void stop(struct own *own, const char *cause)
{
	if (own->cause)
		return;
	own->cause = cause;
	kill(-own->pid, SIGKILL);
}

static void failed(struct hvd_discovery *s, struct hvd_err *why)
{
	hvd_err_prefix(why, "the discovery script %.200s", s->opts.script);
	if (!why->hint[0])
		hvd_err_hint(why, "it must print a line host or host:slots for each host, and exit with status 0; its "
				  "standard error is shown above");
	hvd_discovery_failed(s, why);
}

/* The discovery may have been freed afterwards. */
static void on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_discovery *s = arg;
	struct own *own = s->own;
	struct hvd_slurm_hosts found = {0};
	struct hvd_err why = {0};
	char text[64];
	double cpu;
	int status;

	(void)what;
	if (!hvd_child_ended(fd, own->pid))
		return;
	collect(own);
	if (!own->cause && own->len > OUTPUT_MAX)
		own->cause = TOO_MUCH;
	status = reap(own, &cpu);
	close_run(own);
	again(s, cpu);
	if (own->cause) {
		hvd_err_set(&why, HVD_E_FAILED, "it %s", own->cause);
	} else if (status != 0) {
		hvd_err_set(&why, HVD_E_FAILED, "%s", hvd_status_text(status, text, sizeof(text)));
	} else if (own->last && own->len == own->last_len && memcmp(own->text, own->last, own->len) == 0 &&
		   !s->said[0]) {
		return; /* the same output as the last time */
	} else if (hvd_script_parse(own->text, own->len, s->opts.slots_per_host, &found.hosts, &why) == 0) {
		free(own->last);
		own->last = own->text;
		own->last_len = own->len;
		own->text = NULL;
		own->room = 0;
		hvd_discovery_found(s, &found);
		hvd_slurm_hosts_clear(&found);
		return;
	}
	failed(s, &why);
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	struct own *own = ((struct hvd_discovery *)arg)->own;

	(void)fd;
	(void)what;
	if (collect(own))
		event_del(own->out); /* at end of file it would stay readable */
	if (own->len > OUTPUT_MAX)
		stop(own, TOO_MUCH);
}

/* End a run at once. A process that SIGKILL does not end within a second is left for init to reap. */
static void end_run(struct own *own)
{
	int status;

	if (own->pid) {
		kill(-own->pid, SIGKILL);
		hvd_wait(own->pid, hvd_deadline_in(1), &status, NULL);
	}
	own->pid = 0;
	close_run(own);
}

/* ---- starting ---- */

/* A path is executed directly; anything else is a command line for a shell. */
static bool is_path(const char *s)
{
	return s[strcspn(s, " \t\n|&;<>()$`\\\"'*?[]#~=%!{}")] == '\0' && strchr(s, '/');
}

static int start(struct hvd_discovery *s, struct hvd_err *err)
{
	struct own *own = s->own;
	char *shell[] = {(char[]){"sh"}, (char[]){"-c"}, s->opts.script, NULL};
	char *plain[] = {s->opts.script, NULL};
	struct hvd_spawn spawn = {.argv = is_path(s->opts.script) ? plain : shell,
				  .envp = s->opts.envp,
				  .new_group = 1,
				  .parent_death_signal = SIGKILL};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	spawn.path = spawn.argv[0];
	hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	hvd_spawn_fd(&spawn, fds[1], STDOUT_FILENO);
	own->pid = hvd_spawn(&spawn, err);
	if (own->pid < 0 && spawn.argv == plain) {
		/* A script without "#!", or one that cannot be run: the shell runs it, or prints the reason. */
		spawn.argv = shell;
		spawn.path = shell[0];
		own->pid = hvd_spawn(&spawn, err);
	}
	close(fds[1]);
	if (own->pid < 0) {
		own->pid = 0;
		close(fds[0]);
		return -1;
	}
	own->out_fd = fds[0];
	fcntl(own->out_fd, F_SETFL, O_NONBLOCK);
	own->pid_fd = hvd_child_watch(own->pid);
	if (own->pid_fd < 0) {
		hvd_err_sys(err, "cannot watch a process");
		end_run(own);
		return -1;
	}
	own->out = event_new(s->base, own->out_fd, EV_READ | EV_PERSIST, on_output, s);
	own->ended = event_new(s->base, own->pid_fd, EV_READ | EV_PERSIST, on_ended, s);
	event_add(own->out, NULL);
	event_add(own->ended, NULL);
	return 0;
}

static void on_time(void *arg)
{
	struct hvd_discovery *s = arg;
	struct own *own = s->own;
	struct hvd_err why = {0};

	if (own->pid) {
		stop(own, "did not end in time, and was killed");
		return;
	}
	own->began = hvd_now();
	own->len = 0;
	own->cause = NULL;
	if (start(s, &why) == 0) {
		hvd_timer_at(own->next, hvd_deadline_in(s->opts.time_limit > 0 ? s->opts.time_limit : TIME_LIMIT));
		return;
	}
	again(s, 0);
	failed(s, &why);
}

static int begin(struct hvd_discovery *s, struct hvd_err *err)
{
	struct own *own = hvd_xcalloc(1, sizeof(*own));

	(void)err;
	own->out_fd = own->pid_fd = -1;
	s->own = own;
	own->next = hvd_timer_new(s->base, on_time, s);
	hvd_timer_soon(own->next);
	return 0;
}

static void end(struct hvd_discovery *s)
{
	struct own *own = s->own;

	if (!own)
		return;
	end_run(own);
	hvd_timer_free(own->next);
	free(own->text);
	free(own->last);
	free(own);
}

static void nudge(struct hvd_discovery *s)
{
	struct own *own = s->own;

	if (!own->pid && hvd_timer_runs(own->next))
		hvd_timer_at(own->next, hvd_earlier(own->due, hvd_deadline_in(0.1)));
}

const struct hvd_discovery_kind hvd_discovery_script = {.name = "script", .begin = begin, .end = end, .nudge = nudge};
