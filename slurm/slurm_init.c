/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_init.c - hvd_slurm_open(): libslurm reads slurm.conf, once in the life of a process.
 *
 * slurm_init() ends its process if the configuration is missing or wrong. So a child process tries it first; if the
 * child survives, this process does the same. slurm_fini() is never called, because Slurm 24.11 crashes in a
 * slurm_init() after it: libslurm's data stay until the process ends.
 */
#include "slurm.h"

#ifdef HVD_WITH_SLURM

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/process/call.h"
#include "lib/process/spawn.h"

#include <pthread.h>
#include <slurm/slurm.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REHEARSAL_SECONDS 30.0
#define MAX_WORDS         (1u << 20) /* of the child */

/* Global, because libslurm has one state for the whole process. */
static struct {
	pthread_mutex_t lock;
	bool done;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Set err to the reason why the child did not survive; text is what it printed. */
static int explain(const char *text, int status, struct hvd_err *err)
{
	char end[64];

	if (*text && WIFEXITED(status))
		return hvd_err_set(err, HVD_E_SYS, "Slurm's configuration cannot be read: %s", text);
	return hvd_err_set(err, HVD_E_SYS, "Slurm's configuration cannot be read: %s%sa process in libslurm ended: %s",
			   text, *text ? "; " : "", hvd_status_text(status, end, sizeof(end)));
}

static void init(int out, void *arg)
{
	(void)arg;
	dup2(out, STDERR_FILENO);
	slurm_init(NULL);
}

static int rehearse(struct hvd_err *err)
{
	size_t len;
	int status = 0;
	hvd_cleanup_free char *text =
		hvd_call(init, NULL, "libslurm", MAX_WORDS, hvd_deadline_in(REHEARSAL_SECONDS), &len, &status, err);

	if (text && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (text) {
		while (len > 0 && text[len - 1] == '\n')
			text[--len] = '\0';
		explain(text, status, err);
	} else if (err->code == HVD_E_TIMEOUT) {
		hvd_err_set(err, HVD_E_TIMEOUT, "Slurm's configuration cannot be read: the controller does not answer");
	}
	return hvd_err_hint(err, "check that 'scontrol show config' works here");
}

/* The environment of a step's processes from an srun without configuration files (Slurm 22.05): libslurm would look for
 * a file of that name for a minute. Without it the controller is asked, as SLURM_CONF_SERVER says. */
static void drop_no_name(void)
{
	const char *conf = getenv("SLURM_CONF");

	if (conf && strcmp(conf, "(null)") == 0)
		unsetenv("SLURM_CONF");
}

int hvd_slurm_open(struct hvd_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&process.lock);
	if (!process.done)
		drop_no_name();
	if (!process.done && (rc = rehearse(err)) == 0) {
		slurm_init(NULL);
		process.done = true;
	}
	pthread_mutex_unlock(&process.lock);
	return rc;
}

#endif
