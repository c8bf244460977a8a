/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpirun.c - ranks through the mpirun that is installed (mpi.h), whose processes are the rank shims.
 *
 * mpirun gets hosts and slots, whether a scheduler granted them or the user
 * listed them. Open MPI starts its daemons by srun in a Slurm job and by ssh
 * elsewhere; on this machine it needs neither. hvdrun decides which rank is
 * where, slot by slot, and passes that to the shims, since an MPI's variables
 * contain only rank and local rank.
 */
#include "backend.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/boot.h"
#include "mpi.h"
#include "slurm/alloc_slurm.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* mpirun --version only prints, but a busy host or a slow file system may delay it. */
#define VERSION_SECONDS 15.0

static bool suits(const struct hvd_launch *launch)
{
	(void)launch;
	return false; /* --mpi chooses it by name (options_check.c) */
}

static const char *program(const struct hvd_launch *launch)
{
	const char *named = hvd_envp_value(launch->envp, "HVD_MPIRUN");

	return named ? named : "mpirun";
}

/* Open MPI expects srun to start its daemons on the hosts in the order that Open MPI lists them, but srun starts them
 * in the order of the job's hosts. So the hosts are sorted in that order. */
static void sort_as(struct hvd_launch *launch, const struct hvd_alloc *granted)
{
	struct hvd_alloc *a = &launch->alloc, sorted = {0};
	hvd_cleanup_free int *at = hvd_alloc_find_all(a, granted);
	bool moved = false;

	for (int i = 0; i < granted->n_hosts; i++) {
		if (at[i] < 0)
			continue;
		moved |= at[i] != sorted.n_hosts;
		hvd_alloc_add(&sorted, a->hosts[at[i]].name, a->hosts[at[i]].slots, NULL);
	}
	memcpy(sorted.source, a->source, sizeof(sorted.source));
	hvd_alloc_clear(a);
	*a = sorted;
	if (moved)
		hvd_warn(launch->log, "mpirun starts ranks on the hosts in the job's order, not in that of the list");
}

/* The hosts of the Slurm job, or those of them that the user listed. */
static int slurm_hosts(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc granted = {0};

	if (hvd_alloc_from_slurm(&granted, launch->envp, spec->hosts.slots_per_host, true, err) != 0 ||
	    hvd_launch_within(launch, &granted, err) != 0)
		return -1;
	sort_as(launch, &granted);
	return hvd_launch_take(launch, spec->ranks.n, err);
}

/* An MPI numbers the ranks of localhost and 127.0.0.1 as those of one host, so they are made one host here. */
static void join_local_names(struct hvd_launch *launch)
{
	struct hvd_alloc *a = &launch->alloc;
	const char *first = NULL;

	hvd_launch_find_local(launch, a);
	for (int i = 0; i < a->n_hosts; i++) {
		struct hvd_alloc_host *host = &a->hosts[i];

		if (!hvd_launch_is_local(launch, host->name))
			continue;
		if (first && strcmp(host->name, first) != 0) {
			free(host->name);
			host->name = hvd_xstrdup(first);
		}
		if (!first)
			first = host->name;
	}
	hvd_alloc_merge(a);
}

static int find_hosts(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (hvd_alloc_in_slurm(launch->envp))
		return slurm_hosts(launch, err);
	if (!hvd_launch_has_granted(launch) && !spec->hosts.listed) {
		if (hvd_launch_local_alloc(launch, err) != 0 || hvd_launch_take(launch, spec->ranks.n, err) != 0)
			return -1;
	} else if (hvd_launch_hosts(launch, err) != 0) {
		return -1;
	}
	join_local_names(launch);
	launch->one_machine = launch->alloc.n_hosts == 1 && hvd_launch_is_local(launch, launch->alloc.hosts[0].name);
	return 0;
}

/* Could `-x NAME` be misread? */
static bool plain_name(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	return len > 0 && !isdigit((unsigned char)name[0]);
}

