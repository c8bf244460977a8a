/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "elastic_roles.h"
#include "launcher/options/rank_commands.h"
#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "lib/process/multi_prog.h"
#include "lib/process/spawn.h"
#include "role_report.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits on `horovodrun --check-build`, which imports every framework to tell which ones it was built for. */
#define HOROVOD_SECONDS 120.0
#define HOROVOD_MAX     65536
/* Of the numbers of --json: a millisecond of the time since 1970. More would show how binary fractions are rounded. */
#define DIGITS 13

/* The variables of a launch process that differ from hvdrun's environment. */
static struct hvd_strv changed_env(const struct hvd_launch *launch, const struct hvd_proc *proc)
{
	struct hvd_strv out = {0};

	for (size_t i = 0; i < proc->env.n; i++) {
		bool same = false;

		for (char *const *e = launch->envp; *e && !same; e++)
			same = strcmp(*e, proc->env.v[i]) == 0;
		if (!same)
			hvd_strv_add(&out, proc->env.v[i]);
	}
	return out;
}

/* As --store spells it. */
static const char *store_name(enum hvd_store_mode store)
{
	static const char *const names[] = {"agent", "rank0", "off"};

	return names[store];
}

/* With --multi-prog: how many ranks there are at first, as far as it is known here, and at least those that lines name. */
static int count_ranks(const struct hvd_launch *launch, const struct hvd_backend *backend, bool *exact)
{
	const struct hvd_launch_spec *spec = launch->spec;
	int n = spec->ranks.n > 0 || backend->one_srun ? spec->ranks.n : launch->alloc.slots;
	int named = hvd_multi_prog_ranks(spec->programs);

	*exact = n > 0 && !spec->elastic.on;
	return n > named ? n : named;
}

static json_t *commands(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	json_t *list = json_array();
	bool exact;
	int n = count_ranks(launch, backend, &exact);

	for (int r = 0; r < n; r++)
		json_array_append_new(list, hvd_rank_command(launch->spec, r, false));
	return list;
}

static void print_json(const struct hvd_launch *launch, const struct hvd_role_hosts *places,
		       const struct hvd_backend *backend)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv frameworks = {0};
	json_t *hosts = json_array(), *procs = json_array(), *out;

	hvd_frameworks_names(launch->spec->frameworks, &frameworks);
	for (int i = 0; i < launch->alloc.n_hosts; i++)
		json_array_append_new(hosts, json_pack("{s:s, s:i}", "name", launch->alloc.hosts[i].name, "slots",
						       launch->alloc.hosts[i].slots));
	for (size_t i = 0; i < launch->n_procs; i++) {
		const struct hvd_proc *proc = &launch->procs[i];
		struct hvd_strv env = changed_env(launch, proc);

		json_array_append_new(procs,
				      json_pack("{s:o, s:o, s:o}", "argv", hvd_json_words(&proc->argv), "stdin_args",
						hvd_json_words(&proc->stdin_args), "env", hvd_json_words(&env)));
		hvd_strv_free(&env);
	}
	out = json_pack("{s:s, s:o, s:o, s:o, s:f, s:s, s:o, s:f}", "backend", backend->name, "hosts", hosts,
			"processes", procs, "rank_env", hvd_json_words(&launch->spec->env), "start_timeout",
			launch->spec->deadlines.start, "store", store_name(launch->spec->store), "frameworks",
			hvd_json_words(&frameworks), "init_timeout", launch->spec->init_timeout);
	if (launch->spec->max_restarts >= 0)
		json_object_set_new(out, "max_restarts", json_integer(launch->spec->max_restarts));
	if (launch->roles)
		json_object_set_new(out, "roles", hvd_role_report_json(launch, places));
	if (launch->spec->programs)
		json_object_set_new(out, "commands", commands(launch, backend));
	json_dumpf(out, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(out);
}

/* NAME='value' … for a shell, which takes it for assignments only if the names are not quoted. Caller frees. */
static char *assignments(const struct hvd_strv *env)
{
	char *all = hvd_xstrdup("");

	for (size_t i = 0; i < env->n; i++) {
		const char *value = strchr(env->v[i], '=') + 1;
		hvd_cleanup_free char *quoted = hvd_shell_quote(value);

		hvd_xappendf(&all, "%s%.*s%s", i ? " " : "", (int)(value - env->v[i]), env->v[i], quoted);
	}
	return all;
}

/* Print a line of `text`, which may hold unprintable bytes from files or the environment. */
static void print_line(const char *intro, const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char *shown = hvd_xcalloc(size, 1);

	hvd_printable(text, shown, size);
	printf("%s%s\n", intro, shown);
	free(shown);
}

/* The same of each of its lines. */
static void print_lines(const char *intro, char *text)
{
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		print_line(intro, line);
}

