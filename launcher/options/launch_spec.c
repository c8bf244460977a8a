/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_spec.h"

#include "lib/base/deadline.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_TIMEOUT 30 /* seconds, as for horovodrun */

/* An option without a number is -1. */
static int positive(int n)
{
	return n > 0 ? n : 0;
}

static double seconds_of(double seconds)
{
	return seconds < HVD_MOST_SECONDS ? seconds : HVD_MOST_SECONDS;
}

static struct hvd_signal_before signal_of(struct hvd_signal_before given)
{
	return (struct hvd_signal_before){.signal = positive(given.signal), .seconds = given.seconds};
}

/* For each kind of lib/base/settings.def and launcher_settings.def: converts an option's value for the launch spec. */
#define FROM_FLAG()
#define FROM_RANGE(least, most)
#define FROM_SECONDS(least) seconds_of
#define FROM_NUMBER(most)
#define FROM_CHOICE(words)
#define FROM_WORDS(words)
#define FROM_SIGNAL() signal_of
#define FROM_FRAMEWORKS()
#define FROM_TEXT(word)

static void set_shared(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
#define LAUNCHER_SETTING(field, name, whose, group, kind, env, def, shown, help, more)                                 \
	spec->field = FROM_##kind(o->field);
#include "launcher_settings.def"
#define SETTING(field, name, whose, group, kind, env, def, help, more) spec->field = FROM_##kind(o->field);
#define HOROVOD_SETTING(field, name, plugin, whose, group, kind, env, def, help, more)
#include "lib/base/settings.def"
}

/* Set an option that another option implies, unless a source as strong as that of the other has set it. */
static void set_implied(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	const unsigned hang = 1U << HVD_REQUEUE_HANG;

	if (spec->spares > 0 && spec->preflight == HVD_PREFLIGHT_OFF &&
	    hvd_options_source(o, "spares") > hvd_options_source(o, "preflight"))
		spec->preflight = HVD_PREFLIGHT_QUICK;
	if ((spec->requeue_on & hang) && hvd_options_source(o, "requeue-on") > hvd_options_source(o, "hang-action"))
		spec->hang_action = HVD_HANG_REQUEUE;
	if (spec->hang_action == HVD_HANG_REQUEUE)
		spec->requeue_on |= hang;
}

static bool any_given(const struct hvd_options *o, const char *const *names, enum hvd_opt_source above)
{
	for (; *names; names++)
		if (hvd_options_source(o, *names) > above)
			return true;
	return false;
}

static void set_discovery(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	const char *d = o->discover;

	if (o->discovery_script || (d && strncmp(d, "script:", 7) == 0)) {
		spec->discovery.from = HVD_DISCOVER_SCRIPT;
		spec->discovery.what = o->discovery_script ? o->discovery_script : d + 7;
	} else if (d && strncmp(d, "jobs:", 5) == 0) {
		spec->discovery.from = HVD_DISCOVER_JOBS;
		spec->discovery.what = d + 5;
	} else if (d) {
		spec->discovery.from = strcmp(d, "slurm") == 0 ? HVD_DISCOVER_SLURM : HVD_DISCOVER_HOSTS;
	}
	spec->discovery.interval = o->discovery_interval > 0 ? o->discovery_interval : 0;
}

static void set_hosts(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	spec->ranks.n =
		o->num_proc > 0 || hvd_options_source(o, "ntasks") > HVD_FROM_ENV ? positive(hvd_options_np(o)) : 0;
	spec->hosts.list = o->hosts;
	spec->hosts.file = o->hostfile;
	spec->hosts.listed = o->hosts || o->hostfile;
	spec->hosts.slots_per_host = positive(o->slots_per_host);
	set_discovery(spec, o);
	spec->hosts.said = hvd_options_source(o, "launcher") != HVD_FROM_DEFAULT || spec->hosts.listed ||
			   spec->discovery.from != HVD_DISCOVER_AUTO;
}

/* The ranks of an elastic job, if the user does not say: the tasks of the Slurm job whose hosts it uses, which are those
 * of all its roles. A scheduler counts the slots of spare hosts as well. */
static int elastic_ranks(const struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	bool of_job = !o->of_role && (o->launcher == HVD_LAUNCHER_auto || o->launcher == HVD_LAUNCHER_srun) &&
		      !spec->hosts.listed && spec->discovery.from != HVD_DISCOVER_SCRIPT &&
		      spec->discovery.from != HVD_DISCOVER_HOSTS;

	return spec->ranks.n || spec->spares > 0 || !of_job ? spec->ranks.n : positive(hvd_options_np(o));
}

