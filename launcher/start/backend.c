/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include "agent_pool.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/preamble.h"
#include "scratch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct hvd_proc *hvd_launch_add(struct hvd_launch *launch, const char *host)
{
	struct hvd_proc *proc;

	launch->procs = hvd_xrealloc(launch->procs, launch->n_procs + 1, sizeof(*launch->procs));
	proc = &launch->procs[launch->n_procs++];
	memset(proc, 0, sizeof(*proc));
	proc->host = host;
	proc->fd = -1;
	hvd_strv_add_all(&proc->env, launch->envp);
	hvd_env_unset(&proc->env, HVD_BOOT_ENV);
	hvd_env_unset(&proc->env, "SLURM_SRUN_MULTI"); /* srun would take hvd-agent for a file of --multi-prog */
	return proc;
}

/* srun --label labels lines itself. If something else starts the ranks, or lines must look as horovodrun's do, the agent
 * labels them. */
static void add_options(const struct hvd_launch *launch, const struct hvd_proc *proc, struct hvd_strv *argv)
{
	enum hvd_label label = launch->spec->output.label;

	if (label == HVD_LABEL_HOROVOD)
		hvd_strv_add(argv, "--label=horovod");
	else if (label == HVD_LABEL_SRUN && proc->host)
		hvd_strv_add(argv, "--label=srun");
	if (launch->spec->output.timestamps)
		hvd_strv_add(argv, "--timestamps");
	if (launch->spec->output.dir && !launch->proc_writes_files)
		hvd_strv_addf(argv, "--output-dir=%s", launch->spec->output.dir);
	if (launch->alloc.slots)
		hvd_strv_addf(argv, "--size=%d", launch->alloc.slots);
	if (launch->spec->preload)
		hvd_strv_addf(argv, "--preload=%s", launch->spec->preload);
}

void hvd_launch_add_agent(struct hvd_launch *launch, struct hvd_proc *proc, const char *subcommand)
{
	hvd_strv_add(&proc->argv, launch->agent);
	hvd_strv_add(&proc->argv, subcommand);
	add_options(launch, proc, &proc->argv);
}

void hvd_launch_add_command(struct hvd_launch *launch, struct hvd_strv *argv)
{
	hvd_strv_add(argv, "--");
	if (launch->spec->selftest)
		hvd_strv_add(argv, launch->selftest);
	hvd_strv_add_all(argv, launch->spec->command);
}

void hvd_launch_add_ranks(const struct hvd_launch *launch, int index, int first_rank, struct hvd_strv *argv)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];

	hvd_strv_addf(argv, "--host=%d:%d:%s", launch->first_host + index, launch->first_host + launch->alloc.n_hosts,
		      host->name);
	hvd_strv_addf(argv, "--ranks=%d:%d", first_rank, host->slots);
}

void hvd_launch_add_binding(const struct hvd_launch *launch, struct hvd_strv *argv)
{
	const char *bind = launch->spec->binding.ranks;

	if (strcmp(bind, "none") != 0)
		hvd_strv_add(argv, strcmp(bind, "cores") == 0 ? "--bind" : "--bind=near");
}

/* LSF's launchers do not pass the nice value and the limit of locked memory on to other hosts. Append options to the
 * node agent's command line by which it sets them. */
static void add_limits(struct hvd_strv *argv)
{
	int value = getpriority(PRIO_PROCESS, 0);
	struct rlimit rl;

	if (value != 0)
		hvd_strv_addf(argv, "--nice=%d", value);
	if (getrlimit(RLIMIT_MEMLOCK, &rl) != 0)
		return;
	if (rl.rlim_cur == RLIM_INFINITY)
		hvd_strv_add(argv, "--memlock=unlimited");
	else
		hvd_strv_addf(argv, "--memlock=%llu", (unsigned long long)rl.rlim_cur);
}

bool hvd_launch_mixes_output(const struct hvd_launch *launch)
{
	const struct hvd_alloc *alloc = &launch->alloc;

	return launch->spec->output.label == HVD_LABEL_NONE &&
	       (launch->spec->elastic.on || alloc->n_hosts != 1 || !hvd_launch_is_local(launch, alloc->hosts[0].name));
}

