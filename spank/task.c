/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.c - the plugin inside a task, just before the task becomes the user's command.
 *
 * The task already runs as the user, and Slurm tracks it, so scancel and signals reach it while it waits here.
 * hvd-agent plan starts the host's agent, which writes the plan as NAME=VALUE, and this file sets it in the task's
 * environment.
 */
#include "plugin.h"

#include "host_slurm.h"
#include "lib/base/strv.h"
#include "lib/frameworks/emitted.h"
#include "lib/process/apptainer.h"
#include "lib/process/spawn.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/step_plans.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* How much longer than the start timeout to wait for hvd-agent, which keeps that timeout itself unless it hangs. */
#define EXTRA_SECONDS 10.0
/* So many words of the task's command show what it is. No program gets a longer word: it is the text of the file of
 * --multi-prog, and the driver sends the agent what it says. */
#define WORDS_MOST 256
#define WORD_MOST  (128 * 1024 - 1)
/* When Slurm kills the step, it kills this task within so long of hvd-agent; then there is nothing to report. */
#define KILLED_TOO_MS 200

static bool begins(const char *entry, const char *name)
{
	return strncmp(entry, name, strlen(name)) == 0;
}

/* hvd-agent gets only the variables of Slurm, MPI, NCCL and Gloo, and those on which the plan depends: the user's
 * environment may hold anything (LD_PRELOAD, 100 KB of modules). In a container, those that are not Slurm's or MPI's
 * may be the image's, which knows neither this job's networks nor its ranks. */
static void shim_env(spank_t sp, bool in_image, struct hvd_strv *env)
{
	char **job_env = NULL;

	if (spank_get_item(sp, S_JOB_ENV, &job_env) != ESPANK_SUCCESS)
		return;
	for (; job_env && *job_env; job_env++)
		if (begins(*job_env, "SLURM") || begins(*job_env, "OMPI_MCA_") || begins(*job_env, "PMI") ||
		    (!in_image && (begins(*job_env, "NCCL_") || begins(*job_env, "GLOO_") ||
				   begins(*job_env, "HOME=") || hvd_emitted_reads(*job_env))))
			hvd_strv_add(env, *job_env);
}

/* The name of this host, for messages: the task's standard error does not show the host. */
static const char *own_name(char name[HOST_NAME_MAX + 1])
{
	return gethostname(name, HOST_NAME_MAX) == 0 ? name : "this host";
}

/* The task's command, with a NULL at its end; NULL if Slurm does not report it. */
static char **command(spank_t sp)
{
	char **argv = NULL;
	int argc = 0;

	return spank_get_item(sp, S_JOB_ARGV, &argc, &argv) == ESPANK_SUCCESS && argc > 0 ? argv : NULL;
}

/* Fail if the task's container (--container) would not get the plan. Slurm 22.05 writes the config.json of a bundle,
 * with environment and command, before it starts the tasks, and gives the tasks a command that prints an error should
 * it ever run. Later releases write config.json after task_init. */
static int check_bundle(spank_t sp, struct hvd_err *err)
{
	char **argv = command(sp);

	if (hvd_host_slurm_release() >= SLURM_VERSION_NUM(23, 2, 0) || !argv || strcmp(argv[0], "/bin/sh") != 0 ||
	    !argv[1] || !argv[2] || !strstr(argv[2], "this should never execute with a container"))
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "--hvd cannot reach a container of --container: this release of Slurm writes its "
		    "environment before the tasks start");
	return hvd_err_hint(err, "start the container in the command (srun --hvd apptainer exec IMAGE COMMAND), or by "
				 "pyxis (--container-image); Slurm 23.02 or newer supports it");
}

/* Set a variable for a container that the command starts, unless the user has set it for that container. */
static void set_with_prefix(spank_t sp, const char *prefix, const char *name, const char *value)
{
	char full[512];

	if (prefix && (size_t)snprintf(full, sizeof(full), "%s%s", prefix, name) < sizeof(full))
		spank_setenv(sp, full, value, 0);
}

/* Set the variables of a plan: NAME=VALUE strings, each with its NUL, up to an empty string. -1 if the plan is
 * malformed. */
