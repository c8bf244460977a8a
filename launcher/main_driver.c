/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-driver - the driver of `srun --hvd`, started by the plugin inside srun.
 *
 * Descriptor 3 is one end of a socket pair whose other end srun has. The driver reads its settings from it: strings
 * KEY=VALUE, each with a NUL at its end, and an empty string after the last one. Then it writes the boot text to it as
 * one line, and ends when it reads end of file, which happens however srun ends.
 *
 * With the key key-fd another descriptor holds the launch's key, which srun sends to the tasks in Slurm's launch
 * message; else munge or a key file proves who belongs to the launch. With programs-fd one holds, each with a
 * NUL at its end, the name and the text of the file of srun --multi-prog, and words that its commands get at their ends.
 */
#include "launcher/events/trace.h"
#include "launcher/job/secret.h"
#include "launcher/job/step_run.h"
#include "launcher/metrics/metrics.h"
#include "launcher/options/options.h"
#include "launcher/options/rank_commands.h"
#include "launcher/report/html_report.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/key.h"
#include "lib/base/log.h"
#include "lib/base/xalloc.h"
#include "lib/process/multi_prog.h"
#include "lib/process/rlimits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define SRUN_FD 3
/* The plugin's socket holds less. */
#define MAX_SETTINGS (1 << 20)

struct program {
	struct hvd_log log;
	struct hvd_driver_opts opts;
	uint32_t job, step, key_fd;  /* key_fd: 0 = none */
	uint32_t ends_ranks;         /* as in step_run.h */
	uint32_t programs_fd;        /* as described above; 0 = none */
	struct hvd_options settings; /* what the plugin, the configuration files and the environment say */
	struct hvd_launch_spec spec; /* made from `settings` */
};

/* srun has no option for the workers' controller. If the user sets it by Horovod's own variable, the plan follows. */
static int worker_controller(struct hvd_options *o, struct hvd_err *err)
{
	const char *text = getenv("HOROVOD_CONTROLLER");

	if (!text || !*text || getenv("HVD_CONTROLLER"))
		return 0;
	return hvd_options_config(o, HVD_FROM_ENV, "controller", text, err) == 0
		       ? 0
		       : hvd_err_prefix(err, "HOROVOD_CONTROLLER");
}

/* slurmstepd chooses the task's command by the file of --multi-prog. This launch only needs to know it, so a file that srun
 * has accepted is no error. */
static void read_programs(struct program *prog)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	hvd_cleanup_free char *text = NULL;
	struct hvd_err why = {0};
	char path[40];
	size_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%u", (unsigned)prog->programs_fd);
	text = hvd_read_file(path, HVD_MULTI_PROG_MAX, "the file of --multi-prog", &len, &why);
	for (char *word = text; word && word < text + len; word += strlen(word) + 1)
		hvd_strv_add(&words, word);
	if (words.n > 1)
		prog->settings.programs =
			hvd_multi_prog_parse(words.v[1], strlen(words.v[1]), words.v[0], words.v + 2, &why);
	if (prog->settings.programs && hvd_rank_commands_check(prog->settings.programs, &why) == 0)
		return;
	hvd_multi_prog_destroy(prog->settings.programs);
	prog->settings.programs = NULL;
	hvd_verbose(&prog->log, "nothing is known of the ranks' commands: %s", why.msg);
}

/* A task's command follows from its number in the step. */
static int check_programs(const struct program *prog, struct hvd_err *err)
{
	const uint32_t ranks = prog->opts.ranks;

	if (!prog->programs_fd || prog->spec.spares <= 0)
		return hvd_rank_commands_refuse(&prog->spec, ranks, ranks > prog->opts.hosts, err);
	hvd_err_set(
		err, HVD_E_USAGE,
		"--hvd-spares cannot be used with --multi-prog: Slurm chooses commands by the numbers of tasks, which "
		"are not those of the ranks then");
	return hvd_err_hint(err, "leave one of them out, or use hvdrun --multi-prog --spares");
}

/* Read environment and configuration files, which fill in what the plugin's options left open, and make the launch
 * spec. */
static int apply_settings(struct program *prog, struct hvd_err *err)
{
	struct hvd_options *o = &prog->settings;

	if (hvd_options_env(o, environ, err) != 0 || worker_controller(o, err) != 0 || hvd_config_load(o, err) != 0)
		return -1;
	/* Only hvdrun starts elastic jobs: ignore such settings of the site and the environment. */
	hvd_options_not_elastic(o);
	if (hvd_options_check_step(o, err) != 0)
		return -1;
	if (o->spares > 0 && prog->opts.hosts > 0 && (int)prog->opts.hosts <= o->spares) {
		hvd_err_set(err, HVD_E_USAGE, "of the step's %u node%s %d cannot be spare", (unsigned)prog->opts.hosts,
			    prog->opts.hosts == 1 ? "" : "s", o->spares);
		return hvd_err_hint(err, "write an -N for the nodes with ranks and the spare ones: -N%d or more",
				    o->spares + 1);
	}
	if (o->verbose && prog->log.level < HVD_LOG_VERBOSE)
		prog->log.level = o->verbose > 1 ? HVD_LOG_DEBUG : HVD_LOG_VERBOSE;
	for (size_t i = 0; i < o->warnings.n; i++)
		hvd_warn(&prog->log, "%s", o->warnings.v[i]);
	for (size_t i = 0; i < o->notes.n; i++)
		hvd_verbose(&prog->log, "%s", o->notes.v[i]);
	if (prog->programs_fd)
		read_programs(prog);
	hvd_launch_spec_make(&prog->spec, o, environ);
	prog->opts.spec = &prog->spec;
	return check_programs(prog, err);
}

