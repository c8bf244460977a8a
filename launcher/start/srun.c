/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun.c - ranks through Slurm: one srun, whose tasks are the rank shims.
 *
 * The user's options for srun go to srun unchanged. hvdrun adds only options that
 * the user has not given and whose values it knows: the number of tasks if slots
 * follow from GPUs, -H or a hostfile, and that a failing rank ends the others. *
 * Where there is no munge, the tasks get the launch's key on their stdin. srun copies
 * its stdin to all of its tasks, over connections that Slurm itself authenticates; what
 * it copies is in no environment and on no command line. So the key comes first on the
 * shims' stdin (lib/protocol/preamble.h), and hvdrun's own stdin follows. srun must send
 * the key to every task, so the shims implement --input.
 */
#include "backend.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/command_line.h"
#include "lib/process/roles_line.h"
#include "slurm/alloc_slurm.h"
#include "slurm/slurm.h"
#include "slurm/slurm_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Inside a Slurm job; outside of one if srun is installed and the user gives options of srun. An option that srun and
 * hvdrun share (--label, -n) counts as well, unless hosts are listed or discovered, since srun cannot use those. */
static bool suits(const struct hvd_launch *launch)
{
	if (hvd_alloc_in_slurm(launch->envp))
		return true;
	return !hvd_alloc_in_lsf(launch->envp) && hvd_launch_installed(launch, "srun") &&
	       (launch->spec->srun.only_option ||
		(launch->spec->srun.any_option && !hvd_launch_hosts_told(launch->spec)));
}

/* Was the job itself submitted with a number of tasks? Then srun places the tasks. */
static bool job_has_tasks(const struct hvd_launch *launch)
{
	return hvd_envp_get(launch->envp, "SLURM_NTASKS") || hvd_envp_get(launch->envp, "SLURM_NTASKS_PER_NODE");
}

/* --jobid of a heterogeneous job: srun's own messages (a component is not a leader, the leader lacks directives) would
 * not explain the reason. */
static int check_job(const char *jobid, struct hvd_err *err)
{
	struct hvd_slurm_job job = {0};
	uint32_t het = 0;

	/* "17+1" counts as its leader, 17. srun itself refuses a job that Slurm does not know, or a value that is not a
	 * number. */
	if (hvd_slurm_job_get((uint32_t)strtoul(jobid, NULL, 10), &job, hvd_deadline_in(HVD_SLURM_SECONDS), NULL) == 0)
		het = job.het;
	hvd_slurm_job_clear(&job);
	if (!het)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "--jobid=%.20s is a heterogeneous job, whose components cannot be one Horovod job", jobid);
	return hvd_err_hint(err, "submit a job without 'hetjob' or ':' separators");
}

/* Roles have the hosts of components. */
static int check_het_roles(const struct hvd_launch *launch, struct hvd_err *err)
{
	if (!hvd_launch_hosts_told(launch->spec) || !hvd_alloc_is_het(launch->envp))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "in a heterogeneous job, roles have the hosts of its components");
	return hvd_err_hint(err, "leave out --hosts, --hostfile and --discover; --het-group=N of a role names another "
				 "component than that of its place");
}

static int check_het(const struct hvd_launch *launch, struct hvd_err *err)
{
	const char *jobid = launch->spec->srun.jobid;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	hvd_cleanup_free char *line = NULL;

	if (launch->roles)
		return jobid ? check_job(jobid, err) : check_het_roles(launch, err);
	if (!launch->spec->srun.heterogeneous)
		return jobid ? check_job(jobid, err) : hvd_alloc_refuse_het(launch->envp, err);
	hvd_command_words_of(getpid(), &words);
	line = hvd_roles_line(words.v);
	hvd_err_set(err, HVD_E_USAGE, "a heterogeneous step (--het-group, \":\") cannot be one Horovod job");
	return hvd_err_hint(err, "give each component a role, with ranks of its own: %s",
			    line && strlen(line) < 400 ? line : "hvdrun --role=r0 COMMAND : --role=r1 COMMAND");
}

/* srun would copy the rank shim instead of the user's program. */
static int check_command(const struct hvd_launch *launch, struct hvd_err *err)
{
	if (!launch->spec->srun.bcast)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--bcast cannot be used with hvdrun");
	return hvd_err_hint(err, "use srun --hvd --bcast, if the plugin is installed");
}

/* The option or the variable of srun or pyxis that puts the tasks of this srun into a container. NULL: none. */
static const char *container(const struct hvd_launch *launch)
{
	static const char *const variables[] = {"PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME", "SRUN_CONTAINER_ID"};

	if (launch->spec->srun.container)
		return launch->spec->srun.container;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (hvd_envp_get(launch->envp, variables[i]))
			return variables[i];
	return NULL;
}

/* srun would look for the rank shim in the container, which has neither it nor its libraries. */
static int check_container(const struct hvd_launch *launch, struct hvd_err *err)
{
	const char *what = container(launch);

	if (!what)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "hvdrun cannot start ranks in a container that srun starts (%s%s)",
		    what[0] == 'c' ? "--" : "", what);
	return hvd_err_hint(err, "use srun --hvd with the same options, if the plugin is installed; or start the "
				 "container in the command: hvdrun … apptainer exec IMAGE COMMAND");
}

