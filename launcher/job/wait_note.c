/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_note.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/munge.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define NOTE_SECONDS 2

struct hvd_wait_note {
	const struct hvd_log *log;
	pthread_t thread;
	pthread_mutex_t lock; /* for `over` */
	pthread_cond_t wake;
	bool over;
};

static void *run(void *arg)
{
	struct hvd_wait_note *note = arg;
	const hvd_time end = hvd_deadline_in(NOTE_SECONDS);
	const struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	bool over;

	pthread_mutex_lock(&note->lock);
	while (!note->over && pthread_cond_timedwait(&note->wake, &note->lock, &until) == 0)
		;
	over = note->over;
	pthread_mutex_unlock(&note->lock);
	if (!over)
		hvd_info(note->log, "still waiting for Slurm: %s",
			 hvd_munge_listens(NULL) ? "its controller does not answer (scontrol ping asks it, too)"
						 : "munged does not run on this host");
	return NULL;
}

struct hvd_wait_note *hvd_wait_note_begin(const struct hvd_log *log)
{
	struct hvd_wait_note *note = hvd_xcalloc(1, sizeof(*note));
	pthread_condattr_t attr;
	sigset_t all, before;
	int rc;

	note->log = log;
	pthread_mutex_init(&note->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&note->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&note->thread, NULL, run, note);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return note;
	free(note);
	return NULL;
}

void hvd_wait_note_end(struct hvd_wait_note *note)
{
	if (!note)
		return;
	pthread_mutex_lock(&note->lock);
	note->over = true;
	pthread_cond_signal(&note->wake);
	pthread_mutex_unlock(&note->lock);
	pthread_join(note->thread, NULL);
	pthread_cond_destroy(&note->wake);
	pthread_mutex_destroy(&note->lock);
	free(note);
}
