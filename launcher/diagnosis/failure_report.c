/* SPDX-License-Identifier: Apache-2.0 */
#include "failure_report_internal.h"

#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#define MS INT64_C(1000000)
/* A busy host may notice the end of a process this late. So for this long after the launch has begun to end the ranks,
 * an error may still be a rank's own. */
#define NOTICED_NS (200 * MS)
/* How long Slurm may take to kill all ranks. */
#define TOGETHER_NS (1000 * MS)
/* Ranks that the launch or Slurm ends get SIGTERM first, and SIGKILL not before this. */
#define KILL_NS (2000 * MS)

struct hvd_failure_report *hvd_failure_report_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_failure_report));
}

void hvd_failure_report_of(struct hvd_failure_report *report, unsigned world, const char *role)
{
	report->world = world;
	report->role = role;
}

static void clear(struct hvd_failure *f)
{
	hvd_rank_end_clear(&f->end);
	free(f->host);
	*f = (struct hvd_failure){0};
}

void hvd_failure_report_destroy(struct hvd_failure_report *report)
{
	if (!report)
		return;
	for (int k = 0; k < HVD_FAILURE_KINDS; k++)
		for (uint32_t i = 0; i < report->kinds[k].n; i++)
			clear(&report->kinds[k].v[i]);
	free(report->killer);
	for (uint32_t i = 0; i < report->n_losses; i++)
		free((char *)report->losses[i].host);
	for (uint32_t i = 0; i < report->n_ways; i++) {
		free(report->ways[i].error);
		free(report->ways[i].host);
	}
	free(report);
}

/* ---- kinds of failures ---- */

/* The messages of ranks whose peers are gone: Python's exceptions and C's errno; Gloo; PyTorch's store and process
 * groups; NCCL; Horovod; MPI. */
static const char *const peer_errors[] = {
	"connection closed",
	"connection reset",
	"reset by peer",
	"closed by peer",
	"connection refused",
	"connection aborted",
	"connection was aborted",
	"connection was likely closed",
	"connection timed out",
	"broken pipe",
	"brokenpipeerror",
	"connectionreseterror",
	"connectionabortederror",
	"connectionrefusederror",
	"connectionerror",
	"closed connection",
	"socket closed",
	"socket timeout",
	"transport endpoint is not connected",
	"software caused connection abort",
	"no route to host",
	"gloo/transport",
	"connectfullmesh",
	"application timeout caused pair closure",
	"pair closure",
	"distnetworkerror",
	"diststoreerror",
	"remote peer",
	"failed to recv, got 0 bytes",
	"recvvalue",
	"sendbytes failed",
	"recvbytes failed",
	"collective operation timeout",
	"timed out waiting",
	"ncclremoteerror",
	"remote process exited or there was a network error",
	"nccl communicator was aborted",
	"ncclsystemerror",
	"unhandled system error",
	"horovodinternalerror",
	"horovod has been shut down",
	"horovodshutdownerror",
	"mpi_err_proc_failed",
	"store has been closed",
};

static bool says(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; text && i < n; i++)
		if (strcasestr(text, words[i]))
			return true;
	return false;
}

static bool is_peer_error(const char *error)
{
	return says(error, peer_errors, sizeof(peer_errors) / sizeof(peer_errors[0]));
}

/* Errors with words of those that are the rank's own mistake: a Gloo that was told of an interface which is not there names
 * its source file, gloo/transport/tcp/device.cc. */
static bool is_own_error(const char *error)
{
	static const char *const words[] = {"unable to find address for", "unable to find interface",
					    "no socket interface found"};

	return says(error, words, sizeof(words) / sizeof(words[0]));
}

/* The messages of a program that got a signal to end. */
static bool is_interruption(const char *error)
{
	static const char *const words[] = {"keyboardinterrupt", "signalexception", "systemexit"};

	return says(error, words, sizeof(words) / sizeof(words[0]));
}

/* The signal that ended the process; of a shell's status, too. 0 = none. */
static int signal_of(int status)
{
	int shell = hvd_status_exit(status) - 128;

	return shell > 0 && shell < 65 ? shell : 0;
}

static bool sent_by_others(int sig)
{
	return sig == SIGTERM || sig == SIGKILL || sig == SIGINT || sig == SIGHUP || sig == SIGXCPU;
}

