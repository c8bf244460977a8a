/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap.h"

#include "lib/base/key.h"
#include "lib/process/spawn.h"
#include "lib/protocol/preamble.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* How long the preamble may take. The launcher sends it at once, and ssh has logged in before this process starts. */
#define PREAMBLE_SECONDS 20

/* How long to wait for the preamble. A task of srun has the boot text in its environment, with the start timeout; then
 * *srun is true. */
static hvd_time patience(bool *srun)
{
	const char *text = getenv(HVD_BOOT_ENV);
	struct hvd_boot boot;

	*srun = text && hvd_boot_parse(text, &boot, NULL) == 0;
	return hvd_deadline_in(*srun ? boot.timeout : PREAMBLE_SECONDS);
}

/* Put the key behind a descriptor that no other program inherits. */
static int hand_over_key(struct hvd_boot *boot, const struct hvd_key *key, struct hvd_err *err)
{
	int fd = hvd_key_memfd(key, err);

	if (fd < 0)
		return -1;
	snprintf(boot->id, sizeof(boot->id), "fd:%d", fd);
	return 0;
}

static void enter_env(const struct hvd_strv *env)
{
	for (size_t i = 0; i < env->n; i++) {
		char *equals = strchr(env->v[i], '=');

		*equals = '\0';
		setenv(env->v[i], equals + 1, 1);
		*equals = '=';
	}
}

/* Apply the preamble. A variable that it lacks keeps this host's value. *boot then names a descriptor with the key. */
static int enter(struct hvd_preamble *p, struct hvd_boot *boot, struct hvd_strv *args, struct hvd_err *err)
{
	if (hvd_boot_parse(p->boot, boot, err) != 0 || hand_over_key(boot, &p->key, err) != 0)
		return HVD_PREAMBLE_UNREADABLE;
	enter_env(&p->env);
	*args = p->args;
	p->args = (struct hvd_strv){0};
	if (!p->directory[0] || chdir(p->directory) == 0)
		return 0;
	hvd_err_sys(err, "cannot change to the directory %s", p->directory);
	return HVD_PREAMBLE_NO_DIRECTORY;
}

/* srun sends its stdin to all ranks. If one of them does not read, srun stops sending to all. So a child process reads
 * what is for another rank. */
static int read_away(struct hvd_err *err)
{
	char *argv[] = {(char *)"hvd-agent", (char *)"drain", NULL};
	struct hvd_spawn spawn = {.path = "/proc/self/exe", .argv = argv, .parent_death_signal = SIGKILL};

	hvd_spawn_fd(&spawn, -1, STDOUT_FILENO);
	hvd_spawn_fd(&spawn, -1, STDERR_FILENO);
	return hvd_spawn(&spawn, err) < 0 ? -1 : 0;
}

/* The rest of stdin is for the rank with the number `whose`, or for none ("none"). */
static int take_input(const char *whose, uint32_t rank, struct hvd_err *err)
{
	bool nobody = strcmp(whose, "none") == 0;
	int null;

	if (!nobody && strtoul(whose, NULL, 10) == rank)
		return 0;
	if (!nobody && read_away(err) != 0)
		return -1;
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return hvd_err_sys(err, "cannot open /dev/null");
	close(null);
	return 0;
}

/* Read the preamble from stdin, and apply it; later bytes are left there. Returns 0, or the exit status to end with, with
 * err set. HVD_PREAMBLE_NO_DIRECTORY means that all but the directory was applied. */
static int read_preamble(struct hvd_boot *boot, struct hvd_strv *args, struct hvd_err *err)
{
	int status = HVD_PREAMBLE_UNREADABLE;
	struct hvd_preamble p;
	bool srun;
	hvd_time deadline = patience(&srun);

	if (hvd_preamble_read(STDIN_FILENO, deadline, &p, err) == 0) {
		status = enter(&p, boot, args, err);
		hvd_preamble_clear(&p);
	} else if (srun && err->code == HVD_E_TIMEOUT) {
		hvd_err_set(err, HVD_E_TIMEOUT, "the launch's key did not arrive on stdin in time");
		hvd_err_hint(err, "srun sends it after it has reached all hosts of the step: is one of them down, or "
				  "cut off from srun?");
	} else if (srun) {
		hvd_err_hint(err,
			     "a TaskProlog must not read from stdin; with --key-file=FILE no key is sent on stdin");
	}
	return status;
}

