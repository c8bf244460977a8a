/* SPDX-License-Identifier: Apache-2.0 */
/* options_check.c - the rules between options, checked when all values are known. */
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "lib/net/nicspec.h"
#include "lib/process/interpreter.h"
#include "metrics_target.h"
#include "options_rows.h"
#include "rank_commands.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool hvd_options_mpi(const struct hvd_options *o)
{
	return o->controller == HVD_CONTROLLER_MPI || o->controller == HVD_CONTROLLER_JSRUN;
}

void hvd_options_not_elastic(struct hvd_options *o)
{
	o->min_np = o->max_np = o->max_restarts = -1;
	free(o->discovery_script);
	free(o->discover);
	o->discovery_script = o->discover = NULL;
}

static bool exclude_each_other(const struct hvd_opt *a, const struct hvd_opt *b)
{
	if (a->exclude)
		return a->exclude == b->exclude;
	return a->type == HVD_OPT_TRI && !a->alias && a->at == b->at && a->negate != b->negate;
}

/* Refuse two options that exclude each other. */
static int check_exclusive(const struct hvd_options *o, struct hvd_err *err)
{
	const struct hvd_opt *a, *b;

	for (size_t i = 0; (a = hvd_opt_row(i)); i++) {
		for (size_t j = i + 1; o->source[i] == HVD_FROM_COMMAND && (b = hvd_opt_row(j)); j++) {
			if (o->source[j] != HVD_FROM_COMMAND || !exclude_each_other(a, b))
				continue;
			hvd_err_set(err, HVD_E_USAGE, "options --%s and --%s cannot be given together", a->name,
				    b->name);
			return hvd_err_hint(err, "leave one of them out");
		}
	}
	return 0;
}

/* An option of hvd's own that does nothing. Those of horovodrun are taken as horovodrun takes them. */
static int check_needed(const struct hvd_options *o, struct hvd_err *err)
{
	const bool served = o->metrics && strncmp(o->metrics, "file:", 5) != 0;
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++) {
		if (row->family != HVD_FAMILY_HVD || !row->needs || o->source[i] != HVD_FROM_COMMAND ||
		    hvd_options_on(o, row->needs))
			continue;
		hvd_err_set(err, HVD_E_USAGE, "--%s has no effect without --%s", row->name, row->needs);
		return hvd_err_hint(err, "leave out --%s, or add --%s", row->name, row->needs);
	}
	if (served || !hvd_options_given(o, "metrics-token-file"))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--metrics-token-file has no effect without --metrics=[ADDRESS:]PORT");
	return hvd_err_hint(err, o->metrics ? "leave it out: who may read a file is decided by its mode"
					    : "leave it out, or add --metrics=PORT");
}

static int check_processes(const struct hvd_options *o, struct hvd_err *err)
{
	/* A number from the environment is the batch job's number of tasks. It does not say with how many ranks an
	 * elastic job starts. */
	int np = o->num_proc > 0 || hvd_options_given(o, "ntasks") ? hvd_options_np(o) : 0;

	if (o->num_proc > 0 && hvd_options_given(o, "ntasks") && o->num_proc != o->ntasks) {
		hvd_err_set(err, HVD_E_USAGE, "-np %d and -n %d are the same option with different values", o->num_proc,
			    o->ntasks);
		return hvd_err_hint(err, "give one of them");
	}
	if (o->min_np > 0 && o->max_np > 0 && o->min_np > o->max_np) {
		hvd_err_set(err, HVD_E_USAGE, "--min-np %d is more than --max-np %d", o->min_np, o->max_np);
		return hvd_err_hint(err, "the minimum number of processes cannot exceed the maximum");
	}
	if (np > 0 && np < o->min_np) {
		hvd_err_set(err, HVD_E_USAGE, "%d processes are fewer than --min-np %d", np, o->min_np);
		return hvd_err_hint(err, "the job starts with -np processes and may shrink to --min-np: raise -np, or "
					 "lower --min-np");
	}
	if (np > 0 && o->max_np > 0 && np > o->max_np) {
		hvd_err_set(err, HVD_E_USAGE, "%d processes are more than --max-np %d", np, o->max_np);
		return hvd_err_hint(err, "raise --max-np, or lower -np");
	}
	return 0;
}

