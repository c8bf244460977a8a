/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_slurm.c - the nodes of a Slurm job, or of several, as the controller sees them.
 *
 * Slurm does not notify a user's program of changes, so the controller is polled: for the states of the job's nodes, and
 * for the user's jobs. If only the job that hvdrun runs in matters, the job is queried when a node has changed, and
 * every JOB_TURNS polls.
 *
 * A thread polls, since Slurm's commands may take long. It passes a result that differs from the last one to the event
 * loop, and then sleeps: for --discovery-interval, or for a second, or longer if the answers take much of the time. When a
 * node or a job goes, its node agents go, too; the caller notices that at once, and nudges. The thread ends with the
 * discovery. If a command does not end then, the thread is left behind, and ends later without touching the discovery.
 */
#include "discovery_kind.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MAX  15.0 /* seconds; of a cluster with very many nodes */
#define INTERVAL_SOON 0.1  /* after a nudge */
#define JOB_TURNS     10   /* polls between two queries for our own job, while nothing changes */
#define PATIENCE      2.0  /* seconds to wait for the thread's end */

/* Shared by the event loop and the thread; the last of them frees it. */
struct watch {
	pthread_mutex_t lock; /* for the members below, except the thread's own */
	pthread_cond_t wake;
	int refs;
	int fd; /* an eventfd: there is something for the loop */
	bool stop, nudged;
	bool posted; /* hosts or a failure that the event loop has not taken */
	struct hvd_slurm_hosts found;
	struct hvd_err why; /* when its code is not HVD_OK: the failure, in place of hosts */
	/* The thread's own. */
	struct hvd_slurm_nodes nodes;
	struct hvd_discovery_opts opts;
	struct hvd_slurm_job *jobs; /* the controller's last answer */
	size_t n_jobs;
	int turns;   /* polls since the last query for jobs */
	double cost; /* of a poll, in seconds: a moving average */
	struct hvd_slurm_hosts last;
	bool any;
};

struct own {
	struct watch *watch;
	pthread_t thread;
	struct event *ready;
	struct hvd_strv notes; /* that were logged */
};

static void forget_jobs(struct watch *w)
{
	hvd_slurm_jobs_free(w->jobs, w->n_jobs);
	w->jobs = NULL;
	w->n_jobs = 0;
}

static void release(struct watch *w)
{
	pthread_mutex_lock(&w->lock);
	const bool last = --w->refs == 0;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	if (w->fd >= 0)
		close(w->fd);
	hvd_slurm_hosts_clear(&w->found);
	hvd_slurm_hosts_clear(&w->last);
	hvd_slurm_nodes_clear(&w->nodes);
	forget_jobs(w);
	hvd_discovery_opts_clear(&w->opts);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* ---- the thread ---- */

static bool same_names(const struct hvd_strv *a, const struct hvd_strv *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->v[i], b->v[i]) == 0;
	return same;
}

/* GPUs stay what they are as long as a job has the same hosts: then take them over from the former answer. */
static void find_gpus(struct hvd_slurm_job *job, struct hvd_slurm_job *before, size_t n, hvd_time until)
{
	for (size_t i = 0; i < n && !job->gpus; i++)
		if (before[i].id == job->id && same_names(&before[i].hosts, &job->hosts)) {
			job->gpus = before[i].gpus;
			before[i].gpus = NULL;
		}
	hvd_slurm_job_gpus(job, until);
}

