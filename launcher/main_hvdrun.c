/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvdrun - start Horovod-style ranks through the scheduler.
 *
 * Reads the command line, chooses a backend, and runs the launch (run.h).
 */
#include "launcher/backends/backend.h"
#include "launcher/driver/driver.h"
#include "launcher/elastic/elastic.h"
#include "launcher/options/config.h"
#include "launcher/options/options.h"
#include "launcher/options/settings.h"
#include "launcher/run/report.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/munge.h"
#include "slurm/alloc_slurm.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int show(char *text)
{
	int rc = fputs(text, stdout) == EOF || fflush(stdout) != 0;

	free(text);
	return rc;
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
	struct hvd_strv argv = {0};
	struct hvd_err err = {0};
	struct hvd_spawn spawn = {.path = "srun", .keep_fds = 1};

	hvd_strv_add(&argv, "srun");
	hvd_strv_add_all(&argv, o->srun_args.v);
	spawn.argv = argv.v;
	hvd_exec(&spawn, &err);
	hvd_log_err(log, &err);
	hvd_strv_free(&argv);
	return 1;
}

/* This suite's own programs: in the installation's or the build's libexec, next to where this one runs. */
static char *find_program(const char *relative, const char *installed)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *path, *slash;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		*slash = '\0';
		path = hvd_xasprintf("%s/%s", self, relative);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return hvd_xstrdup(installed);
}

static void driver_opts(const struct hvd_options *o, const struct hvd_backend *backend, const struct hvd_launch *launch,
			struct hvd_driver_opts *opts)
{
	opts->loopback = backend->loopback || launch->one_machine;
	opts->mode = backend->mode;
	hvd_driver_opts_from(o, opts);
	if (!backend->one_srun || o->run_func)
		opts->where = HVD_WHERE_LAUNCH;
	if (backend->mode == HVD_START_RANKS)
		return;
	opts->hosts = (uint32_t)launch->alloc.n_hosts;
	for (int i = 0; i < launch->alloc.n_hosts; i++)
		hvd_strv_add(&opts->names, launch->alloc.hosts[i].name);
}

/* Where the site lets srun listen only in a range of ports, the driver keeps to it as well. Where it has no munge
 * srun's tasks get the launch's key in another way. */
static int ask_site(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_err *err)
{
	bool keyless = !launch->options->key_file;
	struct hvd_slurm_site site;
	int rc = hvd_slurm_site_get(&site, err);

	if (rc != 0)
		hvd_err_hint(err, "does 'scontrol show config' work here? --launcher=fork uses this machine only");
	opts->port_lo = (in_port_t)site.port_lo;
	opts->port_hi = (in_port_t)site.port_hi;
	launch->unbound = !site.binds;
	keyless = keyless && (!site.munge || hvd_munge_here(NULL, NULL) != 0);
	if (rc == 0 && keyless && backend == &hvd_backend_srun)
		rc = hvd_srun_by_stdin(launch, err);
	else if (backend == &hvd_backend_steps)
		launch->by_stdin = keyless;
	return rc;
}

/* --output-filename: the folder and those above it; the shims, which may run elsewhere, make the ranks' own. */
static int make_output_dir(const struct hvd_options *o, char **dir, struct hvd_err *err)
{
	char *path, *slash;

	if (!o->output_filename)
		return 0;
	path = o->output_filename[0] == '/' ? hvd_xstrdup(o->output_filename) : NULL;
	if (!path) {
		char *cwd = getcwd(NULL, 0);

		path = hvd_xasprintf("%s/%s", cwd ? cwd : ".", o->output_filename);
		free(cwd);
	}
	for (slash = path; !o->dry_run && slash; slash = strchr(slash + 1, '/')) {
		char *part = hvd_xstrndup(path, (size_t)(slash - path));
		int rc = *part ? mkdir(part, 0777) : 0;

		free(part);
		if (rc != 0 && errno != EEXIST)
			break;
	}
	if (!o->dry_run && mkdir(path, 0777) != 0 && errno != EEXIST) {
		hvd_err_sys(err, "cannot make the folder %s for the ranks' output", path);
		err->code = HVD_E_USAGE;
		free(path);
		return -1;
	}
	*dir = path;
	return 0;
}

/* What starts the ranks, and prepared for it. NULL with err set. */
/* Does a program say which hosts there are? */
static bool asks_script(const struct hvd_options *o)
{
	return o->discovery_script || (o->discover && strncmp(o->discover, "script:", 7) == 0);
}

static const struct hvd_backend *choose_backend(struct hvd_launch *launch, bool elastic, struct hvd_err *err)
{
	const struct hvd_backend *backend = hvd_backend_choose(launch, err);

	if (!backend || !elastic)
		return backend;
	if (hvd_elastic_prepare(launch, err) != 0)
		return NULL;
	/* Hosts that nobody knows yet may be other machines. */
	if (backend->loopback && launch->options->launcher == HVD_LAUNCHER_AUTO && asks_script(launch->options))
		backend = &hvd_backend_ssh;
	if (!backend->elastic) {
		hvd_err_set(err, HVD_E_USAGE, "%s cannot start the ranks of an elastic job", backend->name);
		hvd_err_hint(err, "--launcher takes srun, blaunch, lsrun, ssh or fork for it");
	}
	return backend->elastic;
}