/* -K0 and --keep-going mean the same. */
static int check_failure(struct hvd_options *o, struct hvd_err *err)
{
	enum hvd_opt_source kill = hvd_options_source(o, "kill-on-bad-exit");
	enum hvd_opt_source keep = hvd_options_source(o, "keep-going");

	if (o->kill_on_bad_exit < 0)
		return 0;
	if (kill == keep && o->keep_going && o->kill_on_bad_exit) {
		hvd_err_set(err, HVD_E_USAGE, "--keep-going and --kill-on-bad-exit contradict each other");
		return hvd_err_hint(err, "leave one of them out; without both a failing rank ends the job");
	}
	if (kill > keep)
		o->keep_going = !o->kill_on_bad_exit;
	return 0;
}

static int check_launcher(struct hvd_options *o, struct hvd_err *err)
{
	if (o->erf && o->launcher == HVD_LAUNCHER_auto)
		o->launcher = HVD_LAUNCHER_jsrun;
	if (o->erf && o->launcher != HVD_LAUNCHER_jsrun) {
		hvd_err_set(err, HVD_E_USAGE, "--erf is for jsrun, but --launcher names another launcher");
		return hvd_err_hint(err, "leave one of them out");
	}
	if (o->controller == HVD_CONTROLLER_MPI) {
		if (o->launcher == HVD_LAUNCHER_auto)
			o->launcher = HVD_LAUNCHER_mpirun;
		if (o->launcher == HVD_LAUNCHER_mpirun || o->launcher == HVD_LAUNCHER_srun ||
		    o->launcher == HVD_LAUNCHER_jsrun)
			return 0;
		hvd_err_set(err, HVD_E_USAGE, "--launcher names a launcher that cannot start MPI programs (--mpi)");
		return hvd_err_hint(err, "leave it out to use mpirun, or name srun with --mpi=pmix, or jsrun");
	}
	if (o->controller != HVD_CONTROLLER_JSRUN)
		return 0;
	if (o->launcher != HVD_LAUNCHER_auto && o->launcher != HVD_LAUNCHER_jsrun) {
		hvd_err_set(err, HVD_E_USAGE, "--jsrun and --launcher name different launchers");
		return hvd_err_hint(err, "leave one of them out");
	}
	o->launcher = HVD_LAUNCHER_jsrun;
	return 0;
}

/* "h1:2,h2:4" or "h1,h2": horovodrun's value of -H, which with hvdrun is srun's --hold. No program is called so. */
static bool is_host_list(const char *s)
{
	if (!strpbrk(s, ":,"))
		return false;
	while (*s) {
		size_t name = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
		size_t slots;

		if (!name || (s[name] && s[name] != ':' && s[name] != ','))
			return false;
		s += name;
		if (*s != ':') {
			s += *s == ',';
			continue;
		}
		s++;
		slots = strspn(s, "0123456789");
		if (!slots || (s[slots] && s[slots] != ','))
			return false;
		s += slots + (s[slots] == ',');
	}
	return true;
}

/* srun answers --mpi=list, --cpu-bind=help and the like without a command. */
static bool asks_srun(const struct hvd_options *o)
{
	for (size_t i = 0; i < o->srun_args.n; i++) {
		const char *s = o->srun_args.v[i], *eq = strrchr(s, '=');
		const char *value = eq ? eq + 1 : s;

		if (strcmp(value, "help") == 0 || strcmp(value, "list") == 0 || strncmp(s, "--autocomplete", 14) == 0)
			return true;
	}
	return false;
}

