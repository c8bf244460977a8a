/* SPDX-License-Identifier: Apache-2.0 */
/* failure_text.c - the report of failures as lines for people, and as JSON. */
#include "failure_report_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "lib/process/spawn.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1e9
/* Bytes of last_lines(): what an event keeps. */
#define EVENT_LINES 900

/* Escaped. Caller frees. */
static char *shown(const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char *out = hvd_xcalloc(size, 1);

	hvd_printable(text, out, size);
	return out;
}

/* How it ended, with what is known of the cause. */
static const char *how(const struct hvd_rank_end *end, char buf[128])
{
	static const char *const causes[] = {"", ": out of memory", ": the host ran out of memory",
					     ": the program could not be started", ""};
	char text[64];

	snprintf(buf, 128, "%s%s", hvd_status_text(end->status, text, sizeof(text)), causes[end->cause]);
	return buf;
}

static const char *local_time(hvd_time at, char buf[32])
{
	int64_t wall = hvd_wall_at(at);
	time_t seconds = (time_t)(wall / 1000000000);
	struct tm tm;

	if (!localtime_r(&seconds, &tm))
		return "?";
	snprintf(buf, 32, "%02u:%02u:%02u.%03u", (unsigned)tm.tm_hour % 24, (unsigned)tm.tm_min % 60,
		 (unsigned)tm.tm_sec % 61, (unsigned)(wall / 1000000 % 1000));
	return buf;
}

/* ---- texts of the rank ---- */