static int ask(struct watch *w, hvd_time until, struct hvd_err *err)
{
	struct hvd_slurm_job *jobs = NULL;
	size_t n = 0;

	if (w->opts.jobs) {
		if (hvd_slurm_jobs_get(&jobs, &n, until, err) != 0)
			return -1;
	} else {
		jobs = hvd_xcalloc(1, sizeof(*jobs));
		n = hvd_slurm_job_get(w->opts.job, jobs, until, err) == 0;
		if (!n) {
			free(jobs);
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (hvd_slurm_hosts_by_gpus(&w->opts, &jobs[i]))
			find_gpus(&jobs[i], w->jobs, w->n_jobs, until);
	forget_jobs(w);
	w->jobs = jobs;
	w->n_jobs = n;
	w->turns = 0;
	return 0;
}

static int ask_nodes(struct watch *w, hvd_time until, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	for (size_t i = 0; i < w->n_jobs; i++)
		if (hvd_slurm_hosts_wants(&w->opts, &w->jobs[i]))
			hvd_strv_add_all(&names, w->jobs[i].hosts.v);
	return hvd_slurm_nodes_get(&names, &w->nodes, until, err);
}

static int poll_once(struct watch *w, struct hvd_slurm_hosts *found, struct hvd_err *err)
{
	const hvd_time until = hvd_deadline_in(HVD_SLURM_SECONDS);
	/* If the states of nodes are hidden, only the job shows changes. */
	bool asked = w->opts.jobs || !w->n_jobs || w->nodes.hidden || ++w->turns >= JOB_TURNS;

	if ((asked && ask(w, until, err) != 0) || ask_nodes(w, until, err) != 0)
		return -1;
	hvd_slurm_hosts_make(found, &w->opts, w->jobs, w->n_jobs, &w->nodes);
	if (asked || hvd_slurm_hosts_same(found, &w->last))
		return 0;
	/* Is the node whose state has changed still part of the job? */
	hvd_slurm_hosts_clear(found);
	if (ask(w, until, err) != 0)
		return -1;
	hvd_slurm_hosts_make(found, &w->opts, w->jobs, w->n_jobs, &w->nodes);
	return 0;
}

/* The event loop gets a copy: the thread keeps its own to compare with. */
static void copy_hosts(const struct hvd_slurm_hosts *from, struct hvd_slurm_hosts *to)
{
	memset(to, 0, sizeof(*to));
	hvd_alloc_copy(&from->hosts, &to->hosts);
	to->leaving = from->n_leaving ? hvd_xcalloc(from->n_leaving, sizeof(*to->leaving)) : NULL;
	for (; to->n_leaving < from->n_leaving; to->n_leaving++) {
		to->leaving[to->n_leaving].host = hvd_xstrdup(from->leaving[to->n_leaving].host);
		to->leaving[to->n_leaving].seconds = from->leaving[to->n_leaving].seconds;
	}
	hvd_strv_add_all(&to->notes, from->notes.v);
}

/* With the lock held. */
static void post(struct watch *w, const struct hvd_err *why)
{
	const uint64_t one = 1;

	hvd_slurm_hosts_clear(&w->found);
	w->why = *why;
	if (why->code == HVD_OK)
		copy_hosts(&w->last, &w->found);
	w->posted = true;
	if (write(w->fd, &one, sizeof(one)) < 0) {
		/* The counter is full: then the event loop is awake. */
	}
}

/* When Slurm suspends this process's own job it stops the command as well, and its controller does not wait for the command.
 * So a command that has failed is tried again. */
static int poll_with_retry(struct watch *w, struct hvd_slurm_hosts *found, struct hvd_err *err)
{
	int rc = poll_once(w, found, err);

	if (rc == 0 || err->code != HVD_E_FAILED)
		return rc;
	*err = (struct hvd_err){0};
	return poll_once(w, found, err);
}

static void look_once(struct watch *w)
{
	struct hvd_slurm_hosts found = {0};
	struct hvd_err why = {0};
	bool fresh;

	if (poll_with_retry(w, &found, &why) == 0) {
		fresh = !w->any || !hvd_slurm_hosts_same(&found, &w->last);
		if (fresh) {
			hvd_slurm_hosts_clear(&w->last);
			w->last = found;
		} else {
			hvd_slurm_hosts_clear(&found);
		}
		w->any = true;
	} else {
		fresh = true;
		w->any = false; /* after a failure the next hosts are reported even if they are the same */
	}
	pthread_mutex_lock(&w->lock);
	if (fresh && !w->stop)
		post(w, &why);
	pthread_mutex_unlock(&w->lock);
}

/* Sleep for so many seconds, or until shortly after a nudge, since more nudges may follow. False: the thread must
 * end. */
static bool rest(struct watch *w, double seconds)
{
	const hvd_time until = hvd_deadline_in(seconds), soon = hvd_deadline_in(INTERVAL_SOON);
	struct timespec ts;
	bool stop;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		const hvd_time end = w->nudged ? hvd_earlier(soon, until) : until;

		ts.tv_sec = end / 1000000000;
		ts.tv_nsec = end % 1000000000;
		if (pthread_cond_timedwait(&w->wake, &w->lock, &ts) == ETIMEDOUT && hvd_now() >= end)
			break;
	}
	if (w->nudged)
		w->turns = JOB_TURNS;
	w->nudged = false;
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return !stop;
}

static void *run(void *arg)
{
	struct watch *w = arg;

	do {
		const hvd_time before = hvd_now();

		look_once(w);
		w->cost += ((double)(hvd_now() - before) / 1e9 - w->cost) / 4;
	} while (rest(w, hvd_discovery_pause(&w->opts, w->cost, INTERVAL_MAX)));
	release(w);
	return NULL;
}

/* ---- the loop ---- */

static void log_notes(struct hvd_discovery *s, struct own *own, const struct hvd_strv *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		if (hvd_strv_has(&own->notes, notes->v[i]))
			continue;
		hvd_warn(s->log, "%s", notes->v[i]);
		hvd_strv_add(&own->notes, notes->v[i]);
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_discovery *s = arg;
	struct own *own = s->own;
	struct watch *w = own->watch;
	struct hvd_slurm_hosts found;
	struct hvd_err why;
	uint64_t count;
	bool posted;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0) {
		/* There is nothing to read. */
	}
	pthread_mutex_lock(&w->lock);
	posted = w->posted;
	found = w->found;
	why = w->why;
	memset(&w->found, 0, sizeof(w->found));
	w->posted = false;
	pthread_mutex_unlock(&w->lock);
	if (!posted)
		return;
	log_notes(s, own, &found.notes);
	if (why.code == HVD_OK)
		hvd_discovery_found(s, &found);
	else
		hvd_discovery_failed(s, &why);
	hvd_slurm_hosts_clear(&found);
}