static int check_function(const struct hvd_options *o, struct hvd_err *err)
{
	if (!o->run_func != !o->results) {
		hvd_err_set(err, HVD_E_USAGE, "--run-func and --results must be given together");
		return hvd_err_hint(err, "--run-func names the function, --results the file for the ranks' results; "
					 "see hvdrun(1)");
	}
	if (o->run_func && o->selftest)
		return hvd_err_set(err, HVD_E_USAGE, "--run-func and --selftest cannot be given together");
	return 0;
}

static int check_preload(const struct hvd_options *o, struct hvd_err *err)
{
	if (!o->preload)
		return 0;
	if (!hvd_python_modules(o->preload)) {
		hvd_err_set(err, HVD_E_USAGE, "--preload=%.200s is no list of modules", o->preload);
		return hvd_err_hint(err, "write their names with commas, as in --preload=torch,transformers");
	}
	if (!o->selftest && o->command.n && hvd_is_python(o->command.v[0]))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--preload needs a command that is Python, as in python train.py, not %.200s",
		    o->selftest    ? "--selftest"
		    : o->command.n ? o->command.v[0]
				   : "none");
	return hvd_err_hint(err, "leave it out, or write the interpreter and its program as the command");
}

static int check_elastic(const struct hvd_options *o, struct hvd_err *err)
{
	if (!hvd_options_elastic(o))
		return 0;
	if (o->keep_going || hvd_options_mpi(o) || hvd_options_given(o, "wait")) {
		hvd_err_set(err, HVD_E_USAGE, "%s cannot be used with an elastic job",
			    o->keep_going        ? "--keep-going (-K0)"
			    : hvd_options_mpi(o) ? "the MPI controller"
						 : "srun's --wait (-W), which ends a job after its first rank,");
		return hvd_err_hint(err, "leave it out, or leave out --min-np, --max-np, --max-restarts, "
					 "--discover and --host-discovery-script");
	}
	if (o->max_restarts >= 0 && o->reset_limit >= 0) {
		hvd_err_set(err, HVD_E_USAGE,
			    "--reset-limit is for Horovod's kind of elastic job, and --max-restarts for PyTorch's");
		return hvd_err_hint(err, "leave one of them out: --max-restarts counts failures, and changes of hosts "
					 "have no limit");
	}
	return 0;
}

/* "w1:0,2@w2" */
static int check_exclude(const struct hvd_options *o, struct hvd_err *err)
{
	if (!o->exclude || strchr(o->exclude, '/') || !strpbrk(o->exclude, ":@"))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--exclude=%.200s names GPUs of hosts, as deepspeed's does; srun's takes hosts",
		    o->exclude);
	return hvd_err_hint(err,
			    "leave out hosts by --exclude=HOST,…, or list those to use with their number of ranks: "
			    "--hosts HOST:NUMBER,…; CUDA_VISIBLE_DEVICES in the command chooses GPUs");
}

static int check_discover(const struct hvd_options *o, struct hvd_err *err)
{
	const char *d = o->discover;
	const bool script = d && strncmp(d, "script:", 7) == 0, jobs = d && strncmp(d, "jobs:", 5) == 0;

	if (!d)
		return 0;
	if ((script && !d[7]) || (jobs && !d[5]) ||
	    (!script && !jobs && strcmp(d, "slurm") != 0 && strcmp(d, "hosts") != 0)) {
		hvd_err_set(err, HVD_E_USAGE, "--discover %.200s is not a source of hosts", d);
		return hvd_err_hint(err, "write slurm, jobs:NAME, script:PROGRAM or hosts");
	}
	if (o->discovery_script) {
		hvd_err_set(err, HVD_E_USAGE, "--discover and --host-discovery-script both say where hosts come from");
		return hvd_err_hint(err, "leave one of them out");
	}
	if (strcmp(d, "hosts") != 0 && (o->hosts || o->hostfile)) {
		hvd_err_set(err, HVD_E_USAGE, "with --discover %.200s hosts cannot be listed", d);
		return hvd_err_hint(err, "leave --%s out, or write --discover hosts", o->hosts ? "hosts" : "hostfile");
	}
	return 0;
}