static enum hvd_failure_kind kind_of(const struct hvd_failure_report *report, const struct hvd_failure *f)
{
	const struct hvd_rank_end *end = &f->end;
	int sig = signal_of(end->status);
	int64_t since = report->ending_at ? f->at - report->ending_at : 0;

	if (end->status == 0)
		return HVD_FAILURE_NONE;
	if (end->cause == HVD_END_OOM || end->cause == HVD_END_HOST_OOM || end->cause == HVD_END_NOT_STARTED)
		return HVD_FAILURE_OWN;
	if (since > 0 && (is_interruption(end->error) || since > NOTICED_NS) && !(sig && !sent_by_others(sig)))
		return HVD_FAILURE_KILLED;
	if (end->error)
		return is_peer_error(end->error) && !is_own_error(end->error) ? HVD_FAILURE_PEER : HVD_FAILURE_OWN;
	if (sig == SIGKILL && since < KILL_NS &&
	    (!report->first_ended || end->ended_at - report->first_ended < KILL_NS))
		return HVD_FAILURE_OWN;
	if (sent_by_others(sig) || (since > 0 && !sig))
		return HVD_FAILURE_KILLED;
	return HVD_FAILURE_OWN;
}

/* ---- what is kept ---- */

static char *copied(const char *text)
{
	return text ? hvd_xstrdup(text) : NULL;
}

static bool before(const struct hvd_failure *a, const struct hvd_failure *b)
{
	return a->at != b->at ? a->at < b->at : a->world != b->world ? a->world < b->world : a->end.rank < b->end.rank;
}