/* Outside of a job the srun of an elastic job would have none to start agents in: salloc makes it. */
static int check_elastic(const struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (!spec->elastic.on || hvd_launch_hosts_told(spec) || hvd_alloc_in_slurm(launch->envp))
		return 0;
	if (!spec->srun.jobid && !spec->srun.no_salloc && hvd_launch_installed(launch, "salloc"))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "srun starts the ranks of an elastic job only within a Slurm job");
	return hvd_err_hint(err, "start hvdrun in sbatch or salloc; or leave srun's options out for an elastic job on "
				 "this host");
}

static int check(const struct hvd_launch *launch, struct hvd_err *err)
{
	if (check_elastic(launch, err) != 0 || check_het(launch, err) != 0 || check_command(launch, err) != 0)
		return -1;
	return check_container(launch, err);
}

/* A step within a step would deadlock: srun waits for the outer step's CPUs, and the outer step waits for hvdrun. */
static int check_step(const struct hvd_launch *launch, struct hvd_err *err)
{
	const char *job = hvd_envp_get(launch->envp, "SLURM_JOB_ID");
	char step[64];

	if (launch->spec->srun.shares_step || !job || !hvd_slurm_step_of(getpid(), "/proc", step, sizeof(step)) ||
	    strtoul(step, NULL, 10) != strtoul(job, NULL, 10))
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "hvdrun was started by srun, in step %s, which holds the CPUs that the ranks need", step);
	return hvd_err_hint(err,
			    "start hvdrun without srun, from the batch script or the shell of salloc; or share the "
			    "CPUs with that step: hvdrun --overlap");
}

/* hvdrun does not pass -N to srun if hosts are listed, so it checks that -N matches the list. */
static int check_nodes(const struct hvd_launch *launch, struct hvd_err *err)
{
	int n = launch->alloc.n_hosts, max = launch->spec->srun.nodes_max;

	if (n >= launch->spec->srun.nodes_min && (!max || n <= max))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--nodes (-N) does not match the %d hosts that are listed and used", n);
	return hvd_err_hint(err, "leave --nodes (-N) out");
}

/* Hosts with different numbers of tasks: srun reads a file that names each host once per task. */
static int arbitrary(struct hvd_launch *launch, struct hvd_proc *proc, struct hvd_err *err)
{
	FILE *file;
	int fd;

	if (check_nodes(launch, err) != 0)
		return -1;
	fd = memfd_create("hosts", 0);
	if (fd < 0 || !(file = fdopen(dup(fd), "w"))) {
		if (fd >= 0)
			close(fd);
		return hvd_err_sys(err, "cannot make the list of hosts for srun");
	}
	for (int h = 0; h < launch->alloc.n_hosts; h++)
		for (int i = 0; i < launch->alloc.hosts[h].slots; i++)
			fprintf(file, "%s\n", launch->alloc.hosts[h].name);
	fclose(file);
	proc->fd = fd;
	hvd_env_setf(&proc->env, "SLURM_HOSTFILE", "/proc/self/fd/%d", fd);
	hvd_strv_add(&proc->argv, "--distribution=arbitrary");
	hvd_strv_addf(&proc->argv, "--ntasks=%d", launch->alloc.slots);
	hvd_env_unset(&proc->env, "SLURM_NTASKS_PER_NODE");
	/* The number of nodes follows from the list. The job's number may differ, and newer releases of srun refuse
	 * it. */
	hvd_env_unset(&proc->env, "SLURM_JOB_NUM_NODES");
	hvd_env_unset(&proc->env, "SLURM_NNODES");
	return 0;
}

static bool uniform(const struct hvd_alloc *a)
{
	for (int i = 1; i < a->n_hosts; i++)
		if (a->hosts[i].slots != a->hosts[0].slots)
			return false;
	return true;
}

/* In an allocation: set the number of tasks, and where they run. The user's own options come first, then the tasks of
 * the job's submission; otherwise ranks fill the slots of one host after the other. */