static int apply_plan(struct hvd_plugin *pl, spank_t sp, char *plan)
{
	char **argv = command(sp);
	const char *prefix = hvd_apptainer_prefix(argv ? argv[0] : NULL);

	if (!*plan)
		_exit(0); /* the host takes no part in the job, which has others */
	for (char *p = plan; *p; p += strlen(p) + 1) {
		char *value = strchr(p, '=');

		if (!value)
			return -1;
		/* With --multi-prog the agent knows the task's command, and this process does not. */
		if (hvd_apptainer_prefixed(p)) {
			*value++ = '\0';
			spank_setenv(sp, p, value, 0);
			p = value;
			continue;
		}
		hvd_strv_add(&pl->task.plan, p);
		*value++ = '\0';
		if (spank_setenv(sp, p, value, 1) != ESPANK_SUCCESS)
			return -1;
		set_with_prefix(sp, prefix, p, value);
		p = value;
	}
	return 0;
}

/* End the task, and with it the tasks of this host that wait for its plans. `shim` is hvd-agent plan; 0 = it does not
 * run. */
static void give_up(struct hvd_plugin *pl, pid_t shim, const struct hvd_err *err)
{
	fprintf(stderr, "hvd: error: %s: %s\n", own_name((char[HOST_NAME_MAX + 1]){0}), err->msg);
	if (err->hint[0])
		fprintf(stderr, "hvd: %s\n", err->hint);
	hvd_end(shim, 0.5, NULL);
	hvd_plans_tell(pl, hvd_err_status(err));
	_exit(hvd_err_status(err));
}

/* The exit status behind HVD_REFUSED. Never 0, even if the variable was changed on the way. */
static int refused_status(const char *text)
{
	int status = atoi(text);

	return status > 0 && status < 256 ? status : 1;
}

/* If the launch has a key of its own, give it to hvd-agent behind a descriptor. */
static void hand_over_key(struct hvd_plugin *pl, const struct hvd_boot *boot, struct hvd_spawn *spawn)
{
	struct hvd_err err = {0};
	int fd;

	if (strncmp(boot->id, "fd:", 3) != 0)
		return;
	fd = hvd_launch_key_take(pl, &err);
	if (fd < 0)
		give_up(pl, 0, &err);
	hvd_spawn_fd(spawn, fd, HVD_KEY_FD);
}

static void give_up_because(struct hvd_plugin *pl, pid_t shim, const char *why)
{
	struct hvd_err err;

	hvd_err_set(&err, HVD_E_FAILED, "%s", why);
	give_up(pl, shim, &err);
}

/* End the task as hvd-agent plan has ended, which has logged why. It does not know that the task may have its own
 * network. */
static void give_up_with(struct hvd_plugin *pl, int status)
{
	struct hvd_netns now;

	/* The status of a signal would hide the status with which the first task of a failed launch has ended. */
	if (WIFSIGNALED(status)) {
		char text[64];

		poll(NULL, 0, KILLED_TOO_MS);
		if (!pl->task.terminated && WTERMSIG(status) != SIGTERM)
			fprintf(stderr, "hvd: error: %s: hvd-agent, which was to get the launch plan, was %s\n",
				own_name((char[HOST_NAME_MAX + 1]){0}), hvd_status_text(status, text, sizeof(text)));
		hvd_plans_tell(pl, 1);
		_exit(1);
	}
	if (hvd_container_other_net(pl, &now))
		fprintf(stderr, "hvd: this task was put into a network namespace of its own before hvd.so ran: list "
				"hvd.so first in plugstack.conf, or share the host's network with the container\n");
	hvd_plans_tell(pl, hvd_status_exit(status));
	_exit(hvd_status_exit(status));
}

static pid_t start_shim(struct hvd_plugin *pl, const struct hvd_boot *boot, spank_t sp, int out, struct hvd_err *err)
{
	char path[PATH_MAX + 16];
	char **task = command(sp), *argv[4 + WORDS_MOST + 1] = {path, (char *)"plan"};
	struct hvd_spawn spawn = {.path = path, .argv = argv, .parent_death_signal = SIGKILL};
	struct hvd_strv env = {0};
	int n = 2;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/hvd-agent", pl->site.libexecdir);
	shim_env(sp, hvd_container_host_root(pl) > 0, &env);
	spawn.envp = env.v;
	spawn.root_fd = hvd_container_host_root(pl);
	hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	hvd_spawn_fd(&spawn, out, STDOUT_FILENO);
	hvd_spawn_fd(&spawn, hvd_plans_memory(pl), HVD_STEP_PLANS_FD);
	hand_over_key(pl, boot, &spawn);
	if (hvd_step_events_hand_over(pl, &spawn))
		argv[n++] = (char *)"--events";
	argv[n++] = (char *)"--";
	for (int i = 0; task && task[i] && i < WORDS_MOST && strlen(task[i]) <= WORD_MOST; i++)
		argv[n++] = task[i];
	pid = hvd_spawn(&spawn, err);
	hvd_strv_free(&env);
	if (pid < 0 && err->code == HVD_E_LIMIT)
		return pid;
	if (pid < 0 && spawn.root_fd > 0)
		hvd_err_hint(err, "a plugin in front of hvd.so in plugstack.conf has put the task into a container "
				  "that cannot be left: list hvd.so before that one, and \"hvd.so late\" after it; see "
				  "spank-hvd(8), CONTAINERS");
	else if (pid < 0)
		hvd_err_hint(err, "is the suite installed on this node? set libexecdir= in plugstack.conf");
	return pid;
}