static void add_host(struct hvd_launch *launch, int index, int first_rank, hvd_reach_fn *reach)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];
	struct hvd_proc *proc = hvd_launch_add(launch, host->name);
	struct hvd_strv *rest = reach ? &proc->stdin_args : &proc->argv, agent;
	bool local = hvd_launch_is_local(launch, host->name);
	hvd_cleanup_free char *cpus = NULL;

	hvd_strv_add(&proc->argv, launch->agent);
	hvd_strv_add(&proc->argv, "host");
	if (reach) {
		hvd_strv_add(&proc->argv, "--stdin");
		hvd_strv_add(rest, "host");
	}
	hvd_launch_add_ranks(launch, index, first_rank, &proc->argv);
	if (!local && hvd_scheduler_of(launch->envp)->kills_agents) {
		/* A guard process, which LSF's daemons do not know, ends the ranks if these kill the node agent. */
		hvd_strv_add(&proc->argv, "--guarded");
		add_limits(&proc->argv);
	}
	add_options(launch, proc, rest);
	if (reach && hvd_launch_mixes_output(launch))
		hvd_strv_add(rest, "--label=none");
	hvd_launch_add_binding(launch, rest);
	if (index < launch->lsf.n_hosts && (cpus = hvd_lsf_cpus(&launch->lsf.hosts[index], host->slots)))
		hvd_strv_addf(rest, "--cpus=%s", cpus);
	hvd_launch_add_command(launch, rest);
	if (local)
		return;
	agent = proc->argv;
	proc->argv = (struct hvd_strv){0};
	reach(launch, host->name, agent.v, &proc->argv);
	hvd_strv_free(&agent);
}

void hvd_launch_add_hosts(struct hvd_launch *launch, hvd_reach_fn *reach)
{
	for (int i = 0, rank = 0; i < launch->alloc.n_hosts; i++) {
		add_host(launch, i, rank, reach);
		rank += launch->alloc.hosts[i].slots;
	}
}

int hvd_launch_for_host(struct hvd_launch *one, const struct hvd_launch *job, const struct hvd_backend *backend,
			int number, const struct hvd_alloc_host *host, struct hvd_err *err)
{
	*one = *job;
	one->first_host = number;
	one->procs = NULL;
	one->n_procs = 0;
	one->scratch = NULL;
	memset(&one->alloc, 0, sizeof(one->alloc));
	memset(&one->lsf, 0, sizeof(one->lsf));
	if (hvd_alloc_append(&one->alloc, host, err) != 0)
		return hvd_err_host(err, host->name);
	if (!backend->add_host)
		hvd_launch_add_hosts(one, backend->reach);
	else if (backend->add_host(one, err) != 0)
		return hvd_err_host(err, host->name);
	return 0;
}

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Is it CUDA_VISIBLE_DEVICES or another such list, perhaps with a prefix, or with the number of a task, as LSF has
 * it? */
static bool lists_gpus(const char *name, size_t len)
{
	static const char *const lists[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};

	while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
		len--;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (len >= strlen(lists[i]) && begins_with(name + len - strlen(lists[i]), lists[i]))
			return true;
	return false;
}

/* Variables that describe this host, this shell or this login make no sense elsewhere. */
void hvd_launch_export(const struct hvd_launch *launch, struct hvd_strv *env)
{
	for (char *const *e = launch->envp; *e; e++) {
		const char *equals = strchr(*e, '=');
		size_t len = equals ? (size_t)(equals - *e) + 1 : 0;

		if (len < 2 || begins_with(*e, "BASH_FUNC_") || begins_with(*e, "SSH_") || begins_with(*e, "OLDPWD=") ||
		    begins_with(*e, HVD_BOOT_ENV "=") || lists_gpus(*e, len - 1))
			continue;
		hvd_strv_add(env, *e);
	}
}

bool hvd_launch_explain_begin(int code, struct hvd_err *why)
{
	switch (code) {
	case HVD_PREAMBLE_NO_DIRECTORY:
		hvd_err_set(why, HVD_E_FAILED, "the current directory does not exist there");
		hvd_err_hint(why, "start hvdrun in a directory that exists under the same path on all hosts");
		return true;
	case HVD_PREAMBLE_UNREADABLE:
		hvd_err_set(why, HVD_E_FAILED, "its node agent did not get its start data");
		hvd_err_hint(
			why,
			"install the same release on all hosts; login scripts of the shell must not read from stdin");
		return true;
	case HVD_PREAMBLE_TO_SHELL:
		hvd_err_set(why, HVD_E_FAILED,
			    "a start file of the login shell there starts another shell in place of hvd-agent");
		hvd_err_hint(why, "~/.bashrc, ~/.profile, ~/.cshrc and the like may do that in interactive shells "
				  "only: [[ $- != *i* ]] "
				  "|| exec fish; or make the other shell the login shell (chsh)");
		return true;
	default:
		return false;
	}
}

void hvd_launch_clear(struct hvd_launch *launch)
{
	for (size_t i = 0; i < launch->n_procs; i++) {
		hvd_strv_free(&launch->procs[i].argv);
		hvd_strv_free(&launch->procs[i].stdin_args);
		hvd_strv_free(&launch->procs[i].env);
		if (launch->procs[i].agent)
			hvd_agent_pool_release(launch->procs[i].agent);
		else if (launch->procs[i].fd >= 0)
			close(launch->procs[i].fd);
	}
	free(launch->procs);
	launch->procs = NULL;
	launch->n_procs = 0;
	hvd_alloc_clear(&launch->alloc);
	hvd_lsf_clear(&launch->lsf);
	hvd_scratch_destroy(launch->scratch);
	launch->scratch = NULL;
}