static void print_stdin_args(const struct hvd_proc *proc)
{
	hvd_cleanup_free char *line = hvd_shell_join(proc->stdin_args.v);

	if (proc->stdin_args.n)
		print_line("# and on its stdin, after environment and directory: hvd-agent ", line);
}

/* What was said of PyTorch and other frameworks, and of starting all ranks anew. */
static void print_frameworks(const struct hvd_launch_spec *spec)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	hvd_cleanup_free char *list = NULL;

	hvd_frameworks_names(spec->frameworks, &names);
	list = hvd_strv_join(&names, " ");
	printf("# frameworks: %s; store: %s\n", names.n ? list : "none", store_name(spec->store));
	if (spec->init_timeout > 0)
		printf("# init-timeout: %g seconds\n", spec->init_timeout);
	if (spec->max_restarts >= 0)
		printf("# all ranks are restarted after changes of hosts, and after failures %d time%s at most\n",
		       spec->max_restarts, spec->max_restarts == 1 ? "" : "s");
}

/* What rank `r` runs, as a line for a shell; NULL: nothing. The caller frees it. */
static char *command_of(const struct hvd_launch_spec *spec, int r)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};

	return hvd_multi_prog_command(spec->programs, r, &argv) == 0 ? hvd_shell_join(argv.v) : NULL;
}

/* --multi-prog: who runs what. Neighbours that run the same are on one line. */
static void print_programs(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	const struct hvd_launch_spec *spec = launch->spec;
	bool exact;
	int n = spec->programs ? count_ranks(launch, backend, &exact) : 0, first = 0;
	hvd_cleanup_free char *line = n ? command_of(spec, 0) : NULL;

	for (int r = 1; r <= n; r++) {
		char *next = r < n ? command_of(spec, r) : NULL;
		char who[64];

		if (line && next && strcmp(line, next) == 0) {
			free(next);
			continue;
		}
		if (first == r - 1)
			snprintf(who, sizeof(who), "# rank %d runs ", first);
		else
			snprintf(who, sizeof(who), "# ranks %d to %d run ", first, r - 1);
		print_line(who, line ? line : "nothing");
		free(line);
		line = next;
		first = r;
	}
	if (spec->programs && hvd_multi_prog_open(spec->programs) && !exact) {
		hvd_cleanup_free char *others = command_of(spec, n);
		hvd_cleanup_free char *who = hvd_xasprintf("# ranks from %d on run, as rank %d does, ", n, n);

		print_line(who, others);
	}
}

static void print_text(const struct hvd_launch *launch, const struct hvd_role_hosts *places,
		       const struct hvd_backend *backend)
{
	printf("# backend: %s\n", backend->name);
	if (launch->alloc.n_hosts && !launch->roles) {
		hvd_cleanup_free char *table = hvd_alloc_table(&launch->alloc, 0);

		printf("# %d rank%s on %d host%s (%s):\n", launch->alloc.slots, launch->alloc.slots == 1 ? "" : "s",
		       launch->alloc.n_hosts, launch->alloc.n_hosts == 1 ? "" : "s", launch->alloc.source);
		print_lines("# ", table);
	}
	if (!launch->roles)
		print_frameworks(launch->spec);
	for (size_t i = 0; i < launch->spec->env.n; i++)
		print_line("# every rank gets ", launch->spec->env.v[i]);
	print_programs(launch, backend);
	if (launch->roles) {
		hvd_cleanup_free char *roles = hvd_role_report_text(launch, places);

		print_lines("", roles);
	}
	for (size_t i = 0; i < launch->n_procs; i++) {
		struct hvd_strv env = changed_env(launch, &launch->procs[i]);
		char *vars = assignments(&env), *line = hvd_shell_join(launch->procs[i].argv.v);
		char *all = hvd_xasprintf("%s%s%s", vars, *vars ? " " : "", line);

		print_line("", all);
		print_stdin_args(&launch->procs[i]);
		free(all);
		free(vars);
		free(line);
		hvd_strv_free(&env);
	}
}

int hvd_report_dry_run(const struct hvd_launch *launch, const struct hvd_backend *backend, bool json,
		       struct hvd_err *err)
{
	HVD_CLEANUP(hvd_role_hosts_clear) struct hvd_role_hosts places = {0};

	if (launch->roles && hvd_elastic_roles_place(launch, &launch->alloc, &places, err) != 0)
		return -1;
	(json ? print_json : print_text)(launch, &places, backend);
	return fflush(stdout) != 0;
}