/* Have hvd-agent plan start the host's agent, which writes the plans of all tasks. */
static void fetch_plans(struct hvd_plugin *pl, const struct hvd_boot *boot, spank_t sp)
{
	struct hvd_err err = {0};
	int out[2], status = 1;
	bool ended;
	pid_t pid;

	if (hvd_plans_memory(pl) < 0 || pipe2(out, O_CLOEXEC) != 0)
		give_up_because(pl, 0, "there is no descriptor or memory for the launch plan");
	pid = start_shim(pl, boot, sp, out[1], &err);
	close(out[1]);
	if (pid < 0)
		give_up(pl, 0, &err);
	pl->task.shim = pid;
	if (pl->task.terminated)
		kill(pid, SIGTERM);
	/* Its end closes the pipe. Before Linux 5.3 hvd_wait() alone would take longer to notice the end. */
	ended = hvd_step_await(out[0], hvd_deadline_in(boot->timeout + EXTRA_SECONDS));
	pl->task.shim = 0;
	close(out[0]);
	if (!ended || hvd_wait(pid, hvd_deadline_in(EXTRA_SECONDS), &status, NULL) != 0)
		give_up_because(pl, pid, "hvd-agent did not finish in time");
	if (hvd_status_exit(status) != 0)
		give_up_with(pl, status);
	hvd_plans_tell(pl, 0);
}

static void await_plans(struct hvd_plugin *pl, const struct hvd_boot *boot)
{
	struct hvd_err err = {0};
	int status = hvd_plans_await(pl, hvd_deadline_in(boot->timeout + 2 * EXTRA_SECONDS), &err);

	if (status > 0)
		_exit(status);
	if (status < 0)
		give_up(pl, 0, &err);
}

static void get_plan(struct hvd_plugin *pl, const struct hvd_boot *boot, spank_t sp)
{
	struct hvd_err err = {0};
	char *plan;

	if (hvd_step_local_id(sp) == 0)
		fetch_plans(pl, boot, sp);
	else
		await_plans(pl, boot);
	plan = hvd_plans_own(pl, sp, &err);
	if (!plan)
		give_up(pl, 0, &err);
	if (apply_plan(pl, sp, plan) != 0)
		give_up_because(pl, 0, "hvd-agent's plan is damaged");
}

/* hvd-agent plan may have had the signal as well: what Slurm signals depends on its ProctrackType. With
 * proctrack/cgroup it is the task alone. */
static void on_term(int sig)
{
	hvd_plugin.task.terminated = 1;
	if (hvd_plugin.task.shim > 0)
		kill(hvd_plugin.task.shim, sig);
}

/*
 * Until the task has its plan, SIGTERM ends hvd-agent plan. Then give_up_with() ends this task and those that wait for
 * its plans. srun sends SIGTERM to all tasks of a failed launch as soon as the first one has ended.
 */
void hvd_task_take_plan(struct hvd_plugin *pl, spank_t sp)
{
	struct sigaction pass_on = {.sa_handler = on_term}, before;
	char boot_text[HVD_BOOT_MAX];
	struct hvd_boot boot;
	struct hvd_err err = {0};

	if (!hvd_step_wanted(sp, boot_text))
		return;
	sigaction(SIGTERM, &pass_on, &before);
	if (strncmp(boot_text, HVD_REFUSED, strlen(HVD_REFUSED)) == 0)
		_exit(refused_status(boot_text + strlen(HVD_REFUSED)));
	hvd_container_restore_names(pl, sp);
	if (check_bundle(sp, &err) != 0 || hvd_boot_parse(boot_text, &boot, &err) != 0)
		give_up(pl, 0, &err);
	get_plan(pl, &boot, sp);
	hvd_step_events_task(pl, sp, &boot);
	pl->task.verbose = boot.verbose;
	hvd_container_other_net(pl, &pl->task.net);
	sigaction(SIGTERM, &before, NULL);
	if (pl->task.terminated)
		_exit(1);
}
