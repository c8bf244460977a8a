/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-requeue - has the batch job begin again when hvdrun is killed; see job/requeue_guard.h.
 *
 *   hvd-requeue slurm|lsf JOB    started by hvdrun, which has the other end of the pipe on stdin
 */
#include "launcher/job/requeue_guard.h"
#include "lib/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct hvd_log log = hvd_log_make("hvdrun", HVD_LOG_INFO);
	struct stat st;

	if (argc != 3 || fstat(STDIN_FILENO, &st) != 0 || !S_ISFIFO(st.st_mode)) {
		fprintf(stderr,
			"usage: %s slurm|lsf JOB\nhvdrun --requeue-on=node starts hvd-requeue: see hvd-requeue(7).\n",
			argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	return hvd_requeue_guard(argv[1], argv[2], STDIN_FILENO, &log);
}