/* The option that asks about a running job, or NULL. */
static const char *question_of(const struct hvd_options *o)
{
	return o->stacks ? "--stacks" : o->status ? "--status" : o->watch ? "--watch" : NULL;
}

static int check_question(const struct hvd_options *o, struct hvd_err *err)
{
	const char *option = question_of(o);
	struct hvd_rank_name name;

	if (!!o->stacks + !!o->status + !!o->watch > 1) {
		hvd_err_set(err, HVD_E_USAGE, "%s and %s are two questions", option,
			    o->stacks && o->status ? "--status" : "--watch");
		return hvd_err_hint(err, "leave one of them out");
	}
	if (o->rank && hvd_rank_name_parse(o->rank, &name) != 0) {
		hvd_err_set(err, HVD_E_USAGE, "--rank=%.100s is no rank", o->rank);
		return hvd_err_hint(err, "as --rank=3, or in a launch with roles --rank=trainer:3");
	}
	if (o->rank && !o->stacks && !o->status) {
		hvd_err_set(err, HVD_E_USAGE, "--rank has no effect without --status or --stacks");
		return hvd_err_hint(err, "leave it out, or add --status=JOB");
	}
	if (!option || !(o->command.n || o->selftest))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "%s inspects a running job, and starts no command", option);
	return hvd_err_hint(err, "leave out the command or %s", option);
}

static int check_report_of(const struct hvd_options *o, struct hvd_err *err)
{
	const char *question = question_of(o), *other = question ? question : "the command";

	if (!o->report_of || !(o->command.n || o->selftest || question))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--report-of reads a file of events, and starts no command");
	return hvd_err_hint(err, "leave out %s or --report-of", other);
}

static int check_spares(const struct hvd_options *o, struct hvd_err *err)
{
	/* All nodes of a step would be spares. */
	if (o->spares > 0 && !o->of_role && hvd_options_given(o, "nodes") && o->nodes_min <= o->spares &&
	    o->nodes_max <= o->spares) {
		hvd_err_set(err, HVD_E_USAGE, "of %d node%s %d cannot be spare", o->nodes_min,
			    o->nodes_min == 1 ? "" : "s", o->spares);
		return hvd_err_hint(err, "write an -N for the nodes with ranks and the spare ones: -N%d or more",
				    o->spares + 1);
	}
	if (o->spares <= 0 || !hvd_options_mpi(o))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--spares cannot be used with the MPI controller");
	return hvd_err_hint(err, "leave it out: the MPI decides which hosts have ranks");
}

/* A file that is written when the launch has started or ended, which is too late to refuse the option. `replaced`: a new
 * file takes its place, so only its folder is written. */
static int check_written(const char *option, const char *file, bool replaced, struct hvd_err *err)
{
	hvd_cleanup_free char *path = file ? hvd_xstrdup(file) : NULL;
	struct stat st;
	bool there = path && stat(path, &st) == 0;

	if (there && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (!path || access(there && !replaced ? path : dirname(path), W_OK) == 0)
		return 0;
	hvd_err_sys(err, "--%s %.200s cannot be written", option, file);
	if (err)
		err->code = HVD_E_USAGE;
	return hvd_err_hint(err, "name a file in an existing folder in which you can write");
}

static int check_metrics(const struct hvd_options *o, struct hvd_err *err)
{
	struct hvd_metrics_target target;

	if (!o->metrics)
		return 0;
	if (hvd_metrics_target_parse(o->metrics, &target, err) != 0)
		return -1;
	if (target.file || target.loopback || o->metrics_token_file)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "--metrics=%.200s needs --metrics-token-file, since other hosts reach this address", o->metrics);
	return hvd_err_hint(err, "give a file with a token that Prometheus sends, or leave the address out; see "
				 "docs/monitoring.md");
}