/* Is it a variable that the MPI sets for each process, or in a Slurm job srun? */
static bool set_again(const struct hvd_launch *launch, const char *name)
{
	static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_", "HYDRA_", "HYDI_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strncmp(name, "SLURM", 5) == 0 && hvd_alloc_in_slurm(launch->envp);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Open MPI passes on only the variables that its command line names. */
static void add_exports(const struct hvd_launch *launch, struct hvd_strv *names)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};

	hvd_launch_export(launch, &env);
	for (size_t i = 0; i < env.n; i++) {
		size_t len = strcspn(env.v[i], "=");

		env.v[i][len] = '\0';
		if (plain_name(env.v[i], len) && !set_again(launch, env.v[i]))
			hvd_strv_add(names, env.v[i]);
	}
	hvd_strv_add(names, HVD_BOOT_ENV);
	qsort(names->v, names->n, sizeof(*names->v), by_text);
}

/* Open MPI reads the slots of each host from Slurm's variables, and refuses a list of hosts with more slots. hvdrun's
 * list may have more if slots follow from GPUs or from the user's options, so the variables are set accordingly. And
 * the plugin for Slurm, if it is installed, must not take the step of the MPI's daemons for one of srun --hvd. */
static void set_slurm(const struct hvd_launch *launch, struct hvd_proc *proc)
{
	const struct hvd_alloc *a = &launch->alloc;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv slots = {0}, names = {0};
	hvd_cleanup_free char *tasks = NULL, *hosts = NULL;

	if (!hvd_alloc_in_slurm(launch->envp))
		return;
	for (int i = 0; i < a->n_hosts; i++) {
		hvd_strv_addf(&slots, "%d", a->hosts[i].slots);
		hvd_strv_add(&names, a->hosts[i].name);
	}
	tasks = hvd_strv_join(&slots, ",");
	hosts = hvd_strv_join(&names, ",");
	hvd_env_set(&proc->env, "SLURM_TASKS_PER_NODE", tasks);
	hvd_env_set(&proc->env, "SLURM_NODELIST", hosts);
	hvd_env_set(&proc->env, "SLURM_JOB_NODELIST", hosts);
	hvd_env_unset(&proc->env, "SLURM_HVD_STEP");
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv exports = {0};
	hvd_cleanup_free char *ssh = NULL, *hosts = NULL;
	struct hvd_mpi_job job = {
		.hosts = &launch->alloc,
		.nics = &spec->interfaces,
		.exports = &exports,
		.ssh_identity = spec->ssh.identity,
		.binding_args = spec->binding.args,
		.more_args = spec->mpi.args,
		.ssh_port = spec->ssh.port,
		.tcp = spec->mpi.tcp,
		.timestamps = spec->output.timestamps,
		.keep_going = spec->keep_going,
	};
	struct hvd_proc *proc;
	enum hvd_mpi mpi;

	if (find_hosts(launch, err) != 0)
		return -1;
	/* As horovodrun does with ssh; a scheduler's own command needs none. */
	job.any_host_key =
		spec->as_horovodrun && !launch->one_machine && hvd_scheduler_of(launch->envp) == &hvd_scheduler_none;
	if (hvd_mpi_detect(program(launch), launch->envp, hvd_deadline_in(VERSION_SECONDS), &mpi, err) != 0)
		return -1;
	hvd_verbose(launch->log, "%s belongs to %s", program(launch), hvd_mpi_name(mpi));
	proc = hvd_launch_add(launch, NULL);
	set_slurm(launch, proc);
	if (hvd_mpi_keeps_output(mpi))
		job.output_dir = spec->output.dir;
	add_exports(launch, &exports);
	hvd_strv_add(&proc->argv, program(launch));
	if (hvd_mpi_args(mpi, &job, &proc->argv, err) != 0)
		return -1;
	ssh = hvd_mpi_ssh_args(&job);
	if (mpi == HVD_MPI_MPICH && *ssh)
		hvd_env_set(&proc->env, "HYDRA_LAUNCHER_EXTRA_ARGS", ssh);
	hvd_strv_add(&proc->argv, launch->agent);
	hvd_strv_add(&proc->argv, "shim");
	hosts = hvd_mpi_hosts(&launch->alloc, true);
	hvd_strv_addf(&proc->argv, "--mpi=%s", hosts);
	if (!hvd_mpi_keeps_output(mpi) && spec->output.dir)
		hvd_strv_addf(&proc->argv, "--output-dir=%s", spec->output.dir);
	hvd_launch_add_command(launch, &proc->argv);
	return 0;
}

const struct hvd_backend hvd_backend_mpirun = {
	.name = "mpirun",
	.mode = HVD_START_RANKS,
	.status_hides_signals = true,
	.suits = suits,
	.prepare = prepare,
};
