/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvdrun - start the ranks of a distributed training through the scheduler.
 *
 * Reads the options, makes the launch spec, chooses a launch backend, has it
 * prepare the launch processes, and runs them (job/run.h).
 */
#include "launcher/diagnosis/stacks_command.h"
#include "launcher/diagnosis/status_command.h"
#include "launcher/events/trace.h"
#include "launcher/job/launch_notes.h"
#include "launcher/job/prepare.h"
#include "launcher/job/report.h"
#include "launcher/job/requeue.h"
#include "launcher/job/requeue_guard.h"
#include "launcher/job/run.h"
#include "launcher/metrics/metrics.h"
#include "launcher/options/options.h"
#include "launcher/options/role_specs.h"
#include "launcher/report/html_report.h"
#include "launcher/report/report_command.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/start/agent_pool.h"
#include "launcher/start/backend.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/launch_marks.h"
#include "lib/process/command_line.h"
#include "lib/process/own_program.h"
#include "lib/process/spawn.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

extern char **environ;

static int show(char *made)
{
	hvd_cleanup_free char *text = made;

	return fputs(text, stdout) == EOF || fflush(stdout) != 0;
}

static int terminal_width(void)
{
	struct winsize ws;
	const char *columns = getenv("COLUMNS");

	if (columns && atoi(columns) > 0)
		return atoi(columns);
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
}

static int ask_srun(const struct hvd_options *o, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	struct hvd_err err = {0};
	struct hvd_spawn spawn = {.path = "srun", .keep_fds = 1};

	hvd_strv_add(&argv, "srun");
	hvd_strv_add_all(&argv, o->srun_args.v);
	spawn.argv = argv.v;
	hvd_exec(&spawn, &err);
	hvd_log_err(log, &err);
	return 1;
}

/* Prepare the launch and run it. Returns the exit status; -1 with err set when nothing was started. */
static int run_job(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		   bool json, struct hvd_result *result, struct hvd_err *err)
{
	const bool slurm = backend == &hvd_backend_steps || backend->one_srun ||
			   hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm;
	struct hvd_wait_note *note = slurm ? hvd_wait_note_begin(launch->log) : NULL;
	int rc = hvd_prepare(launch, backend, opts, err);

	hvd_wait_note_end(note);
	if (rc != 0)
		return rc < 0 ? -1 : (result->status = rc);
	if (launch->spec->dry_run)
		return hvd_report_dry_run(launch, backend, json, err);
	rc = hvd_run(launch, backend, opts, result, err);
	return rc == 0 ? result->status : -1;
}

/* Make the job by salloc, which then runs hvdrun again, in it. Returns only if there is no salloc to run. */
static int run_in_salloc(const struct hvd_launch *launch, char *const *argv)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	hvd_cleanup_free char *line = NULL;
	struct hvd_err err = {0};

	if (hvd_launch_salloc(launch, argv, &words, &err) != 0) {
		hvd_log_err(launch->log, &err);
		return hvd_err_status(&err);
	}
	line = hvd_shell_join(words.v);
	if (launch->spec->dry_run)
		return printf("%s\n", line) < 0 || fflush(stdout) != 0;
	hvd_verbose(launch->log, "%s", line);
	signal(SIGPIPE, SIG_DFL);
	setenv("SALLOC_NO_KILL", "set", 1); /* as salloc's option, and hvdrun sees it in the job */
	execvp(words.v[0], words.v);
	hvd_err_sys(&err, "cannot run salloc");
	hvd_log_err(launch->log, &err);
	return hvd_err_status(&err);
}

/* Users see a launch by its host and the number of this process. */
static int begin_events(const struct hvd_launch *launch, const struct hvd_backend *backend, char *const *argv,
			struct hvd_driver_opts *opts, struct hvd_html_report **report, struct hvd_err *err)
{
	hvd_cleanup_free char *command = hvd_command_line(argv);
	char host[256] = "", name[300];

	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%s:%d", host, (int)getpid());
	opts->events = hvd_event_log_create(name, launch->spec->events, launch->log, err);
	if (!opts->events)
		return -1;
	if (launch->spec->report)
		*report = hvd_html_report_create(opts->events, launch->spec->report, launch->log);
	opts->metrics = hvd_metrics_create(launch->spec, opts->events, launch->log, err);
	if (launch->spec->metrics && !opts->metrics)
		return -1;
	hvd_event(opts->events, LAUNCH_BEGAN, .version = HVD_VERSION, .backend = backend->name, .command = command,
		  .job = hvd_batch_job_of(launch->spec, 0).number);
	return 0;
}