static int begin_thread(struct hvd_discovery *s, struct own *own, struct hvd_err *err)
{
	sigset_t all, before;
	int rc;

	/* The event loop handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	own->watch->refs++;
	rc = pthread_create(&own->thread, NULL, run, own->watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0) {
		own->ready = event_new(s->base, own->watch->fd, EV_READ | EV_PERSIST, on_ready, s);
		event_add(own->ready, NULL);
		return 0;
	}
	own->watch->refs--;
	errno = rc;
	return hvd_err_sys(err, "cannot start a thread");
}

static int begin(struct hvd_discovery *s, struct hvd_err *err)
{
	struct own *own = hvd_xcalloc(1, sizeof(*own));
	struct watch *w = hvd_xcalloc(1, sizeof(*w));
	pthread_condattr_t attr;

	s->own = own;
	own->watch = w;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	w->refs = 1;
	w->opts.job = s->opts.job;
	w->opts.slots_per_host = s->opts.slots_per_host;
	w->opts.interval = s->opts.interval;
	w->opts.jobs = s->opts.jobs ? hvd_xstrdup(s->opts.jobs) : NULL;
	hvd_alloc_copy(&s->opts.hosts, &w->opts.hosts);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return hvd_err_sys(err, "cannot make an eventfd");
	return begin_thread(s, own, err);
}

/* False: the thread still waits for the controller. */
static bool has_stopped(struct watch *w)
{
	const hvd_time end = hvd_deadline_in(PATIENCE);
	const struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	bool stopped;

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	while (w->refs > 1 && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0)
		;
	stopped = w->refs == 1;
	pthread_mutex_unlock(&w->lock);
	return stopped;
}

static void end(struct hvd_discovery *s)
{
	struct own *own = s->own;

	if (!own)
		return;
	if (own->ready) {
		event_free(own->ready);
		if (has_stopped(own->watch))
			pthread_join(own->thread, NULL);
		else
			pthread_detach(own->thread);
	}
	release(own->watch);
	hvd_strv_free(&own->notes);
	free(own);
}

static void nudge(struct hvd_discovery *s)
{
	struct watch *w = ((struct own *)s->own)->watch;

	pthread_mutex_lock(&w->lock);
	w->nudged = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

const struct hvd_discovery_kind hvd_discovery_slurm = {.name = "slurm", .begin = begin, .end = end, .nudge = nudge};