/* Take over what the launcher has sent on stdin. */
static int read_stdin(struct hvd_bootstrap *start, const struct hvd_bootstrap_opts *opts)
{
	struct hvd_err err = {0};
	int status = read_preamble(&start->boot, &start->args, &err);

	/* LSF's launchers may lose this process's output and exit status, so the driver is told. */
	if (status == HVD_PREAMBLE_NO_DIRECTORY && opts->refuses) {
		start->refusal = err;
		hvd_err_hint(&start->refusal,
			     "start hvdrun in a directory that exists under the same path on all hosts");
		return 0;
	}
	if (status == 0 && opts->input && take_input(opts->input, start->info.rank, &err) != 0)
		status = 1;
	else if (status != 0)
		hvd_err_host(&err, start->info.name);
	if (status != 0)
		hvd_log_err(&start->log, &err);
	return status;
}

static int find_ranks(const struct hvd_bootstrap_opts *opts, struct hvd_taskinfo *info, struct hvd_err *err)
{
	return opts->host    ? hvd_taskinfo_host(opts->host, opts->ranks, info, err)
	       : opts->mpi   ? hvd_taskinfo_mpi(opts->mpi, info, err)
	       : opts->jsrun ? hvd_taskinfo_jsrun(opts->jsrun, info, err)
			     : hvd_taskinfo_slurm(info, err);
}

enum hvd_log_level hvd_bootstrap_level(const struct hvd_boot *boot)
{
	return boot->verbose > 1 ? HVD_LOG_DEBUG : boot->verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
}

int hvd_bootstrap_begin(struct hvd_bootstrap *start, const struct hvd_bootstrap_opts *opts, const struct hvd_log *log)
{
	const char *text = opts->from_stdin ? "" : getenv(HVD_BOOT_ENV);
	struct hvd_err err = {0};
	char host[256] = "";
	int status = 0;

	*start = (struct hvd_bootstrap){.log = *log};
	/* That a peer is gone is an error to handle here; the command starts with the default. */
	signal(SIGPIPE, SIG_IGN);
	if (!text) {
		hvd_error(log, "%s is not set: hvd-agent is started by srun --hvd and hvdrun, not by hand",
			  HVD_BOOT_ENV);
		return 2;
	}
	if ((!opts->from_stdin && hvd_boot_parse(text, &start->boot, &err) != 0) ||
	    find_ranks(opts, &start->info, &err) != 0) {
		/* It is not known here what the scheduler calls this host. */
		if (!err.host[0] && gethostname(host, sizeof(host) - 1) == 0)
			hvd_err_host(&err, host);
		hvd_log_err(log, &err);
		return 1;
	}
	if (opts->from_stdin)
		status = read_stdin(start, opts);
	start->log.level = hvd_bootstrap_level(&start->boot);
	return status;
}

void hvd_bootstrap_clear(struct hvd_bootstrap *start)
{
	hvd_strv_free(&start->args);
	hvd_taskinfo_free(&start->info);
}

void hvd_bootstrap_limits(const char *nice_value, const char *memlock)
{
	struct rlimit rl;

	if (nice_value)
		setpriority(PRIO_PROCESS, 0, atoi(nice_value));
	if (!memlock || getrlimit(RLIMIT_MEMLOCK, &rl) != 0)
		return;
	rl.rlim_cur = strcmp(memlock, "unlimited") == 0 ? RLIM_INFINITY : (rlim_t)strtoull(memlock, NULL, 10);
	if (rl.rlim_cur > rl.rlim_max)
		rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &rl);
}

int hvd_bootstrap_drain(void)
{
	char buf[4096];
	ssize_t n;

	do
		n = read(STDIN_FILENO, buf, sizeof(buf));
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0;
}