static void set_elastic(struct hvd_launch_spec *spec, const struct hvd_options *o, char *const *envp)
{
	const char *silent = hvd_envp_get(envp, "HVD_SILENT_SECONDS");
	bool fixed = o->of_role || (o->max_restarts >= 0 && o->min_np <= 0 && o->max_np <= 0);
	int n = elastic_ranks(spec, o);
	int min = fixed ? n : positive(o->min_np), max = fixed ? n : positive(o->max_np);
	int np = n > min ? n : min;

	spec->elastic.on = o->of_role || hvd_options_elastic(o);
	spec->elastic.min_np = min;
	spec->elastic.max_np = max;
	/* In a batch job `n` may be the job's number of tasks, so the user's bounds take precedence. */
	spec->elastic.first_np = max && np > max ? max : np > 1 ? np : 1;
	spec->elastic.reset_limit = o->reset_limit;
	spec->elastic.timeout = o->elastic_timeout;
	spec->elastic.cooldown_min = positive(o->cooldown_min);
	spec->elastic.cooldown_max = positive(o->cooldown_max);
	spec->elastic.silent = silent && atof(silent) > 0 ? atof(silent) : 0;
}

/* The first option of srun on the command line. Without `also_ours` options that hvdrun handles as well do not count, and
 * of those of a role, which hvdrun always handles, only the numbers of hosts and ranks ever count. Neither -v nor -Q ever
 * counts: what srun prints has nothing to do with who starts the ranks. */
static const char *srun_option(const struct hvd_options *o, bool also_ours)
{
	static const char talk[] = "quiet|verbose";
	static const char ours[] = "ntasks|label|cpu-bind|cpu_bind|unbuffered|kill-on-bad-exit";
	static const char sizes[] = "nodes|ntasks";
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
		if (row->family != HVD_FAMILY_SRUN || !row->pass || !hvd_options_given(o, row->name) ||
		    hvd_value_index(talk, row->name) >= 0 || (!also_ours && hvd_value_index(ours, row->name) >= 0))
			continue;
		if (o->of_role && row->whose != HVD_OF_LAUNCH && (!also_ours || hvd_value_index(sizes, row->name) < 0))
			continue;
		/* -N1 is true without srun, too. */
		if (also_ours || strcmp(row->name, "nodes") != 0 || o->nodes_min != 1)
			return row->name;
	}
	return NULL;
}

static void set_srun_tasks(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	/* Numbers of tasks and nodes in a job's environment describe the allocation, and srun reads them itself. */
	static const char *const places[] = {
		"ntasks",
		"nodes",
		"ntasks-per-node",
		"ntasks-per-gpu",
		"ntasks-per-socket",
		"ntasks-per-core",
		"nodelist",
		"nodefile",
		"relative",
		"distribution",
		NULL,
	};
	bool nodes = hvd_options_given(o, "nodes");

	spec->srun.nodes_min = nodes ? o->nodes_min : 0;
	spec->srun.nodes_max = nodes ? o->nodes_max : 0;
	spec->srun.places_tasks = any_given(o, places, HVD_FROM_ENV);
	spec->srun.tasks_per_node = hvd_options_source(o, "ntasks-per-node") != HVD_FROM_DEFAULT;
	spec->srun.per_node = hvd_options_given(o, "ntasks-per-node") ? positive(o->ntasks_per_node) : 0;
	spec->srun.add_ntasks = hvd_options_np_for_srun(o) ? o->num_proc : 0;
	spec->srun.heterogeneous = o->het_group || o->het_colon;
	spec->srun.shares_step = o->overlap || o->immediate;
	spec->srun.overcommit = o->overcommit;
}

static void set_srun(struct hvd_launch_spec *spec, const struct hvd_options *o, char *const *envp)
{
	static const char *const containers[] = {"container-image", "container-name", "container", "container-id"};
	static const char *const talk[] = {"verbose", "quiet", NULL};

	hvd_strv_add_all(&spec->srun.args, o->srun_args.v);
	hvd_options_srun_args_but(o, "nodes", &spec->srun.args_but_nodes);
	hvd_options_srun_args_of_agents(o, &spec->srun.args_of_agents);
	hvd_options_salloc_args(o, &spec->srun.salloc_args);
	spec->srun.no_salloc = o->test_only ? "test-only" : o->no_allocate ? "no-allocate" : NULL;
	spec->srun.jobid = hvd_options_given(o, "jobid") ? o->jobid : NULL;
	spec->srun.input = o->input;
	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]) && !spec->srun.container; i++)
		if (hvd_options_source(o, containers[i]) != HVD_FROM_DEFAULT)
			spec->srun.container = containers[i];
	spec->srun.bcast = o->bcast != NULL;
	spec->srun.only_option = srun_option(o, false);
	spec->srun.any_option = srun_option(o, true);
	spec->srun.unknown_option = o->unknown.n ? o->unknown.v[0] : NULL;
	spec->srun.add_kill_on_bad_exit = !o->keep_going;
	if (o->kill_on_bad_exit >= 0 || hvd_envp_get(envp, "SLURM_KILL_BAD_EXIT"))
		spec->srun.add_kill_on_bad_exit = -1;
	spec->srun.pty = o->pty;
	spec->srun.one_interrupt = o->quit_on_interrupt || o->disable_status;
	spec->srun.talks = any_given(o, talk, HVD_FROM_CONFIG);
	spec->srun.handles_output = o->output || o->error || o->pty || o->label;
	set_srun_tasks(spec, o);
}

