/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun.c - the plugin inside srun: it starts hvd-driver and ends it.
 *
 * The plugin opens no socket and starts no thread in srun's process. The driver is a child process, with one end of a
 * socket pair. Through the pair it gets the settings of the launch, and sends the boot text (boot.h), which the tasks
 * need. However srun ends, the driver then reads the end of the socket, and ends too.
 */
#include "plugin.h"

#include "host_slurm.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/process/command_line.h"
#include "lib/process/other_launcher.h"
#include "lib/process/roles_line.h"
#include "lib/process/spawn.h"
#include "lib/protocol/boot.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the driver may take to answer; it only opens its sockets before. */
#define DRIVER_ANSWER_SECONDS 10.0
/* How long the driver may take to end; it may have messages to write, and the trace, and may ask Slurm to requeue the
 * job, for as long as a controller that is busy takes. */
#define DRIVER_END_SECONDS 20.0
/* The driver's descriptors: its end of the socket pair, the launch's key, and the file of --multi-prog. */
#define DRIVER_PIPE_FD     3
#define DRIVER_KEY_FD      4
#define DRIVER_PROGRAMS_FD 5
/* srun's -K: end the step when a task fails. */
#define KILL_OPTION "kill-on-bad-exit"

/* srun --async ends when the step is queued, and does not call local_user_init. The tasks would run without a driver,
 * each as if it were alone. */
static int refuse_async(struct hvd_err *err)
{
	if (!hvd_host_slurm_option("async"))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "srun --async does not wait for the step, but the driver of a --hvd step must");
	return hvd_err_hint(err, "leave --async out and let the shell put srun in the background (&), or add --no-hvd");
}

/* srun calls local_user_init() once, for one of the components of a step, and gives what is set there to the tasks of that
 * one only. Options have the values of the last component in all of them. A step of one component is as any other. But
 * without --het-group it is in the first component of the job, which a user who thinks of all would not notice. */
static int refuse_het(const struct hvd_plugin *pl, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	const char *size = getenv("SLURM_HET_SIZE");
	hvd_cleanup_free char *line = NULL;

	hvd_command_words_of(getpid(), &words);
	line = hvd_roles_line(words.v);
	if (line || pl->components > 1) {
		hvd_err_set(err, HVD_E_USAGE,
			    "srun --hvd cannot start a step with several components (\":\", --het-group)");
		return hvd_err_hint(err, "run it with a role for each: %s",
				    line && strlen(line) < 400 ? line : "hvdrun --role=r0 COMMAND : --role=r1 COMMAND");
	}
	if (!size || atoi(size) < 2 || hvd_roles_line_has_group(words.v))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "this is a heterogeneous job of %s components, which --hvd cannot span", size);
	return hvd_err_hint(err,
			    "give each component a role: hvdrun --role=r0 COMMAND : --role=r1 COMMAND; or name one: "
			    "srun --hvd --het-group=0 COMMAND");
}

/* Was this srun started by hvdrun, which runs the driver itself? That happens if --hvd was given to sbatch. */
static bool within_hvdrun(void)
{
	return getenv(HVD_BOOT_ENV) && !getenv(HVD_STEP_ENV);
}

int hvd_srun_check(const struct hvd_plugin *pl, struct hvd_err *err)
{
	if (within_hvdrun())
		return 0;
	return refuse_async(err) != 0 || refuse_het(pl, err) != 0 ? -1 : 0;
}

static int verbosity(const struct hvd_plugin *pl)
{
	return pl->opt.verbose != HVD_OPT_UNSET ? pl->opt.verbose : pl->site.defaults.verbose;
}

/* Has --hvd-requeue-on the word "preempt"? Then the driver ends the ranks after a failure: srun would do so in a job that
 * is being preempted, too, where the others may still save. */
static bool names_preemption(const char *words)
{
	const char *word = words ? strstr(words, "preempt") : NULL;

	return word && (word == words || word[-1] == ',') && strchr(",", word[strlen("preempt")]);
}