/* Nobody has said that the ranks are to run here, and there is a Slurm that they could have run in. */
static void say_where(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	const struct hvd_options *o = launch->options;
	char host[256] = "this host";

	if (hvd_options_source(o, "launcher") != HVD_FROM_DEFAULT || o->hosts || o->hostfile || o->discovery_script ||
	    o->discover || o->quiet || !(backend->loopback || launch->one_machine) ||
	    hvd_alloc_in_slurm(launch->envp) || hvd_alloc_in_lsf(launch->envp) || !hvd_launch_installed(launch, "srun"))
		return;
	gethostname(host, sizeof(host) - 1);
	hvd_info(launch->log,
		 "the ranks run on %s, outside of Slurm, for no option of srun's is given (--launcher=srun has Slurm "
		 "start them; --launcher=fork has this host do it without this message)",
		 host);
}

/* Tell at once what no shim could start. */
static int check_size(const struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	for (int i = 0; backend->mode == HVD_START_HOSTS && i < launch->alloc.n_hosts; i++) {
		const struct hvd_alloc_host *host = &launch->alloc.hosts[i];

		if (host->slots <= HVD_MAX_HOST_RANKS)
			continue;
		hvd_err_set(err, HVD_E_LIMIT, "%d ranks on %s are more than the %d that one host may have", host->slots,
			    host->name, HVD_MAX_HOST_RANKS);
		return hvd_err_hint(err, "start fewer ranks (-np), or spread them over more hosts");
	}
	return 0;
}

static int launch_job(struct hvd_options *o, const struct hvd_log *log)
{
	struct hvd_launch launch = {.options = o, .envp = environ, .log = log, .command = o->command.v};
	char *task = find_program("../libexec/hvd/hvd-task", HVD_LIBEXECDIR "/hvd-task");
	char *selftest = find_program("hvd-selftest", "hvd-selftest");
	const struct hvd_backend *backend;
	struct hvd_driver_opts opts = {0};
	struct hvd_result result = {0};
	struct hvd_strv command = {0};
	struct hvd_err err = {0};
	bool elastic = hvd_elastic_asked(o);
	char *output_dir = NULL;
	int rc = -1;

	if (o->selftest)
		hvd_strv_add(&command, selftest);
	hvd_strv_add_all(&command, o->command.v);
	launch.command = command.v;
	launch.task = task;
	backend = choose_backend(&launch, elastic, &err);
	if (backend && make_output_dir(o, &output_dir, &err) == 0)
		launch.output_dir = output_dir;
	else
		backend = NULL;
	if (backend && elastic && o->dry_run && hvd_elastic_preview(&launch, backend, &err) != 0)
		backend = NULL;
	if (backend && (elastic || backend->prepare(&launch, &err) == 0) && check_size(&launch, backend, &err) == 0) {
		say_where(&launch, backend);
		driver_opts(o, backend, &launch, &opts);
		if (o->dry_run)
			rc = hvd_report_dry_run(&launch, backend, &opts, o->json);
		else if (elastic)
			rc = (backend != &hvd_backend_steps || ask_site(&launch, backend, &opts, &err) == 0) &&
					     hvd_elastic_run(&launch, backend, &opts, &result, &err) == 0
				     ? result.status
				     : -1;
		else if ((backend->mode == HVD_START_HOSTS || !(backend->one_srun || hvd_alloc_in_slurm(environ)) ||
			  ask_site(&launch, backend, &opts, &err) == 0) &&
			 hvd_run(&launch, backend, &opts, &result, &err) == 0)
			rc = result.status;
	}
	if (rc < 0) {
		hvd_log_err(log, &err);
		rc = hvd_err_status(&err);
		result.status = rc;
	}
	if (!o->dry_run)
		hvd_report_as_horovodrun(&launch, backend, &result);
	if (o->json && !o->dry_run)
		hvd_report_result(&result, backend);
	hvd_launch_clear(&launch);
	hvd_strv_free(&opts.nics);
	hvd_strv_free(&opts.env);
	hvd_strv_free(&opts.names);
	hvd_strv_free(&command);
	free(output_dir);
	free(task);
	free(selftest);
	return rc;
}

static int act(struct hvd_options *o, const struct hvd_log *log)
{
	switch (o->action) {
	case HVD_SHOW_HELP:
		return show(hvd_options_help(o, terminal_width()));
	case HVD_SHOW_USAGE:
		return show(hvd_options_usage(o));
	case HVD_SHOW_MAN:
		return show(hvd_options_man(o));
	case HVD_SHOW_COMPLETION:
		return show(hvd_options_completion(o));
	case HVD_SHOW_VERSION:
		return show(hvd_xasprintf("hvdrun %s\n", HVD_VERSION));
	case HVD_CHECK_BUILD:
		return show(hvd_report_build(environ));
	case HVD_ASK_SRUN:
		return ask_srun(o, log);
	default:
		for (size_t i = 0; i < o->warnings.n; i++)
			hvd_warn(log, "%s", o->warnings.v[i]);
		for (size_t i = 0; i < o->notes.n; i++)
			hvd_verbose(log, "%s", o->notes.v[i]);
		return launch_job(o, log);
	}
}

int main(int argc, char **argv)
{
	const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;
	struct hvd_log log = hvd_log_make(slash ? slash + 1 : "hvdrun", HVD_LOG_INFO);
	struct hvd_options options;
	struct hvd_err err = {0};
	int status;

	signal(SIGPIPE, SIG_IGN);
	hvd_options_init(&options);
	if (hvd_options_parse(&options, argc, argv, &err) != 0 || hvd_options_env(&options, environ, &err) != 0 ||
	    (options.action == HVD_RUN && hvd_config_load(&options, &err) != 0) ||
	    hvd_options_check(&options, &err) != 0) {
		hvd_log_err(&log, &err);
		status = hvd_err_status(&err);
	} else {
		if (options.verbose)
			log.level = options.verbose > 1 ? HVD_LOG_DEBUG : HVD_LOG_VERBOSE;
		status = act(&options, &log);
	}
	hvd_options_free(&options);
	return status;
}