static int launch_job(const struct hvd_launch_spec *spec, const struct hvd_role_specs *roles, bool json,
		      char *const *argv, const struct hvd_log *log)
{
	hvd_cleanup_free char *agent = hvd_own_program("../libexec/hvd/hvd-agent", HVD_LIBEXECDIR "/hvd-agent");
	hvd_cleanup_free char *selftest = hvd_own_program("hvd-selftest", "hvd-selftest");
	hvd_cleanup_free char *requeue = hvd_own_program("../libexec/hvd/hvd-requeue", HVD_LIBEXECDIR "/hvd-requeue");
	struct hvd_launch launch = {.spec = spec,
				    .roles = roles,
				    .envp = environ,
				    .log = log,
				    .agent = agent,
				    .selftest = selftest,
				    .local_hosts = hvd_local_hosts_create()};
	struct hvd_driver_opts opts = {0};
	struct hvd_result result = {0};
	struct hvd_err err = {0};
	const struct hvd_backend *backend = hvd_prepare_backend(&launch, &err);
	struct hvd_trace *trace = NULL;
	struct hvd_html_report *report = NULL;
	int rc, guard = -1;

	if (backend && hvd_prepare_output_dir(spec, &err) != 0)
		backend = NULL;
	if (backend && hvd_launch_needs_salloc(&launch, backend)) {
		rc = run_in_salloc(&launch, argv);
		goto out;
	}
	if (backend && !spec->dry_run)
		guard = hvd_requeue_guard_start(spec, requeue, log);
	if (backend && !spec->dry_run && begin_events(&launch, backend, argv, &opts, &report, &err) != 0)
		backend = NULL;
	if (opts.events && spec->trace)
		trace = hvd_trace_create(opts.events, spec->trace, log);
	rc = backend ? run_job(&launch, backend, &opts, json, &result, &err) : -1;

	if (rc < 0) {
		hvd_log_err(log, &err);
		rc = hvd_err_status(&err);
		result.status = rc;
	}
	if (!spec->dry_run)
		hvd_report_as_horovodrun(&launch, backend, &result);
	if (json && !spec->dry_run)
		hvd_report_result(&result, backend);
	hvd_result_clear(&result);
	hvd_requeue_guard_end(guard);
	if (!spec->dry_run)
		rc = hvd_requeue_at_end(spec, &result.requeue, rc, rc, opts.events, log);
	hvd_requeue_clear(&result.requeue);
	hvd_event_log_destroy(opts.events);
	hvd_trace_destroy(trace);
	hvd_metrics_destroy(opts.metrics);
	hvd_html_report_destroy(report);
out:
	hvd_launch_clear(&launch);
	hvd_agent_pool_close(launch.agent_pool);
	hvd_local_hosts_destroy(launch.local_hosts);
	hvd_strv_free(&opts.extra_env);
	hvd_strv_free(&opts.names);
	return rc;
}

static int show_stacks(const struct hvd_options *o, const struct hvd_log *log)
{
	hvd_cleanup_free char *agent = hvd_own_program("../libexec/hvd/hvd-agent", HVD_LIBEXECDIR "/hvd-agent");
	struct hvd_err err = {0};

	if (hvd_stacks_command(o->stacks, o->rank, o->samples, o->json, agent, log, &err) == 0)
		return 0;
	hvd_log_err(log, &err);
	return hvd_err_status(&err);
}

/* Become the program that watches: only it needs a library for screens. */
static int show_watch(const struct hvd_options *o, const struct hvd_log *log)
{
	hvd_cleanup_free char *watch = hvd_own_program("../libexec/hvd/hvd-watch", HVD_LIBEXECDIR "/hvd-watch");
	hvd_cleanup_free char *self = hvd_own_program("hvdrun", "hvdrun");
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	struct hvd_spawn spawn = {.path = watch, .keep_fds = 1};
	struct hvd_err err = {0};

	hvd_strv_add(&argv, "hvd-watch");
	hvd_strv_addf(&argv, "--interval=%d", o->interval);
	if (o->json)
		hvd_strv_add(&argv, "--json");
	hvd_strv_add(&argv, "--");
	hvd_strv_add(&argv, self);
	hvd_strv_add(&argv, o->watch);
	spawn.argv = argv.v;
	hvd_exec(&spawn, &err);
	hvd_log_err(log, &err);
	return 1;
}

static int show_status(const struct hvd_options *o, const struct hvd_log *log)
{
	hvd_cleanup_free char *self = hvd_own_program("hvdrun", "hvdrun");
	struct hvd_err err = {0};

	if (hvd_status_command(o->status, o->rank, o->json, self, log, &err) == 0)
		return 0;
	hvd_log_err(log, &err);
	return hvd_err_status(&err);
}

/* HVD_REPORT is for launches, whose pages this one shall not replace. */
static int make_report(const struct hvd_options *o, const struct hvd_log *log)
{
	const char *path = hvd_options_source(o, "report") == HVD_FROM_COMMAND ? o->report : NULL;
	struct hvd_err err = {0};

	if (hvd_report_command(o->report_of, path, log, &err) == 0)
		return 0;
	hvd_log_err(log, &err);
	return hvd_err_status(&err);
}

