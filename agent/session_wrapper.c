/* SPDX-License-Identifier: Apache-2.0 */
#include "session_wrapper.h"

#include "lib/base/strv.h"
#include "lib/process/spawn.h"
#include "output.h"
#include "process_name.h"
#include "run_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the reader of the output may take to read the last of it, and then to pass it on. */
#define SETTLE_SECONDS 2
#define SETTLE_MS      50

int hvd_session_wrapper_run(char *const *argv, enum hvd_session_wrapper_of of, const struct hvd_log *log)
{
	struct hvd_spawn spawn = {.path = "/proc/self/exe",
				  .keep_fds = 1,
				  .new_session = 1,
				  .parent_death_signal = of == HVD_SESSION_WRAPPER_JOIN ? SIGTERM : hvd_child_follow()};
	struct timespec moment = {.tv_nsec = SETTLE_MS * 1000000L};
	pid_t pid, parent = getppid();
	struct hvd_strv args = {0};
	struct hvd_err err = {0};
	char host[256] = "";
	int status = 0, sig;
	siginfo_t info;
	sigset_t all;

	if (of == HVD_SESSION_WRAPPER_JOIN)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	hvd_strv_add(&args, program_invocation_name);
	hvd_strv_add(&args, argv[0]);
	hvd_strv_add(&args, "--behind");
	hvd_strv_add_all(&args, argv + 1);
	spawn.argv = args.v;
	pid = hvd_spawn(&spawn, &err);
	hvd_strv_free(&args);
	if (pid < 0) {
		if (gethostname(host, sizeof(host) - 1) == 0)
			hvd_err_host(&err, host);
		hvd_log_err(log, &err);
		return 127;
	}
	hvd_process_describe("hvd-monitor", "passes signals on to %d", (int)pid);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		sig = sigwaitinfo(&all, &info);
		if (of != HVD_SESSION_WRAPPER_JOIN && sig == spawn.parent_death_signal) {
			if (getppid() != parent)
				return 1; /* the end of this process sends the same signal to the shim */
		} else if (sig > 0 && sig != SIGCHLD) {
			kill(-pid, sig);
		}
	}
	if (of == HVD_SESSION_WRAPPER_JOIN)
		hvd_kill_adopted();
	if (of == HVD_SESSION_WRAPPER_HOST) {
		hvd_output_settle(hvd_deadline_in(SETTLE_SECONDS));
		nanosleep(&moment, NULL);
	}
	return hvd_child_mirror(status);
}

void hvd_session_wrapper_wake(pid_t wrapper)
{
	if (wrapper > 0 && getppid() == wrapper)
		kill(wrapper, SIGCONT);
}