void hvd_failure_keep(struct hvd_failure_list *list, const struct hvd_failure *f)
{
	uint32_t at = list->n;

	list->count++;
	if (f->at > list->last)
		list->last = f->at;
	while (at > 0 && before(f, &list->v[at - 1]))
		at--;
	if (at == HVD_FAILURES_KEPT)
		return;
	if (list->n == HVD_FAILURES_KEPT)
		clear(&list->v[--list->n]);
	memmove(&list->v[at + 1], &list->v[at], (list->n - at) * sizeof(list->v[0]));
	list->n++;
	list->v[at] = *f;
	list->v[at].host = copied(f->host);
	list->v[at].end.error = copied(f->end.error);
	list->v[at].end.traceback = copied(f->end.traceback);
	list->v[at].end.tail = copied(f->end.tail);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

void hvd_failure_count_way(struct hvd_failure_report *report, const struct hvd_failure_way *more)
{
	struct hvd_failure_way *way = report->ways, *end = way + report->n_ways;

	while (way < end && !(way->status == more->status && same_text(way->error, more->error)))
		way++;
	if (way == end && report->n_ways == HVD_FAILURE_WAYS)
		return;
	if (way == end) {
		*way = (struct hvd_failure_way){
			.status = more->status, .error = copied(more->error), .host = copied(more->host)};
		report->n_ways++;
	}
	if (!same_text(way->host, more->host)) {
		free(way->host);
		way->host = NULL;
	}
	way->count += more->count;
}

/* Was it ended with all others, and was it not already failing because of another's failure? The interpreter of a rank
 * takes some time to end after a connection error, and the launch does not wait for that. */
static bool only_with_all(const struct hvd_failure_report *report, const struct hvd_failure *f)
{
	return f->end.cause == HVD_END_WITH_ALL &&
	       !(report->first_ended && f->end.failed_at && kind_of(report, f) == HVD_FAILURE_PEER);
}

void hvd_failure_report_add(struct hvd_failure_report *report, const struct hvd_rank_end *end, const char *host)
{
	/* Not owned: the pointers are those of the caller. */
	struct hvd_failure f = {.end = *end, .host = (char *)host, .world = report->world, .role = report->role};
	struct hvd_failure_way way = {.status = end->status, .error = end->error, .host = (char *)host, .count = 1};
	enum hvd_failure_kind kind;

	if (hvd_status_exit(end->status) > report->highest)
		report->highest = hvd_status_exit(end->status);
	f.at = end->failed_at && end->failed_at < end->ended_at ? end->failed_at : end->ended_at;
	if (only_with_all(report, &f)) {
		report->with_all += end->status != 0;
		if (end->status != 0 && (!report->with_all_at || end->ended_at < report->with_all_at))
			report->with_all_at = end->ended_at;
		return;
	}
	kind = kind_of(report, &f);
	hvd_failure_keep(&report->kinds[kind], &f);
	if (kind == HVD_FAILURE_OWN)
		hvd_failure_count_way(report, &way);
	if ((kind == HVD_FAILURE_OWN || kind == HVD_FAILURE_PEER) && end->cause != HVD_END_WITH_ALL &&
	    (!report->first_ended || end->ended_at < report->first_ended)) {
		report->first_ended = end->ended_at;
		report->first_status = end->status;
	}
}

/* ---- processes of the launch ---- */

static bool same_process(const struct hvd_loss *a, const struct hvd_loss *b)
{
	return strcmp(a->host, b->host) == 0 && a->rank == b->rank && a->of == b->of;
}

static void count_gone(struct hvd_failure_report *report, hvd_time at)
{
	if (report->gone == 0 || at < report->gone_first)
		report->gone_first = at;
	if (report->gone == 0 || at > report->gone_last)
		report->gone_last = at;
	report->gone++;
}

void hvd_failure_report_lost(struct hvd_failure_report *report, const struct hvd_loss *loss)
{
	struct hvd_loss *known = report->losses, *end = known + report->n_losses;
	const char *host;

	while (known < end && !same_process(known, loss))
		known++;
	if (known == end && loss->status < 0 && loss->of != HVD_LOSS_HOST)
		count_gone(report, loss->at);
	if (known < end && known->status < 0 && loss->status >= 0)
		report->gone--;
	if ((known == end && report->n_losses == HVD_LOSSES_KEPT) || (known < end && loss->status < 0))
		return;
	host = known < end ? known->host : hvd_xstrdup(loss->host);
	report->n_losses += known == end;
	*known = *loss;
	known->host = host;
}

/* Did several processes end at once, for an unknown reason? Then all processes of the step were killed, and none
 * failed first. The end of a rank that was killed then counts as one of them. */
static bool gone_at_once(const struct hvd_failure_report *report, const struct hvd_failure *first)
{
	bool killed = first && signal_of(first->end.status) == SIGKILL && !first->end.error &&
		      first->at < report->gone_last + TOGETHER_NS && first->at > report->gone_first - TOGETHER_NS;

	return report->gone + killed > 1 && report->gone_last - report->gone_first < TOGETHER_NS;
}

static bool explains(const struct hvd_failure_report *report, const struct hvd_loss *loss,
		     const struct hvd_failure *first, enum hvd_failure_kind kind)
{
	int64_t since = first ? first->at - loss->at : 0;

	/* Its rank has ended with a shim, unless all were being ended before; and ranks that were ended may have needed the
	 * others. */
	if (!first)
		return loss->of == HVD_LOSS_SHIM ? !report->with_all_at || loss->at < report->with_all_at + NOTICED_NS
						 : report->with_all > 0;
	if (since < -NOTICED_NS || kind == HVD_FAILURE_NONE)
		return false;
	if (kind == HVD_FAILURE_PEER)
		return true;
	if (loss->of == HVD_LOSS_HOST || loss->of == HVD_LOSS_SPAWNER)
		return since < HVD_FAILURE_EXPLAINS_NS;
	if (kind == HVD_FAILURE_KILLED)
		return since < HVD_FAILURE_EXPLAINS_NS;
	/* A rank ends with its shim, and others may fail by that in their own words. But a launcher such as mpirun kills the
	 * shims as soon as it sees a rank fail: then the loss is noticed after the failure. */
	if (loss->of == HVD_LOSS_SHIM)
		return since > 0 && since < HVD_FAILURE_EXPLAINS_NS;
	return since < HVD_FAILURE_EXPLAINS_NS && strcmp(loss->host, first->host) == 0;
}

const struct hvd_loss *hvd_failure_cause(const struct hvd_failure_report *report, const struct hvd_failure *first,
					 enum hvd_failure_kind kind)
{
	const struct hvd_loss *cause = NULL;

	for (uint32_t i = 0; i < report->n_losses; i++) {
		const struct hvd_loss *loss = &report->losses[i];

		if (loss->of != HVD_LOSS_HOST && gone_at_once(report, first))
			continue;
		if (explains(report, loss, first, kind) && (!cause || loss->at < cause->at))
			cause = loss;
	}
	return cause;
}

const struct hvd_loss *hvd_failure_report_loss(struct hvd_failure_report *report)
{
	enum hvd_failure_kind kind;
	const struct hvd_failure *first = hvd_failure_first(report, &kind);

	return hvd_failure_cause(report, first, kind);
}

bool hvd_failure_report_any(struct hvd_failure_report *report)
{
	return hvd_failure_first(report, NULL) || hvd_failure_report_loss(report);
}

int hvd_failure_report_highest(const struct hvd_failure_report *report)
{
	return report->highest;
}

void hvd_failure_report_ending(struct hvd_failure_report *report, hvd_time now)
{
	if (!report->ending_at)
		report->ending_at = now;
}

/* ---- the first ---- */

const struct hvd_failure *hvd_failure_first(const struct hvd_failure_report *report, enum hvd_failure_kind *kind)
{
	const struct hvd_failure_list *own = &report->kinds[HVD_FAILURE_OWN], *peer = &report->kinds[HVD_FAILURE_PEER],
				      *killed = &report->kinds[HVD_FAILURE_KILLED],
				      *well = &report->kinds[HVD_FAILURE_NONE];
	/* A scheduler ends the others when a first process has ended with a failure. So what was killed before that was
	 * not killed for another's sake. */
	bool killed_first = killed->n && report->first_ended && killed->v[0].end.ended_at < report->first_ended;
	enum hvd_failure_kind unwanted = HVD_FAILURE_OWN;

	kind = kind ? kind : &unwanted;
	*kind = HVD_FAILURE_OWN;
	if (own->n && !(killed_first && before(&killed->v[0], &own->v[0])))
		return &own->v[0];
	if (killed_first)
		return &killed->v[0];
	*kind = HVD_FAILURE_PEER;
	/* Others notice that connections are closed before the process that had them can be waited for. */
	if (peer->n && well->n && well->v[0].end.ended_at < report->first_ended + MS * 100) {
		*kind = HVD_FAILURE_NONE;
		return &well->v[0];
	}
	if (peer->n)
		return &peer->v[0];
	*kind = HVD_FAILURE_KILLED;
	return killed->n ? &killed->v[0] : NULL;
}

const struct hvd_rank_end *hvd_failure_report_first(struct hvd_failure_report *report, const char **host)
{
	const struct hvd_failure *first = hvd_failure_first(report, NULL);

	*host = first ? first->host : NULL;
	return first ? &first->end : NULL;
}

bool hvd_failure_report_killed(struct hvd_failure_report *report)
{
	const struct hvd_failure *first = hvd_failure_first(report, NULL);

	return first && (signal_of(first->end.status) == SIGKILL || signal_of(first->end.status) == SIGTERM) &&
	       !first->end.error && (first->end.cause == HVD_END_NONE || first->end.cause == HVD_END_WITH_ALL);
}

void hvd_failure_report_killer(struct hvd_failure_report *report, const char *text)
{
	free(report->killer);
	report->killer = copied(text);
}

int hvd_failure_report_status(struct hvd_failure_report *report)
{
	enum hvd_failure_kind kind;
	const struct hvd_failure *first = hvd_failure_first(report, &kind);

	/* The first connection error may be one of a rank that the launch has ended before it could end by itself. */
	if (first && (kind == HVD_FAILURE_NONE || first->end.cause == HVD_END_WITH_ALL))
		return report->first_status;
	return first ? first->end.status : 0;
}

bool hvd_failure_report_killed_together(struct hvd_failure_report *report)
{
	const struct hvd_failure_list *own = &report->kinds[HVD_FAILURE_OWN];

	return own->count > 1 && report->kinds[HVD_FAILURE_PEER].n == 0 && report->n_ways == 1 &&
	       report->ways[0].count == own->count && signal_of(report->ways[0].status) == SIGKILL &&
	       own->v[0].end.cause == HVD_END_NONE && own->last - own->v[0].at < TOGETHER_NS;
}

bool hvd_failure_report_own(const struct hvd_failure_report *report)
{
	enum hvd_failure_kind kind;

	return hvd_failure_first(report, &kind) && kind == HVD_FAILURE_OWN;
}

bool hvd_failure_report_interrupted(struct hvd_failure_report *report)
{
	const struct hvd_failure *first = hvd_failure_first(report, NULL);

	return first && hvd_rank_end_interrupted(&first->end);
}