static int check_command(struct hvd_options *o, struct hvd_err *err)
{
	if (o->hold && o->command.n && *o->command.v[0] && is_host_list(o->command.v[0])) {
		hvd_err_set(err, HVD_E_USAGE, "-H is srun's --hold, but \"%.200s\" looks like a list of hosts",
			    o->command.v[0]);
		return hvd_err_hint(err, "write --hosts %.200s", o->command.v[0]);
	}
	if (o->command.n && !*o->command.v[0]) {
		hvd_err_set(err, HVD_E_USAGE, "the command is an empty word");
		return hvd_err_hint(err,
				    "is a variable in its place empty? Write the program after the options: python "
				    "train.py");
	}
	if (o->command.n || o->selftest)
		return 0;
	if (question_of(o)) {
		o->action = o->stacks ? HVD_SHOW_STACKS : o->status ? HVD_SHOW_STATUS : HVD_SHOW_WATCH;
		return 0;
	}
	if (o->report_of) {
		o->action = HVD_MAKE_REPORT;
		return 0;
	}
	if (asks_srun(o)) {
		o->action = HVD_ASK_SRUN;
		return 0;
	}
	hvd_err_set(err, HVD_E_USAGE, "there is no command to run");
	return hvd_err_hint(err, "write it after the options: %s -n 4 python train.py", hvd_options_program(o));
}

/* srun --async ends when the step is queued, but driver and rendezvous must go on until the ranks have ended. */
static int check_async(const struct hvd_options *o, struct hvd_err *err)
{
	if (!o->async)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "--async cannot be used with hvdrun, whose rendezvous must stay until the ranks end");
	return hvd_err_hint(err, "leave it out, and let the shell put hvdrun in the background (&), or use sbatch");
}

static void add_notes(struct hvd_options *o)
{
	const struct hvd_opt *row;

	for (size_t i = 0; (row = hvd_opt_row(i)); i++)
		if (row->no_effect && o->source[i])
			hvd_strv_addf(row->hidden ? &o->warnings : &o->notes, "option --%s has no effect: %s",
				      row->name, row->no_effect);
		else if (row->needs && o->source[i] && !hvd_options_on(o, row->needs))
			hvd_strv_addf(&o->notes, "option --%s has no effect without --%s", row->name, row->needs);
	if (o->metrics_token_file && !o->metrics)
		hvd_strv_add(&o->notes, "option --metrics-token-file has no effect without --metrics");
	if (hvd_options_source(o, "hang-action") != HVD_FROM_DEFAULT && o->hang_timeout <= 0)
		hvd_strv_add(&o->notes, "option --hang-action has no effect without --hang-timeout");
	if (o->hvd >= 0)
		hvd_strv_addf(&o->notes, "option --%s is for srun's plugin and has no effect here",
			      o->hvd ? "hvd" : "no-hvd");
}

int hvd_options_check_step(struct hvd_options *o, struct hvd_err *err)
{
	if (check_spares(o, err) || check_written("trace", o->trace, false, err) ||
	    check_written("report", o->report, true, err) || check_metrics(o, err) ||
	    hvd_nicspec_check_all(o->nics.v, err))
		return -1;
	add_notes(o);
	return 0;
}

int hvd_options_check(struct hvd_options *o, struct hvd_err *err)
{
	/* --help and the like work whatever other options are given. */
	if (o->action != HVD_RUN)
		return 0;
	if (check_exclusive(o, err) || check_needed(o, err) || check_processes(o, err) || check_failure(o, err) ||
	    check_launcher(o, err) || check_function(o, err) || check_exclude(o, err) || check_discover(o, err) ||
	    check_elastic(o, err) || check_async(o, err) || check_question(o, err) || check_report_of(o, err) ||
	    check_command(o, err) ||
	    (o->multi_prog && o->action == HVD_RUN ? hvd_rank_commands_load(o, err) : check_preload(o, err)))
		return -1;
	return hvd_options_check_step(o, err);
}

int hvd_options_load(struct hvd_options *o, int argc, char *const *argv, char *const *envp, struct hvd_err *err)
{
	hvd_options_init(o);
	if (hvd_options_parse(o, argc, argv, err) || hvd_options_env(o, envp, err) || hvd_options_check(o, err))
		return -1;
	return 0;
}