int hvd_srun_prepare(struct hvd_plugin *pl, struct hvd_err *err)
{
	if (hvd_srun_check(pl, err) != 0)
		return -1;
	if (verbosity(pl) > 0 && !hvd_host_slurm_is_known(hvd_host_slurm_release()))
		slurm_info("hvd: this Slurm is newer than the releases that this hvd was tried with");
	if (pl->site.kill_on_bad_exit && !hvd_host_slurm_option(KILL_OPTION)) {
		pl->driver_ends_ranks = names_preemption(hvd_plugin_value(pl, HVD_SET_requeue_on));
		hvd_host_slurm_set_option(KILL_OPTION, pl->driver_ends_ranks ? "0" : "1");
	}
	return 0;
}

/* slurm.conf's SrunPortRange is "60001-63000", or "0-0" if there is none. */
static void add_port_range(struct hvd_strv *lines)
{
	hvd_cleanup_free char *range = hvd_host_slurm_value("SrunPortRange");
	unsigned low, high;

	if (!range || sscanf(range, "%u-%u", &low, &high) != 2 || low == 0)
		return;
	hvd_strv_addf(lines, "port-low=%u", low);
	hvd_strv_addf(lines, "port-high=%u", high);
}

/* Send the driver its settings: KEY=VALUE, each with a NUL at its end, and an empty string. hvdrun's option tables
 * define the settings of lib/base/settings.def, launcher/main_driver.c the other keys. The driver does not run yet, so
 * all of it must fit into the socket. */
static int send_settings(const struct hvd_plugin *pl, spank_t sp, int fd, int key_fd, int programs_fd,
			 struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv lines = {0};
	int verbose = verbosity(pl);
	uint32_t job = 0, step = 0, nodes = 0, tasks = 0;

	spank_get_item(sp, S_JOB_ID, &job);
	spank_get_item(sp, S_JOB_STEPID, &step);
	spank_get_item(sp, S_JOB_NNODES, &nodes);
	spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks);
	hvd_strv_addf(&lines, "job=%u", job);
	hvd_strv_addf(&lines, "step=%u", step);
	hvd_strv_addf(&lines, "nodes=%u", nodes);
	hvd_strv_addf(&lines, "tasks=%u", tasks);
	/* With spare hosts the driver must know whether the user gave the number of tasks: a number from a job's
	 * environment describes the allocation. */
	if (hvd_plugin_value(pl, HVD_SET_spares) && hvd_host_slurm_option_by_cli('n')) {
		hvd_strv_addf(&lines, "wanted=%u", tasks);
		hvd_strv_addf(&lines, "per-node=%d", hvd_host_slurm_option("ntasks-per-node"));
	}
	add_port_range(&lines);
	if (pl->driver_ends_ranks)
		hvd_strv_add(&lines, "ends-ranks=1");
	if (key_fd)
		hvd_strv_addf(&lines, "key-fd=%d", key_fd);
	if (programs_fd)
		hvd_strv_addf(&lines, "programs-fd=%d", programs_fd);
	if (verbose > 0)
		hvd_strv_addf(&lines, "verbose=%d", verbose);
	for (enum hvd_plugin_option i = 0; i < HVD_N_OPTIONS; i++)
		if (hvd_plugin_value(pl, i))
			hvd_strv_addf(&lines, "%s=%s", hvd_plugin_setting_name(i), hvd_plugin_value(pl, i));
	hvd_strv_add(&lines, "");
	for (size_t i = 0; i < lines.n; i++) {
		size_t len = strlen(lines.v[i]) + 1;

		if (send(fd, lines.v[i], len, MSG_DONTWAIT) == (ssize_t)len)
			continue;
		hvd_err_set(err, HVD_E_USAGE, "the values of the --hvd options are too long");
		return hvd_err_hint(err, "write them into a file, and name it: --hvd-config=FILE");
	}
	return 0;
}

/* With --multi-prog srun has read the file already: its argv is the file's name, the text, and the words that each command
 * gets at its end. Returns a descriptor of memory with them, each with its NUL; -1 without --multi-prog, or with err
 * set. */