/* Where node agents bind ranks. Of a variable that sets srun's binding, only the value none counts. */
static const char *rank_binding(const struct hvd_options *o)
{
	static const char *const reports[] = {"quiet,", "q,", "verbose,", "v,"};
	const char *bind = hvd_options_source(o, "cpu-bind") > HVD_FROM_ENV ? o->cpu_bind : NULL;

	for (size_t i = 0; bind && i < sizeof(reports) / sizeof(reports[0]); i++)
		if (strncmp(bind, reports[i], strlen(reports[i])) == 0)
			bind += strlen(reports[i]);
	if (bind)
		return bind;
	return o->cpu_bind && strcmp(o->cpu_bind, "none") == 0 ? "none" : "ldoms";
}

static void set_backends(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	spec->launcher = o->launcher == HVD_LAUNCHER_auto ? NULL : hvd_options_text(o, "launcher");
	spec->mpi.on = hvd_options_mpi(o);
	spec->mpi.tcp = o->tcp;
	spec->mpi.args = o->mpi_args;
	spec->ssh.port = positive(o->ssh_port);
	spec->ssh.identity = o->ssh_identity_file;
	spec->binding.ranks = rank_binding(o);
	spec->binding.given = o->cpu_bind != NULL;
	spec->binding.args = o->binding_args;
}

static void set_driver(struct hvd_launch_spec *spec, const struct hvd_options *o, char *const *envp)
{
	/* For tests, which build trees from a few hosts. */
	const char *text = hvd_envp_get(envp, "HVD_RELAY_FAN_OUT");
	int fan_out = text ? atoi(text) : 0;

	hvd_strv_add_all(&spec->interfaces, o->nics.v);
	spec->relay_fan_out = fan_out > 0 && fan_out < HVD_RELAY_FAN_OUT ? fan_out : HVD_RELAY_FAN_OUT;
	spec->deadlines.start = o->start_timeout <= 0 ? START_TIMEOUT : seconds_of(o->start_timeout);
	if (spec->preflight_hook && !*spec->preflight_hook)
		spec->preflight_hook = NULL;
	hvd_options_tunables(o, &spec->env);
}

static void set_output(struct hvd_launch_spec *spec, const struct hvd_options *o)
{
	const char *dir = o->output_filename;

	spec->output.label = o->as_horovodrun || o->prefix_timestamp ? HVD_LABEL_HOROVOD
			     : o->label                              ? HVD_LABEL_SRUN
								     : HVD_LABEL_NONE;
	spec->output.timestamps = o->prefix_timestamp;
	if (dir && dir[0] == '/') {
		spec->output.dir = hvd_xstrdup(dir);
	} else if (dir) {
		char *cwd = getcwd(NULL, 0);

		spec->output.dir = hvd_xasprintf("%s/%s", cwd ? cwd : ".", dir);
		free(cwd);
	}
	spec->output.progress = isatty(STDERR_FILENO) == 1;
	spec->output.quiet = o->quiet > 0;
}

void hvd_launch_spec_make(struct hvd_launch_spec *spec, const struct hvd_options *o, char *const *envp)
{
	*spec = (struct hvd_launch_spec){
		.command = o->command.v,
		.programs = o->programs,
		.own_line = o->own_words.n ? hvd_strv_join(&o->own_words, " ") : NULL,
		.counts_ranks = o->counts_ranks,
		.as_horovodrun = o->as_horovodrun,
	};
	set_shared(spec, o);
	set_implied(spec, o);
	set_hosts(spec, o);
	set_elastic(spec, o, envp);
	set_backends(spec, o);
	set_srun(spec, o, envp);
	set_driver(spec, o, envp);
	set_output(spec, o);
}

bool hvd_launch_spec_ends_ranks(const struct hvd_launch_spec *spec)
{
	return spec->srun.add_kill_on_bad_exit == 1 && (spec->requeue_on & 1U << HVD_REQUEUE_PREEMPT);
}

bool hvd_launch_spec_has_store(const struct hvd_launch_spec *spec)
{
	const unsigned torch = HVD_FW_TORCH | HVD_FW_TORCHRUN | HVD_FW_DEEPSPEED | HVD_FW_ACCELERATE | HVD_FW_LIGHTNING;

	return spec->store == HVD_STORE_AGENT && (spec->frameworks & torch);
}

void hvd_launch_spec_clear(struct hvd_launch_spec *spec)
{
	hvd_strv_free(&spec->srun.args);
	hvd_strv_free(&spec->srun.args_but_nodes);
	hvd_strv_free(&spec->srun.args_of_agents);
	hvd_strv_free(&spec->srun.salloc_args);
	hvd_strv_free(&spec->interfaces);
	hvd_strv_free(&spec->env);
	free(spec->own_line);
	free(spec->launcher);
	free(spec->output.dir);
	spec->own_line = spec->launcher = spec->output.dir = NULL;
}