static int place_tasks(struct hvd_launch *launch, struct hvd_proc *proc, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc granted = {0};
	int np = spec->ranks.n;
	bool listed = spec->hosts.listed;

	if (hvd_alloc_from_slurm(&granted, launch->envp, spec->hosts.slots_per_host, true, err) != 0 ||
	    hvd_launch_within(launch, &granted, err) != 0)
		return -1;
	if (!listed && spec->srun.places_tasks) {
		if (spec->srun.add_ntasks)
			hvd_strv_addf(&proc->argv, "--ntasks=%d", spec->srun.add_ntasks);
		return 0;
	}
	if (!listed && !np && !spec->hosts.slots_per_host && job_has_tasks(launch))
		return 0;
	if (!spec->srun.overcommit && hvd_launch_take(launch, np, err) != 0)
		return -1;
	if (spec->srun.overcommit && np) {
		hvd_strv_addf(&proc->argv, "--ntasks=%d", np);
		return 0;
	}
	if (listed || !uniform(&launch->alloc))
		return arbitrary(launch, proc, err);
	hvd_strv_addf(&proc->argv, "--nodes=%d", launch->alloc.n_hosts);
	hvd_strv_addf(&proc->argv, "--ntasks=%d", launch->alloc.slots);
	hvd_strv_addf(&proc->argv, "--ntasks-per-node=%d", launch->alloc.hosts[0].slots);
	return 0;
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	struct hvd_proc *proc = hvd_launch_add(launch, NULL);

	hvd_strv_add(&proc->argv, "srun");
	if (spec->srun.add_kill_on_bad_exit >= 0)
		hvd_strv_addf(&proc->argv, "--kill-on-bad-exit=%d",
			      spec->srun.add_kill_on_bad_exit && !hvd_launch_spec_ends_ranks(spec));
	if (hvd_alloc_in_slurm(launch->envp) && !spec->srun.jobid) {
		if (check_step(launch, err) != 0 || place_tasks(launch, proc, err) != 0)
			return -1;
	} else {
		hvd_launch_name_job(launch, &proc->argv);
		if (spec->hosts.listed) {
			hvd_err_set(err, HVD_E_USAGE,
				    "hosts are listed (-H, --hostfile), but srun chooses the hosts here");
			return hvd_err_hint(err,
					    "name nodes with -w, or leave srun's options out%s%s (-p is srun's "
					    "--partition; ssh's port is --ssh-port)",
					    spec->srun.any_option ? ", such as --" : "",
					    spec->srun.any_option ? spec->srun.any_option : "");
		}
		if (spec->srun.add_ntasks)
			hvd_strv_addf(&proc->argv, "--ntasks=%d", spec->srun.add_ntasks);
	}
	hvd_strv_add_all(&proc->argv, proc->fd >= 0 ? spec->srun.args_but_nodes.v : spec->srun.args.v);
	/* srun does not keep lines together, so hvdrun joins labelled lines, unless srun handles the output. */
	launch->framed = spec->output.label == HVD_LABEL_HOROVOD && !spec->srun.handles_output;
	if (launch->framed)
		hvd_strv_add(&proc->argv, "--label");
	/* horovodrun passes its input to rank 0 only, srun to all tasks. */
	if (spec->as_horovodrun && !spec->srun.input && !spec->srun.pty)
		hvd_strv_add(&proc->argv, "--input=0");
	hvd_launch_add_agent(launch, proc, "shim");
	if (launch->framed)
		hvd_strv_add(&proc->argv, "--framed");
	hvd_launch_add_command(launch, &proc->argv);
	/* Otherwise the plugin, if it is installed, would take this step for one of srun --hvd. */
	hvd_env_unset(&proc->env, "SLURM_HVD_STEP");
	return 0;
}

/* ---- without munge ---- */

static int refuse_stdin(const char *what, struct hvd_err *err)
{
	hvd_err_set(
		err, HVD_E_USAGE,
		"there is no munge here, so the launch's key is sent on the ranks' stdin, which is impossible with %s",
		what);
	return hvd_err_hint(err, "name a key file of mode 0600 that all hosts can read: --key-file=FILE");
}

/* Set *whose to the rank that gets hvdrun's stdin, to "none", or to NULL for all ranks. -1: no such input is
 * possible. */
static int whose_input(const struct hvd_launch *launch, const char **whose, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const char *input = spec->srun.input ? spec->srun.input : spec->as_horovodrun ? "0" : "all";

	*whose = NULL;
	if (spec->srun.pty)
		return refuse_stdin("--pty", err);
	if (strcmp(input, "all") == 0)
		return 0;
	if (strcmp(input, "none") != 0 && (!*input || input[strspn(input, "0123456789")]))
		return refuse_stdin("a file as --input", err);
	*whose = input;
	return 0;
}

int hvd_srun_by_stdin(struct hvd_launch *launch, struct hvd_err *err)
{
	struct hvd_strv *argv = &launch->procs[0].argv, words = {0};
	const char *whose;
	bool past = false; /* the words that start the shim */

	if (whose_input(launch, &whose, err) != 0)
		return -1;
	for (size_t i = 0; i < argv->n; i++) {
		bool here = !past && strcmp(argv->v[i], launch->agent) == 0;

		if (here && whose)
			hvd_strv_add(&words, "--input=all"); /* the last --input counts */
		hvd_strv_add(&words, argv->v[i]);
		if (!here)
			continue;
		past = true;
		hvd_strv_add(&words, argv->v[++i]); /* the subcommand */
		hvd_strv_add(&words, "--stdin");
		if (whose)
			hvd_strv_addf(&words, "--input=%s", whose);
	}
	hvd_strv_free(argv);
	*argv = words;
	launch->by_stdin = true;
	launch->no_input = whose && strcmp(whose, "none") == 0;
	return 0;
}

const struct hvd_backend hvd_backend_srun = {
	.name = "srun",
	.mode = HVD_START_RANKS,
	.one_srun = true,
	.suits = suits,
	.check = check,
	.prepare = prepare,
	.elastic = &hvd_backend_steps,
};