static int programs(spank_t sp, struct hvd_err *err)
{
	hvd_cleanup_close int fd = -1;
	char **argv = NULL;
	int argc = 0;

	if (!hvd_host_slurm_option("multi-prog") || spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS ||
	    argc < 2)
		return -1;
	fd = memfd_create("programs", MFD_CLOEXEC);
	for (int i = 0; i < argc; i++) {
		size_t len = strlen(argv[i]) + 1;

		if (fd < 0 || write(fd, argv[i], len) != (ssize_t)len)
			return hvd_err_sys(err, "cannot store the file of --multi-prog");
	}
	return hvd_take_fd(&fd);
}

/* The driver has closed the socket. If it could not start, it has logged why on stderr, and this function adds no
 * message; status 2 means that the user has to change something. Always returns -1. */
static int no_driver(struct hvd_plugin *pl, struct hvd_err *err)
{
	int status = 0;

	if (hvd_wait(pl->driver, hvd_deadline_in(DRIVER_END_SECONDS), &status, NULL) == 0)
		pl->driver = 0;
	hvd_err_set(err, status == 2 << 8 ? HVD_E_USAGE : HVD_E_FAILED, "%s",
		    WIFEXITED(status) && WEXITSTATUS(status) ? "" : "hvd-driver ended before it had started");
	return -1;
}

