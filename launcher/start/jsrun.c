/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsrun.c - ranks through IBM's Job Step Manager: one jsrun, whose tasks are the rank shims.
 *
 * An explicit resource file (lsf/erf.h) says where each rank runs, and on which
 * CPUs. It must exist before jsrun starts anything on the compute nodes, whose
 * hardware may differ from this launch node's. The hardware of the
 * compute nodes comes from the first source that has it:
 *   LSF's binding of the job's tasks (LSB_AFFINITY_HOSTFILE);
 *   CSM: the cores that are not kept for the system, and the job's SMT mode;
 *   the compute nodes: one task on each runs `hvd-agent topology`.
 *
 * Killing jsrun does not always kill its tasks. So the agent has the shims end
 * their ranks on the driver's order, or when its connection to the driver ends
 * (agent/observed.h). The shims get the ranks of each host on their
 * command line, and compare them with jsrun's variables.
 *
 * Options are those of IBM's "jsrun command"; nothing here has run with IBM's
 * jsrun.
 */
#include "backend.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "lsf/erf.h"
#include "lsf/topology.h"
#include "mpi.h"
#include "scratch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a line from each node, and for jsrun's own messages. */
#define MAX_ANSWER (4u << 20)

static bool suits(const struct hvd_launch *launch)
{
	return hvd_alloc_in_lsf(launch->envp) && hvd_launch_installed(launch, "jsrun");
}

/* The number of the job's hosts. Without a resource file jsrun can only start a task on each of them, even if the
 * launch uses only some. */
static int count_hosts(const struct hvd_launch *launch, struct hvd_err *err)
{
	struct hvd_alloc_lsf_opts opts = {.jsrun = true};
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc all = {0};

	if (hvd_alloc_from_lsf(&all, NULL, launch->envp, &opts, err) != 0)
		return -1;
	return all.n_hosts;
}

/* Start a task on each compute node that reports its cores. */
static int ask_nodes(const struct hvd_launch *launch, struct hvd_erf_host *hosts, struct hvd_err *err)
{
	int n = count_hosts(launch, err), status = 0, rc = -1;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	struct hvd_spawn spawn = {.path = "jsrun", .envp = launch->envp, .parent_death_signal = SIGTERM};
	hvd_cleanup_free char *text = NULL;
	char how[64];
	size_t len;

	if (n < 0)
		return -1;
	hvd_verbose(launch->log, "asking %d compute nodes for their cores", n);
	hvd_strv_add(&argv, "jsrun");
	hvd_strv_addf(&argv, "--nrs=%d", n);
	hvd_strv_add(&argv, "--rs_per_host=1");
	hvd_strv_add(&argv, "--tasks_per_rs=1");
	hvd_strv_add(&argv, "--cpu_per_rs=ALL_CPUS");
	hvd_strv_add(&argv, "--bind=none");
	hvd_strv_add(&argv, launch->agent);
	hvd_strv_add(&argv, "topology");
	spawn.argv = argv.v;
	text = hvd_capture(&spawn, MAX_ANSWER, hvd_deadline_in(launch->spec->deadlines.start), &len, &status, err);
	if (text && status != 0)
		hvd_err_set(err, HVD_E_FAILED, "jsrun: %s", hvd_status_text(status, how, sizeof(how)));
	else if (text)
		rc = hvd_topology_parse(hosts, &launch->alloc, text, err);
	if (rc == 0)
		return 0;
	hvd_err_prefix(err, "cannot get the number of cores from the compute nodes");
	return hvd_err_hint(err,
			    "this must work in the job: jsrun -n %d -r 1 -a 1 -c ALL_CPUS --bind=none %s topology. "
			    "With --binding-args, as in --binding-args \"-n 4 -a 1 -c 4\", it is not needed",
			    n, launch->agent);
}

/* The resource file's text; NULL with err set. Caller frees. */
static char *resources(const struct hvd_launch *launch, struct hvd_err *err)
{
	hvd_cleanup_free struct hvd_erf_host *hosts = hvd_xcalloc((size_t)launch->alloc.n_hosts, sizeof(*hosts));
	bool known = true;

	for (int i = 0; i < launch->alloc.n_hosts; i++) {
		const struct hvd_lsf_host *has = i < launch->lsf.n_hosts ? &launch->lsf.hosts[i] : NULL;

		hosts[i] = (struct hvd_erf_host){.cores = has ? has->cores : -1,
						 .threads = launch->lsf.smt,
						 .sockets = has ? has->sockets : 0,
						 .gpus = has ? has->gpus : -1,
						 .cpus = has ? &has->cpus : NULL};
		known = known && hosts[i].cores > 0 && hosts[i].threads > 0;
	}
	if (known || hvd_erf_bound(&launch->alloc, hosts) || ask_nodes(launch, hosts, err) == 0)
		return hvd_erf_format(&launch->alloc, hosts, err);
	return NULL;
}