static int show_plugin_path(const struct hvd_log *log)
{
	hvd_cleanup_free char *found = hvd_own_program("../lib/slurm/hvd.so", HVD_PLUGINDIR "/hvd.so");
	char path[PATH_MAX];
	struct hvd_err err = {0};

	if (realpath(found, path))
		return show(hvd_xasprintf("%s\n", path));
	hvd_err_sys(&err, "this installation has no plugin of Slurm: %s", found);
	hvd_err_hint(&err, "build hvd where Slurm's headers are, or install the wheel, which has it");
	hvd_log_err(log, &err);
	return 1;
}

/* `roles`: the options are those of the first. */
static int launch(const struct hvd_options *o, const struct hvd_launch_spec *spec, const struct hvd_role_specs *roles,
		  char *const *argv, const struct hvd_log *log)
{
	const struct hvd_strv *warnings = roles ? &roles->warnings : &o->warnings;
	const struct hvd_strv *notes = roles ? &roles->notes : &o->notes;

	for (size_t i = 0; i < warnings->n; i++)
		hvd_warn(log, "%s", warnings->v[i]);
	for (size_t i = 0; i < notes->n; i++)
		hvd_verbose(log, "%s", notes->v[i]);
	if (hvd_options_given(o, "requeue-on") && !hvd_batch_job_of(spec, 0).scheduler->requeue)
		hvd_warn(log, "--requeue-on has no effect outside of a batch job: start hvdrun in sbatch or bsub");
	return launch_job(spec, roles, o->json, argv, log);
}

static int act(struct hvd_options *o, char *const *argv, const struct hvd_log *log)
{
	struct hvd_launch_spec spec;
	int status;

	switch (o->action) {
	case HVD_SHOW_HELP:
		return show(hvd_options_help(o, terminal_width()));
	case HVD_SHOW_USAGE:
		return show(hvd_options_usage(o));
	case HVD_SHOW_MAN:
		return show(hvd_options_man(o));
	case HVD_SHOW_PLUGIN_MAN:
		return show(hvd_options_plugin_man());
	case HVD_SHOW_COMPLETION:
		return show(hvd_options_completion(o));
	case HVD_SHOW_VERSION:
		return show(hvd_xasprintf("hvdrun %s\n", HVD_VERSION));
	case HVD_CHECK_BUILD:
		return show(hvd_report_build(environ));
	case HVD_SHOW_STACKS:
		return show_stacks(o, log);
	case HVD_SHOW_WATCH:
		return show_watch(o, log);
	case HVD_SHOW_STATUS:
		return show_status(o, log);
	case HVD_MAKE_REPORT:
		return make_report(o, log);
	case HVD_SHOW_PLUGIN:
		return show_plugin_path(log);
	case HVD_ASK_SRUN:
		return ask_srun(o, log);
	default:
		hvd_launch_spec_make(&spec, o, environ);
		status = launch(o, &spec, NULL, argv, log);
		hvd_launch_spec_clear(&spec);
		return status;
	}
}

static void set_level(struct hvd_log *log, const struct hvd_options *o)
{
	if (o->verbose)
		log->level = o->verbose > 1 ? HVD_LOG_DEBUG : HVD_LOG_VERBOSE;
}

static int run_roles(int argc, char **argv, struct hvd_log *log)
{
	HVD_CLEANUP(hvd_role_specs_clear) struct hvd_role_specs roles = {0};
	struct hvd_err err = {0};

	if (hvd_role_specs_load(&roles, argc, argv, environ, &err) != 0) {
		hvd_log_err(log, &err);
		return hvd_err_status(&err);
	}
	set_level(log, roles.v[0].options);
	return launch(roles.v[0].options, &roles.v[0].spec, &roles, argv, log);
}

int main(int argc, char **argv)
{
	const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;
	struct hvd_log log = hvd_log_make(slash ? slash + 1 : "hvdrun", HVD_LOG_INFO);
	struct hvd_options options;
	struct hvd_err err = {0};
	int status;

	signal(SIGPIPE, SIG_IGN);
	hvd_scheduler_clean_env();
	hvd_launch_marks_drop();
	if (hvd_role_specs_wanted(argc, argv))
		return run_roles(argc, argv, &log);
	hvd_options_init(&options);
	if (hvd_options_parse(&options, argc, argv, &err) != 0 || hvd_options_env(&options, environ, &err) != 0 ||
	    (options.action == HVD_RUN && hvd_config_load(&options, &err) != 0) ||
	    hvd_options_check(&options, &err) != 0) {
		hvd_log_err(&log, &err);
		status = hvd_err_status(&err);
	} else {
		set_level(&log, &options);
		status = act(&options, argv, &log);
	}
	hvd_options_free(&options);
	return status;
}