/* Read the boot text, one line. */
static int read_boot(struct hvd_plugin *pl, int fd, char text[HVD_BOOT_MAX], struct hvd_err *err)
{
	hvd_time deadline = hvd_deadline_in(DRIVER_ANSWER_SECONDS);
	size_t at = 0;

	for (;;) {
		ssize_t n;

		if (!hvd_step_await(fd, deadline))
			return hvd_err_set(err, HVD_E_TIMEOUT, "hvd-driver did not answer within %.0f seconds",
					   DRIVER_ANSWER_SECONDS);
		n = read(fd, text + at, HVD_BOOT_MAX - 1 - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return no_driver(pl, err);
		at += (size_t)n;
		if (text[at - 1] == '\n') {
			text[at - 1] = '\0';
			return 0;
		}
		if (at == HVD_BOOT_MAX - 1)
			return hvd_err_set(err, HVD_E_PROTO, "hvd-driver's answer is too long");
	}
}

/* Slurm's hook at srun's end does not say with which status srun ends. Handlers run in the reverse order, so this one,
 * which comes later, runs before the hook. */
static void remember_status(int status, void *arg)
{
	((struct hvd_plugin *)arg)->srun_status = status & 0xff;
}

static int export_boot(spank_t sp, const char *text, struct hvd_err *err)
{
	char where[HVD_STEP_NAME_MAX];

	hvd_step_name(sp, where);
	/* srun copies its own environment into the step's after this hook. */
	if (setenv(HVD_BOOT_ENV, text, 1) != 0 || setenv(HVD_STEP_ENV, where, 1) != 0)
		return hvd_err_sys(err, "cannot export the driver's address");
	return 0;
}

/* The tasks may be spread so that a node has several though the number does not say so; torchrun, which may run once on
 * each node, fails by itself then. */
static int refuse_launcher(spank_t sp, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	uint32_t nodes = 0, tasks = 0;
	char **argv = NULL;
	int argc = 0;

	if (spank_get_item(sp, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1)
		return 0;
	for (int i = 0; i < argc; i++)
		hvd_strv_add(&words, argv[i]);
	return hvd_other_launcher_refuse(words.v, tasks, tasks > nodes, "srun --hvd", true, err);
}

int hvd_srun_start_driver(struct hvd_plugin *pl, spank_t sp, struct hvd_err *err)
{
	struct hvd_spawn spawn = {.new_group = 1};
	hvd_cleanup_close int key = -1, drivers_end = -1, programs_fd = -1;
	char path[PATH_MAX + 16], text[HVD_BOOT_MAX];
	char *argv[] = {path, NULL};
	int pair[2];

	if (within_hvdrun())
		return 0;
	if (pl->driver > 0)
		return hvd_err_set(err, HVD_E_USAGE, "one srun can start only one --hvd step");
	programs_fd = programs(sp, err);
	if (err->code || (programs_fd < 0 && refuse_launcher(sp, err) != 0))
		return -1;
	if (hvd_launch_key_wanted() && !hvd_plugin_value(pl, HVD_SET_key_file) &&
	    (key = hvd_launch_key_send(sp, err)) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return hvd_err_sys(err, "cannot make a socket pair");
	pl->driver_fd = pair[0];
	drivers_end = pair[1];
	snprintf(path, sizeof(path), "%s/hvd-driver", pl->site.libexecdir);
	if (send_settings(pl, sp, pair[0], key >= 0 ? DRIVER_KEY_FD : 0, programs_fd >= 0 ? DRIVER_PROGRAMS_FD : 0,
			  err) != 0) {
		hvd_srun_end_driver(pl);
		return -1;
	}
	hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	hvd_spawn_fd(&spawn, -1, STDOUT_FILENO);
	hvd_spawn_fd(&spawn, drivers_end, DRIVER_PIPE_FD);
	if (key >= 0)
		hvd_spawn_fd(&spawn, key, DRIVER_KEY_FD);
	if (programs_fd >= 0)
		hvd_spawn_fd(&spawn, programs_fd, DRIVER_PROGRAMS_FD);
	spawn.path = path;
	spawn.argv = argv;
	pl->driver = hvd_spawn(&spawn, err);
	close(hvd_take_fd(&drivers_end)); /* so that the end of the driver is the end of the socket here */
	if (pl->driver < 0 && err->code != HVD_E_LIMIT)
		hvd_err_hint(err, "is the suite installed on this host? set libexecdir= in plugstack.conf");
	if (pl->driver > 0 && read_boot(pl, pair[0], text, err) == 0 && export_boot(sp, text, err) == 0) {
		hvd_prolog_export();
		on_exit(remember_status, pl);
		return 0;
	}
	hvd_srun_end_driver(pl);
	return -1;
}

/* The step exists already. If srun ended now, or a hook failed, the controller would keep the step, and its nodes would
 * be busy for other steps of the job. So the tasks are started, and end at once. */
void hvd_srun_refuse_tasks(spank_t sp, int status)
{
	char text[32];
	struct hvd_err err = {0};

	snprintf(text, sizeof(text), HVD_REFUSED "%d", status);
	/* All tasks end by themselves, and a signal would change srun's exit status. */
	hvd_host_slurm_set_option(KILL_OPTION, "0");
	if (export_boot(sp, text, &err) != 0)
		slurm_error("hvd: %s", err.msg);
}

/* Warn if the driver has ended before the step. srun still exits with the ranks' status. */
static void warn_of_driver(struct hvd_plugin *pl)
{
	char text[64];
	int status;

	if (pl->driver <= 0 || hvd_wait(pl->driver, hvd_now(), &status, NULL) != 0)
		return;
	pl->driver = 0;
	fprintf(stderr,
		"hvd: warning: hvd-driver ended before the step (%s): since then failed ranks, lost hosts and time "
		"limits were not reported, and there was no rendezvous\n",
		hvd_status_text(status, text, sizeof(text)));
}

void hvd_srun_end_driver(struct hvd_plugin *pl)
{
	unsigned char byte = (unsigned char)pl->srun_status;
	int status = 0;

	warn_of_driver(pl);
	if (pl->driver_fd >= 0) {
		if (pl->srun_status >= 0)
			send(pl->driver_fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(pl->driver_fd);
	}
	pl->driver_fd = -1;
	if (pl->driver > 0 && hvd_wait(pl->driver, hvd_deadline_in(DRIVER_END_SECONDS), &status, NULL) != 0)
		hvd_end(pl->driver, 0.5, NULL);
	pl->driver = 0;
	/* srun has released the job. The driver ends with 1 if the tasks were no ranks of the launch. */
	if (pl->srun_status == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1) {
		fflush(NULL);
		_exit(1);
	}
}