void hvd_report_result(const struct hvd_result *result, const struct hvd_backend *backend)
{
	char text[64];
	json_t *out = json_pack("{s:s, s:s, s:i, s:b, s:f, s:f}", "version", HVD_VERSION, "backend",
				backend ? backend->name : "none", "status", result->status, "started", result->started,
				"start_seconds", result->start_seconds, "seconds", result->seconds);
	char *line;

	if (result->job)
		json_object_set_new(out, "job", json_integer(result->job));
	if (result->hosts)
		json_object_set(out, "hosts", result->hosts);
	if (result->first_failure) {
		json_object_set(out, "first_failure", result->first_failure);
		json_object_set(out, "failures", result->failures);
	} else if (result->rank_failed)
		json_object_set_new(out, "first_failure",
				    json_pack("{s:I, s:s, s:s}", "rank", (json_int_t)result->rank, "host", result->host,
					      "how", hvd_status_text(result->rank_status, text, sizeof(text))));
	if (result->generations)
		json_object_set_new(out, "generations", json_integer(result->generations));
	if (result->history) {
		json_object_set(out, "history", result->history);
		json_object_set(out, "goodput", result->goodput);
	}
	if (result->roles)
		json_object_set(out, "roles", result->roles);
	line = json_dumps(out, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
	fprintf(stderr, "%s\n", line);
	free(line);
	json_decref(out);
}

/* Did a signal to hvdrun end the job? */
static bool ended_by_signal(const struct hvd_result *result)
{
	return !result->rank_failed &&
	       (result->status == 128 + SIGINT || result->status == 128 + SIGTERM || result->status == 128 + SIGHUP);
}

void hvd_report_as_horovodrun(const struct hvd_launch *launch, const struct hvd_backend *backend,
			      const struct hvd_result *result)
{
	static const char detected[] = "Horovod detected that one or more processes exited with non-zero status, thus "
				       "causing the job to be terminated.";

	if (!launch->spec->as_horovodrun || result->status == 0 || ended_by_signal(result))
		return;
	if (result->limit_met)
		hvd_error(launch->log,
			  "Horovod was shutdown because number of resets during elastic job exceeded limit: %d",
			  launch->spec->elastic.reset_limit);
	else if (backend == &hvd_backend_mpirun || backend == &hvd_backend_jsrun)
		hvd_error(launch->log, "%s failed with exit code %d", backend->name, result->status);
	else if (result->rank_failed) {
		hvd_error(launch->log, "%s The first process to do so was:", detected);
		/* Without hvdrun's name in front: horovodrun writes these at the beginning of a line. */
		if (launch->spec->elastic.on)
			dprintf(launch->log->fd, "Process name: %s[%u]\n", result->host, (unsigned)result->local_rank);
		else
			dprintf(launch->log->fd, "Process name: %u\n", (unsigned)result->rank);
		dprintf(launch->log->fd, "Exit code: %d\n", hvd_status_exit(result->rank_status));
	} else if (result->started || result->generations > 0)
		hvd_error(launch->log, "%s", detected);
}

/* What `horovodrun --check-build` prints, by the first Python in PATH that can import Horovod. NULL: none can. Caller
 * frees. */
static char *ask_horovod(char *const *envp)
{
	static const char *const pythons[] = {"python", "python3"};

	for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		struct hvd_strv argv = {0};
		struct hvd_spawn spawn = {.path = pythons[i], .envp = envp};
		int status = -1;
		size_t len;
		char *text;

		hvd_strv_add(&argv, pythons[i]);
		hvd_strv_add(&argv, "-m");
		hvd_strv_add(&argv, "horovod.runner.launch");
		hvd_strv_add(&argv, "--check-build");
		spawn.argv = argv.v;
		text = hvd_capture(&spawn, HOROVOD_MAX, hvd_deadline_in(HOROVOD_SECONDS), &len, &status, NULL);
		hvd_strv_free(&argv);
		if (text && status == 0 && strstr(text, "Available Frameworks:")) {
			while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\n'))
				text[--len] = '\0';
			return text;
		}
		free(text);
	}
	return NULL;
}

char *hvd_report_build(char *const *envp)
{
	static const char none[] = "Horovod: neither python nor python3, as PATH has them, can import it\n\n"
				   "Available Frameworks:\n    [ ] TensorFlow\n    [ ] PyTorch\n    [ ] MXNet\n\n"
				   "Available Controllers:\n    [ ] MPI\n    [ ] Gloo\n\n"
				   "Available Tensor Operations:\n    [ ] NCCL\n    [ ] DDL\n    [ ] CCL\n    [ ] MPI\n"
				   "    [ ] Gloo";
	char *horovod = ask_horovod(envp);
	char *all = hvd_xasprintf("hvdrun %s\n\nLaunch backends:\n    [X] srun (Slurm)\n"
				  "    [X] jsrun, blaunch, lsrun (LSF)\n    [X] ssh (hosts that are listed)\n"
				  "    [X] mpirun (--mpi)\n    [X] join (agents that come by themselves)\n"
				  "    [X] fork (this machine)\n\n%s\n",
				  HVD_VERSION, horovod ? horovod : none);

	free(horovod);
	return all;
}