static int other_release(struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_PROTO, "srun's plugin hvd.so has sent settings that hvd-driver does not know");
	return hvd_err_hint(err, "both must be of the same release: reinstall the suite on this host");
}

/* Read what srun knows of the step, and the settings, which take precedence as options on a command line do. srun has
 * written all of it before it started this program, so this never waits for more. */
static int read_settings(struct program *prog, struct hvd_err *err)
{
	struct hvd_driver_opts *opts = &prog->opts;
	uint32_t per_node = 0, port_low = 0, port_high = 0;
	const struct {
		const char *key;
		uint32_t *at;
	} numbers[] = {
		{"job", &prog->job},
		{"step", &prog->step},
		{"nodes", &opts->hosts},
		{"tasks", &opts->ranks},
		{"wanted", &opts->wanted_ranks},
		{"per-node", &per_node},
		{"port-low", &port_low},
		{"port-high", &port_high},
		{"ends-ranks", &prog->ends_ranks},
		{"key-fd", &prog->key_fd},
		{"programs-fd", &prog->programs_fd},
		{NULL, NULL},
	};
	hvd_cleanup_free char *text = hvd_xcalloc(MAX_SETTINGS, 1);
	size_t len = 0;

	while (len < 2 || text[len - 1] || text[len - 2]) {
		ssize_t n = recv(SRUN_FD, text + len, MAX_SETTINGS - len, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return other_release(err);
		len += (size_t)n;
	}
	for (char *line = text, *end; *line; line = end + 1) {
		char *value = strchr(line, '=');
		size_t i = 0;

		end = line + strlen(line);
		if (!value)
			return other_release(err);
		*value++ = '\0';
		while (numbers[i].key && strcmp(line, numbers[i].key) != 0)
			i++;
		if (numbers[i].key)
			*numbers[i].at = (uint32_t)strtoul(value, NULL, 10);
		else if (hvd_options_config(&prog->settings, HVD_FROM_COMMAND, line, value, err) != 0)
			return err->code == HVD_E_NOENT ? other_release(err) : -1;
	}
	opts->by_plugin = true;
	opts->ask_paused = hvd_batch_job_paused;
	opts->kill_wait = HVD_KILL_WAIT; /* of orphans only: Slurm ends the ranks */
	opts->ranks_per_host = per_node != 0;
	opts->port_lo = (in_port_t)port_low;
	opts->port_hi = (in_port_t)port_high;
	return 0;
}

/* How the ranks prove that they belong to this launch: a key file, the key that srun distributes, or munge. */
static int identity_of(const struct program *prog, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
		       struct hvd_err *err)
{
	if (prog->spec.key_file || !prog->key_fd)
		return hvd_secret_identity(prog->spec.key_file, identity, id_text, err);
	*identity = (struct hvd_identity){.kind = HVD_ID_KEY};
	snprintf(id_text, HVD_ID_TEXT, "fd:%d", HVD_KEY_FD);
	return hvd_key_read_fd((int)prog->key_fd, &identity->key, err);
}

static int run(struct program *prog, struct hvd_err *err)
{
	char id_text[HVD_ID_TEXT];
	struct hvd_identity identity;
	struct hvd_session session;
	struct hvd_step_run_opts opts = {.job = prog->job,
					 .step = prog->step,
					 .srun = SRUN_FD,
					 .ends_ranks = prog->ends_ranks,
					 .driver = &prog->opts,
					 .session = &session,
					 .log = &prog->log};
	struct hvd_html_report *report;
	struct hvd_trace *trace;
	char launch[32];
	int status;

	if (identity_of(prog, &identity, id_text, err) != 0 || hvd_session_create(&session, &identity, err) != 0)
		return -1;
	prog->opts.id_text = id_text;
	snprintf(launch, sizeof(launch), "%u.%u", (unsigned)prog->job, (unsigned)prog->step);
	prog->opts.events = hvd_event_log_create(launch, prog->spec.events, &prog->log, err);
	if (!prog->opts.events)
		return -1;
	prog->opts.metrics = hvd_metrics_create(&prog->spec, prog->opts.events, &prog->log, err);
	if (prog->spec.metrics && !prog->opts.metrics) {
		hvd_event_log_destroy(prog->opts.events);
		return -1;
	}
	report = prog->spec.report ? hvd_html_report_create(prog->opts.events, prog->spec.report, &prog->log) : NULL;
	trace = prog->spec.trace ? hvd_trace_create(prog->opts.events, prog->spec.trace, &prog->log) : NULL;
	status = hvd_step_run(&opts, err);
	if (status < 0)
		hvd_event(prog->opts.events, LAUNCH_ENDED, .status = hvd_err_status(err));
	hvd_event_log_destroy(prog->opts.events);
	hvd_trace_destroy(trace);
	hvd_metrics_destroy(prog->opts.metrics);
	hvd_html_report_destroy(report);
	return status;
}

int main(int argc, char **argv)
{
	struct program prog = {.log = hvd_log_make("hvd", HVD_LOG_INFO)};
	struct hvd_err err = {0};
	struct stat st;
	int status = -1;

	if (argc > 1 || fstat(SRUN_FD, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr,
			"usage: %s\nsrun --hvd starts hvd-driver and sends it the settings: see spank-hvd(8).\n",
			argv[0]);
		return 2;
	}
	hvd_raise_nofile();
	signal(SIGPIPE, SIG_IGN);
	/* srun handles Ctrl-C. SIGTERM comes to all processes of a batch job that is cancelled: this one ends when srun
	 * does, and says before how the ranks have ended. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	hvd_options_init(&prog.settings);
	if (read_settings(&prog, &err) == 0 && apply_settings(&prog, &err) == 0)
		status = run(&prog, &err);
	if (status >= 0)
		return status;
	hvd_log_err(&prog.log, &err);
	return hvd_err_status(&err);
}