/* Write the resource file where the user wants it (--erf), else to a temporary file. */
static int add_resources(struct hvd_launch *launch, struct hvd_strv *argv, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	hvd_cleanup_free char *text = resources(launch, err);
	const char *path = spec->erf;

	if (!text)
		return -1;
	if (path && hvd_write_file(path, "the resource file", text, strlen(text), 0, 0600, err) != 0) {
		if (err)
			err->code = HVD_E_USAGE;
		return -1;
	}
	if (!path && spec->dry_run) {
		path = "ERF"; /* --dry-run leaves no file behind; --erf FILE does */
	} else if (!path) {
		launch->scratch = hvd_scratch_create(launch->envp, err);
		path = launch->scratch ? hvd_scratch_file(launch->scratch, "resources", text, err) : NULL;
		if (!path)
			return -1;
	}
	hvd_strv_add(argv, "--erf_input");
	hvd_strv_add(argv, path);
	return 0;
}

static int add_binding(const char *args, struct hvd_strv *argv, struct hvd_err *err)
{
	if (hvd_shell_split(args, argv) == 0)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "a quote in --binding-args is not closed");
	return hvd_err_hint(err, "it is parsed as a shell parses it: %.300s", args);
}

/* With the MPI controller, the options for Spectrum MPI. */
static void add_mpi(const struct hvd_launch *launch, struct hvd_strv *argv)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (!spec->mpi.on)
		return;
	if (spec->mpi.tcp || spec->mpi.args) {
		hvd_strv_add(argv, "--smpiargs");
		hvd_strv_addf(argv, "%s%s%s", spec->mpi.tcp ? "-tcp" : "", spec->mpi.tcp && spec->mpi.args ? " " : "",
			      spec->mpi.args ? spec->mpi.args : "");
	}
	if (spec->output.dir) {
		hvd_strv_add(argv, "--stdio_stdout");
		hvd_strv_addf(argv, "%s/stdout", spec->output.dir);
		hvd_strv_add(argv, "--stdio_stderr");
		hvd_strv_addf(argv, "%s/stderr", spec->output.dir);
	}
}

static void add_shim(struct hvd_launch *launch, struct hvd_proc *proc)
{
	const struct hvd_launch_spec *spec = launch->spec;
	hvd_cleanup_free char *hosts = hvd_mpi_hosts(&launch->alloc, true);

	launch->proc_writes_files = spec->mpi.on;
	hvd_launch_add_agent(launch, proc, "shim");
	if (spec->output.label == HVD_LABEL_SRUN)
		hvd_strv_add(&proc->argv, "--label=srun");
	hvd_strv_addf(&proc->argv, "--jsrun=%s", hosts);
}

static int check(const struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (!hvd_alloc_in_lsf(launch->envp)) {
		hvd_err_set(err, HVD_E_USAGE, "jsrun starts ranks inside an LSF job only, and this is not one");
		return hvd_err_hint(err, "submit a script that calls hvdrun: bsub -nnodes 2 ./job.sh; see hvd-lsf(7)");
	}
	if (!spec->dry_run && !hvd_launch_installed(launch, "jsrun")) {
		hvd_err_set(err, HVD_E_USAGE, "jsrun is not in PATH");
		return hvd_err_hint(err, "load the module of jsrun, or use --launcher=blaunch");
	}
	if (spec->erf && spec->binding.args) {
		hvd_err_set(err, HVD_E_USAGE, "--binding-args replaces the resource file that --erf would write");
		return hvd_err_hint(err, "leave one of them out");
	}
	return 0;
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	struct hvd_proc *proc;

	if (check(launch, err) != 0 || hvd_launch_hosts(launch, err) != 0)
		return -1;
	proc = hvd_launch_add(launch, NULL);
	hvd_strv_add(&proc->argv, "jsrun");
	if ((spec->binding.args ? add_binding(spec->binding.args, &proc->argv, err)
				: add_resources(launch, &proc->argv, err)) != 0)
		return -1;
	add_mpi(launch, &proc->argv);
	add_shim(launch, proc);
	hvd_launch_add_command(launch, &proc->argv);
	return 0;
}

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
		    struct hvd_err *why)
{
	char text[64];

	(void)proc;
	hvd_status_text(status, text, sizeof(text));
	hvd_err_set(why, HVD_E_FAILED, "jsrun ended before its ranks did: %s", text);
	if (registered)
		hvd_err_hint(why, "was it killed, or did a host fail? (bjobs -l, bhosts)");
	else if (launch->spec->binding.args)
		hvd_err_hint(why, "see its own message above; it got --binding-args unchanged");
	else
		hvd_err_hint(why, "see its own message above. Ranks authenticate by munge, or else by --key-file; "
				  "hvdrun --erf FILE --dry-run … writes the resource file for inspection");
}

const struct hvd_backend hvd_backend_jsrun = {
	.name = "jsrun",
	.mode = HVD_START_SUPERVISED_RANKS,
	.suits = suits,
	.prepare = prepare,
	.explain = explain,
};