/* The lines of `text` behind a mark that a rank cannot imitate. */
static void add_lines(char **out, const char *intro, const char *text)
{
	hvd_cleanup_free char *all = shown(text);

	hvd_xappendf(out, "\n  %s:", intro);
	for (char *save = NULL, *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		hvd_xappendf(out, "\n  | %s", line);
}

/* A traceback from standard error is part of its last lines, unless these are too few. */
static void add_texts(char **out, const struct hvd_rank_end *end)
{
	bool within = end->traceback && end->tail && strstr(end->tail, end->traceback);
	bool covers = !within && end->traceback && end->tail && strstr(end->traceback, end->tail);

	if (end->traceback && !within)
		add_lines(out, "its traceback", end->traceback);
	if (end->tail && !covers)
		add_lines(out, "the last lines of its standard error", end->tail);
}

/* ---- the others ---- */

/* From when to when, as seen from `first`. */
static void span(int64_t first, int64_t from, int64_t to, char buf[80])
{
	double least = (double)(from - first) / NS_PER_S, most = (double)(to - first) / NS_PER_S;
	char a[24], b[24];

	snprintf(a, sizeof(a), "%.2f", least < 0 ? -least : least);
	snprintf(b, sizeof(b), "%.2f", most < 0 ? -most : most);
	if (most < 0)
		snprintf(buf, 80, "up to %s s earlier", a);
	else if (least < -0.005)
		snprintf(buf, 80, "from %s s earlier to %s s later", a, b);
	else if (strcmp(a, b) == 0)
		snprintf(buf, 80, "%s s later", b);
	else
		snprintf(buf, 80, "%s to %s s later", a, b);
}

/* The failures of a kind, without the first failure. False: there are none. */
static bool others(const struct hvd_failure_list *list, const struct hvd_failure *first, uint32_t *n, char when[80])
{
	uint32_t from = list->n && first == &list->v[0];

	*n = list->count - from;
	if (*n)
		span(first->at, list->v[from].at, list->last, when);
	return *n > 0;
}

static void add_own(char **out, const struct hvd_failure_report *report, const struct hvd_failure *first)
{
	char when[80], text[64];
	uint32_t n;

	if (!others(&report->kinds[HVD_FAILURE_OWN], first, &n, when))
		return;
	hvd_xappendf(out, "\n  %u other rank%s failed %s", (unsigned)n, n == 1 ? "" : "s", when);
	for (uint32_t i = 0; i < report->n_ways; i++) {
		const struct hvd_failure_way *way = &report->ways[i];
		bool same = way->status == first->end.status &&
			    (way->error && first->end.error ? strcmp(way->error, first->end.error) == 0
							    : way->error == first->end.error);
		hvd_cleanup_free char *error = way->error ? shown(way->error) : NULL;
		uint32_t count = way->count - (same && first == &report->kinds[HVD_FAILURE_OWN].v[0]);

		if (count == 0)
			continue;
		hvd_xappendf(out, "\n    %u %s", (unsigned)count,
			     same ? "in the same way" : hvd_status_text(way->status, text, sizeof(text)));
		if (error && !same)
			hvd_xappendf(out, ", %.200s", error);
		if (way->host)
			hvd_xappendf(out, ", on %s", way->host);
	}
}

/* How long before the failure other processes of the launch were lost. */
static void add_losses(char **out, const struct hvd_failure_report *report, const struct hvd_failure *first,
		       const struct hvd_loss *cause)
{
	for (uint32_t i = 0; i < report->n_losses; i++) {
		const struct hvd_loss *loss = &report->losses[i];
		hvd_cleanup_free char *text = NULL, *host = NULL;

		if (loss == cause || loss->at > first->at)
			continue;
		text = hvd_loss_text(loss);
		host = shown(loss->host);
		hvd_xappendf(out, "\n  %s: %s %.2f s earlier", host, text, (double)(first->at - loss->at) / NS_PER_S);
	}
}

static void add_others(char **out, const struct hvd_failure_report *report, const struct hvd_failure *first)
{
	char when[80];
	uint32_t n, killed;

	add_own(out, report, first);
	if (others(&report->kinds[HVD_FAILURE_PEER], first, &n, when))
		hvd_xappendf(out, "\n  %u rank%s ended with %s %s", (unsigned)n, n == 1 ? "" : "s",
			     n == 1 ? "a connection error" : "connection errors", when);
	others(&report->kinds[HVD_FAILURE_KILLED], first, &killed, when);
	killed += report->with_all;
	if (killed)
		hvd_xappendf(out, "\n  %u rank%s ended by the launch or the scheduler", (unsigned)killed,
			     killed == 1 ? " was" : "s were");
}

/* ---- what to do ---- */

static bool begins(const char *text, const char *with)
{
	return text && strncmp(text, with, strlen(with)) == 0;
}

static const char *advice_on_memory(const struct hvd_rank_end *end)
{
	if (end->cause == HVD_END_OOM)
		return "the job reached its memory limit there: ask for more (srun --mem or --mem-per-cpu, bsub -M), "
		       "or use less in each rank";
	if (end->cause == HVD_END_HOST_OOM)
		return "the host ran out of memory: run fewer ranks on it, or have the scheduler limit jobs to the "
		       "memory they ask for";
	if (end->error && strstr(end->error, "CUDA out of memory"))
		return "the GPU ran out of memory: use smaller batches; nvidia-smi shows who else uses it";
	return NULL;
}

/* JAX, and NCCL's own words, which stand behind the line that names the exception. */
static const char *advice_on_frameworks(const struct hvd_rank_end *end)
{
	const char *text = end->traceback ? end->traceback : end->tail;

	if (begins(end->error, "ValueError: Number of processes must be defined") ||
	    begins(end->error, "ValueError: coordinator_address should be defined"))
		return "JAX finds its processes by itself in steps of srun only; elsewhere: jax.distributed.initialize("
		       "os.environ[\"JAX_COORDINATOR_ADDRESS\"], int(os.environ[\"WORLD_SIZE\"]), "
		       "int(os.environ[\"RANK\"]))";
	if (end->error && strstr(end->error, "Unable to find address for"))
		return "Gloo was told of an interface that this host lacks: leave GLOO_SOCKET_IFNAME out, and the "
		       "launch finds "
		       "one; or name one that all hosts have";
	if (text && strstr(text, "Duplicate GPU detected"))
		return "two ranks use one GPU: start no more ranks on a host than it has GPUs, and let each rank use "
		       "GPU LOCAL_RANK";
	if (end->error && strstr(end->error, "has failed to listen on any local network address") &&
	    strstr(end->error, "EADDRINUSE"))
		return "PyTorch before 2.7 tries to serve at the port at which the launch serves, unless "
		       "TORCHELASTIC_USE_AGENT_STORE=True is in its environment (export it where hvd cannot see the "
		       "version, as in a container); with a MASTER_PORT of the program's own, choose another port";
	return NULL;
}

static const char *advice_on_start(const struct hvd_rank_end *end)
{
	int status = hvd_status_exit(end->status);

	if (end->cause == HVD_END_NOT_STARTED) /* the error may say what to write, too */
		return end->error && strstr(end->error, "; ")
			       ? NULL
			       : "is the path right, and is the program there on that host?";
	if (status == 127 && !end->error)
		return "127 is a shell's status for a command that it has not found: is it in PATH on that host? "
		       "(module load, or the environment's activate)";
	if (status == 126 && !end->error)
		return "is the program executable on that host? (file system mounted noexec, permissions, another CPU)";
	if (begins(end->error, "ModuleNotFoundError") || begins(end->error, "ImportError"))
		return "is the module installed on that host, and is the same Python used there as on the others?";
	return NULL;
}

static const char *advice_on_signal(const struct hvd_rank_end *end)
{
	switch (hvd_status_exit(end->status) - 128) {
	case SIGBUS:
		return "there was no space for a file mapped into memory: is /dev/shm full there? (df /dev/shm; fewer "
		       "DataLoader workers use less)";
	case SIGSEGV:
	case SIGILL:
	case SIGFPE:
		return "native code crashed: PYTHONFAULTHANDLER=1 in the environment of the ranks shows where";
	case SIGKILL:
		return "find out who killed it: the scheduler, if a line above says CANCELLED (scancel, a time limit); "
		       "else the kernel for lack of memory (dmesg there), or a user";
	default:
		return NULL;
	}
}

/* Was the output of this launch piped to a program that reads no more? */
static bool reader_gone(void)
{
	struct pollfd outputs[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

	return poll(outputs, 2, 0) > 0 && ((outputs[0].revents | outputs[1].revents) & (POLLERR | POLLHUP));
}

static const char *advice_on_output(const struct hvd_rank_end *end)
{
	bool pipe =
		hvd_status_exit(end->status) == 128 + SIGPIPE || (end->error && strcasestr(end->error, "broken pipe"));

	return pipe && reader_gone()
		       ? "the program that read the output has ended (| head, | grep -m): the rank could write "
			 "no more"
		       : NULL;
}

/* A rank that ended with a connection error, though nothing had failed before. */
static const char *advice_on_connection(const struct hvd_rank_end *end)
{
	/* Newer ones raise DistNetworkError. */
	if (begins(end->error, "RuntimeError: Connection reset by peer") && end->traceback &&
	    strstr(end->traceback, "TCPStore("))
		return "its PyTorch is older than 2.2, which cannot use the launch's store: --store=rank0 (srun --hvd: "
		       "--hvd-store=rank0)";
	return "no rank failed for a reason of its own: did a host or the network fail?";
}

static const char *advice(const struct hvd_rank_end *end, enum hvd_failure_kind kind)
{
	const char *text;

	if (kind == HVD_FAILURE_NONE)
		return "do all ranks take the same number of steps? A rank that is done must wait for the others";
	text = advice_on_output(end);
	if (!text && kind == HVD_FAILURE_PEER)
		text = advice_on_connection(end);
	if (!text)
		text = advice_on_memory(end);
	if (!text)
		text = advice_on_frameworks(end);
	if (!text)
		text = advice_on_start(end);
	return text ? text : advice_on_signal(end);
}

/* ---- all of it ---- */

static const char *name_of(const struct hvd_failure *f, char buf[HVD_RANK_NAME])
{
	return hvd_rank_name_text(f->role, f->end.rank, buf);
}

static char *headline(const struct hvd_failure *first, enum hvd_failure_kind kind)
{
	hvd_cleanup_free char *host = shown(first->host);
	char buf[128], name[HVD_RANK_NAME];

	if (kind == HVD_FAILURE_NONE)
		return hvd_xasprintf("rank %s on %s ended too early: exit code 0, while others still needed it",
				     name_of(first, name), host);
	return hvd_xasprintf("rank %s on %s failed first: %s", name_of(first, name), host, how(&first->end, buf));
}

/* A process of the launch was lost first. */
static char *loss_headline(const struct hvd_loss *cause)
{
	hvd_cleanup_free char *host = shown(cause->host);
	char buf[64];

	if (cause->of == HVD_LOSS_HOST)
		return hvd_xasprintf("%s failed first: the host was lost", host);
	if (cause->of == HVD_LOSS_SHIM)
		return hvd_xasprintf(
			"the rank shim (hvd-shim) of rank %u on %s failed first: it ended without a message",
			(unsigned)cause->rank, host);
	return hvd_xasprintf("%s on %s failed first: %s", hvd_loss_name(cause), host,
			     cause->status < 0 ? "it ended without a message"
					       : hvd_status_text(cause->status, buf, sizeof(buf)));
}

/* The text about a loss and the failures that followed; `first` may be NULL. */
static char *loss_text(const struct hvd_failure_report *report, const struct hvd_loss *cause,
		       const struct hvd_failure *first, bool brief)
{
	char *out = loss_headline(cause), when[80], buf[128], name[HVD_RANK_NAME];

	if (brief)
		return out;
	hvd_xappendf(&out, "\n  %s, ", hvd_loss_duty(cause));
	if (cause->pid)
		hvd_xappendf(&out, "pid %d, ", (int)cause->pid);
	hvd_xappendf(&out, "at %s", local_time(cause->at, when));
	if (first) {
		hvd_cleanup_free char *host = shown(first->host);
		hvd_cleanup_free char *error = shown(first->end.error ? first->end.error : "");

		span(cause->at, first->at, first->at, when);
		hvd_xappendf(&out, "\n  the first rank to fail was rank %s on %s, %s: %s%s%s", name_of(first, name),
			     host, when, how(&first->end, buf), *error ? ": " : "", error);
		add_losses(&out, report, first, cause);
		add_others(&out, report, first);
	} else if (report->with_all) {
		hvd_xappendf(&out, "\n  %u rank%s ended by the launch or the scheduler", (unsigned)report->with_all,
			     report->with_all == 1 ? " was" : "s were");
	}
	if (cause->of == HVD_LOSS_HOST)
		hvd_xappendf(&out, "\n  did the host or its network fail?");
	else if (cause->status < 0 || hvd_status_exit(cause->status) == 128 + SIGKILL)
		hvd_xappendf(&out, "\n  " HVD_LOSS_HINT);
	return out;
}

char *hvd_failure_report_text(struct hvd_failure_report *report, bool brief)
{
	enum hvd_failure_kind kind;
	const struct hvd_failure *first = hvd_failure_first(report, &kind);
	const struct hvd_loss *cause = hvd_failure_report_loss(report);
	const char *todo;
	char *out, when[32];

	if (cause)
		return loss_text(report, cause, first, brief);
	if (!first)
		return NULL;
	out = headline(first, kind);
	if (first->end.error) {
		hvd_cleanup_free char *error = shown(first->end.error);

		hvd_xappendf(&out, "\n  %s", error);
	}
	if (brief)
		return out;
	hvd_xappendf(&out, "\n  local rank %u, ", (unsigned)first->end.local_rank);
	if (first->end.pid)
		hvd_xappendf(&out, "pid %d, ", (int)first->end.pid);
	hvd_xappendf(&out, "at %s", local_time(first->at, when));
	add_texts(&out, &first->end);
	add_losses(&out, report, first, NULL);
	add_others(&out, report, first);
	todo = report->killer && hvd_failure_report_killed(report) ? report->killer : advice(&first->end, kind);
	if (todo)
		hvd_xappendf(&out, "\n  %s", todo);
	return out;
}

void hvd_failure_report_log(struct hvd_failure_report *report, bool brief, const struct hvd_log *log)
{
	hvd_cleanup_free char *text = hvd_failure_report_text(report, brief);

	if (text)
		hvd_log_text(log, HVD_LOG_ERROR, text);
}

/* The end of the traceback, or else of the standard error, from the begin of a line. */
static const char *last_lines(const struct hvd_rank_end *end)
{
	const char *text = end->traceback ? end->traceback : end->tail, *line;
	const size_t len = text ? strlen(text) : 0;

	if (len <= EVENT_LINES)
		return text;
	line = strchr(text + len - EVENT_LINES, '\n');
	return line ? line + 1 : text + len - EVENT_LINES;
}

void hvd_failure_report_event(struct hvd_failure_report *report, struct hvd_event_log *events)
{
	hvd_cleanup_free char *text = hvd_failure_report_text(report, true);
	const struct hvd_failure *first = hvd_failure_first(report, NULL);

	if (text)
		hvd_event(events, FIRST_FAILURE, .world = first ? first->world : report->world,
			  .host = first ? first->host : NULL, .why = text,
			  .lines = first ? last_lines(&first->end) : NULL);
}

static void set_text(json_t *out, const char *key, const char *text)
{
	if (text) {
		hvd_cleanup_free char *safe = shown(text);

		json_object_set_new(out, key, json_string(safe));
	}
}

void hvd_failure_report_json(struct hvd_failure_report *report, json_t **first, json_t **counts)
{
	const struct hvd_failure *f = hvd_failure_first(report, NULL);
	const struct hvd_failure_list *kinds = report->kinds;
	char buf[64];

	*first = *counts = NULL;
	if (!f)
		return;
	*first =
		json_pack("{s:I, s:s, s:I, s:i, s:f}", "rank", (json_int_t)f->end.rank, "how",
			  hvd_status_text(f->end.status, buf, sizeof(buf)), "local_rank", (json_int_t)f->end.local_rank,
			  "status", hvd_status_exit(f->end.status), "time", (double)hvd_wall_at(f->at) / NS_PER_S);
	set_text(*first, "role", f->role);
	set_text(*first, "host", f->host);
	if (f->end.pid)
		json_object_set_new(*first, "pid", json_integer(f->end.pid));
	if (f->end.cause)
		json_object_set_new(*first, "cause", json_string(hvd_end_cause_name(f->end.cause)));
	set_text(*first, "error", f->end.error);
	set_text(*first, "traceback", f->end.traceback);
	set_text(*first, "stderr", f->end.tail);
	*counts = json_pack("{s:i, s:i, s:i}", "failed", (int)kinds[HVD_FAILURE_OWN].count, "connection_errors",
			    (int)kinds[HVD_FAILURE_PEER].count, "ended",
			    (int)(kinds[HVD_FAILURE_KILLED].count + report->with_all));
}
