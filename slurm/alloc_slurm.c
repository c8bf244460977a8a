/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of a Slurm job or step, from the environment that Slurm gives to it. */
#include "alloc_slurm.h"

#include "gres.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lib/host/layout.h"
#include "slurm.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Slurm gives step ids from here on to the batch script, the interactive shell and the external step. */
#define FIRST_SPECIAL_STEP 0xfffffff0u

struct job {
	char *const *envp;
	bool ask_controller;
	bool in_step;          /* the hosts are those of a step, else those of the job */
	struct hvd_strv hosts; /* in Slurm's order; a host may be named twice */
	int *slots;            /* of each of hosts */
	const char *from;      /* which variable decided the slots, for messages */
};

static void clear_job(struct job *j)
{
	hvd_strv_free(&j->hosts);
	free(j->slots);
}

/* The value of a variable as a number up to max; -1 if the variable is missing or is no such number. */
static int64_t number_of(char *const *envp, const char *name, int64_t max)
{
	const char *s = hvd_envp_value(envp, name);

	return s ? hvd_digits(s, strlen(s), max) : -1;
}

static int list_count(const char *s)
{
	int n = 1;

	for (; *s; s++)
		n += *s == ',';
	return n;
}

/* Give each host so many slots. Always returns 1. */
static int all_slots(struct job *j, int n, const char *from)
{
	for (size_t i = 0; i < j->hosts.n; i++)
		j->slots[i] = n;
	j->from = from;
	return 1;
}

/* salloc's environment has a list of nodes for each component, and no SLURM_JOB_NODELIST. */
bool hvd_alloc_is_het(char *const *envp)
{
	return hvd_envp_value(envp, "SLURM_JOB_NODELIST_HET_GROUP_0") ||
	       number_of(envp, "SLURM_HET_SIZE", INT32_MAX) > 1 || number_of(envp, "SLURM_PACK_SIZE", INT32_MAX) > 1;
}

bool hvd_alloc_in_slurm(char *const *envp)
{
	return hvd_envp_value(envp, "SLURM_JOB_ID") &&
	       (hvd_envp_value(envp, "SLURM_JOB_NODELIST") || hvd_alloc_is_het(envp));
}

int hvd_alloc_refuse_het(char *const *envp, struct hvd_err *err)
{
	if (!hvd_alloc_is_het(envp))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "this is a heterogeneous job, whose components cannot be one Horovod job");
	return hvd_err_hint(err, "give each component a role, with ranks of its own, in the order of the components: "
				 "hvdrun --role=a COMMAND : --role=b COMMAND; or submit a job without 'hetjob' or ':'");
}

/* Take the slots of all hosts from a variable like "2(x4),1". False if it is missing, or has not one number for each
 * host. */
static bool tasks_from(struct job *j, const char *name)
{
	const char *text = hvd_envp_value(j->envp, name);
	hvd_cleanup_free int *tasks = NULL;

	if (!text || hvd_tasks_per_node_parse(text, (int)j->hosts.n, &tasks, NULL) != (int)j->hosts.n)
		return false;
	memcpy(j->slots, tasks, j->hosts.n * sizeof(*tasks));
	j->from = name;
	return true;
}

/* Set the slots to the tasks of each host, if the user asked for tasks. SLURM_TASKS_PER_NODE alone does not say so: if
 * the user did not ask for tasks, Slurm writes the number of CPUs there. Returns 1 if the slots are set, 0 if the user
 * did not ask, -1 with err set. */
static int slots_by_tasks(struct job *j, struct hvd_err *err)
{
	int64_t hosts = (int64_t)j->hosts.n;
	int64_t ntasks = number_of(j->envp, "SLURM_NTASKS", HVD_MAX_RANKS);
	int64_t per_node = number_of(j->envp, "SLURM_NTASKS_PER_NODE", HVD_MAX_RANKS);

	if (j->in_step) {
		int64_t sum = 0;

		if (!tasks_from(j, "SLURM_STEP_TASKS_PER_NODE"))
			return hvd_err_set(err, HVD_E_PROTO,
					   "SLURM_STEP_TASKS_PER_NODE does not match the %zu hosts of the step",
					   j->hosts.n);
		for (int64_t i = 0; i < hosts; i++)
			sum += j->slots[i];
		return sum > hosts;
	}
	/* Slurm computes SLURM_TASKS_PER_NODE without regard to --ntasks-per-node. */
	if (per_node > 0 && (ntasks < 0 || ntasks == per_node * hosts))
		return all_slots(j, (int)per_node, "SLURM_NTASKS_PER_NODE");
	if (ntasks < 0 && !hvd_envp_value(j->envp, "SLURM_NTASKS_PER_GPU"))
		return 0;
	if (tasks_from(j, "SLURM_TASKS_PER_NODE"))
		return 1;
	if (ntasks < 1)
		return 0;
	for (int64_t i = 0; i < hosts; i++)
		j->slots[i] = (int)(ntasks / hosts + (i < ntasks % hosts));
	j->from = "SLURM_NTASKS";
	return 1;
}

/* How many GPUs the user asked for each task; 1 if the user did not say. */
static int gpus_per_task(char *const *envp)
{
	const char *s = hvd_envp_value(envp, "SLURM_GPUS_PER_TASK");
	int n = s ? hvd_gpu_asked(s) : 0;

	if (n < 1 && (s = hvd_envp_value(envp, "SLURM_TRES_PER_TASK")))
		n = hvd_gres_gpus(s);
	return n > 0 ? n : 1;
}

/* Set the slots to the GPUs that the controller has granted on each host. False if the controller does not say, or if
 * its hosts are not those of the environment. */
static bool gpus_from_controller(struct job *j)
{
	const hvd_time until = hvd_deadline_in(HVD_SLURM_SECONDS);
	int64_t id = number_of(j->envp, "SLURM_JOB_ID", UINT32_MAX);
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job facts = {0};
	int sum = 0;

	if (!j->ask_controller || id < 0 || hvd_slurm_job_get((uint32_t)id, &facts, until, NULL) < 0)
		return false;
	hvd_slurm_job_gpus(&facts, until);
	if (!facts.gpus || facts.hosts.n != j->hosts.n)
		return false;
	for (size_t i = 0; i < j->hosts.n; i++) {
		if (strcmp(facts.hosts.v[i], j->hosts.v[i]) != 0)
			return false;
		sum += facts.gpus[i];
	}
	if (sum == 0)
		return false;
	memcpy(j->slots, facts.gpus, j->hosts.n * sizeof(*j->slots));
	j->from = "the GPUs that Slurm granted";
	return true;
}

int hvd_slurm_gpus_per_node(char *const *envp)
{
	const char *s = hvd_envp_value(envp, "SLURM_GPUS_PER_NODE");

	return s ? hvd_gpu_asked(s) : -1;
}

/* Set the slots to the GPUs of each host. Returns 1 if they are set, 0 if the job has no GPUs, -1 with err set. */
static int count_gpus(struct job *j, struct hvd_err *err)
{
	static const char *const lists[] = {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};
	const char *s;
	int hosts = (int)j->hosts.n;
	int total = (s = hvd_envp_value(j->envp, "SLURM_GPUS")) ? hvd_gpu_asked(s) : -1;
	int per_node = hvd_slurm_gpus_per_node(j->envp);
	int here = (int)number_of(j->envp, "SLURM_GPUS_ON_NODE", HVD_MAX_RANKS);

	/* A step may have fewer GPUs than its job, so in a step SLURM_GPUS_ON_NODE comes before the variables of the
	 * job. */
	if (per_node > 0 && !(j->in_step && here > 0))
		return all_slots(j, per_node, "SLURM_GPUS_PER_NODE");
	if (here > 0 && (hosts == 1 || j->in_step))
		return all_slots(j, here, "SLURM_GPUS_ON_NODE");
	if (!j->in_step && gpus_from_controller(j))
		return 1;
	if (here > 0 && (total < 0 || total == here * hosts))
		return all_slots(j, here, "SLURM_GPUS_ON_NODE");
	if (total > 0 && total % hosts == 0)
		return all_slots(j, total / hosts, "SLURM_GPUS");
	if (total > 0) {
		hvd_err_set(err, HVD_E_USAGE, "cannot tell how the %d GPUs of the job are spread over its %d hosts",
			    total, hosts);
		return hvd_err_hint(err, "ask for --gpus-per-node, or set --slots-per-host");
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if ((s = hvd_envp_value(j->envp, lists[i])))
			return all_slots(j, list_count(s), lists[i]);
	return 0;
}

static int slots_by_gpus(struct job *j, struct hvd_err *err)
{
	int rc = count_gpus(j, err), each = gpus_per_task(j->envp);

	if (rc < 1 || each == 1)
		return rc;
	for (size_t i = 0; i < j->hosts.n; i++)
		j->slots[i] = j->slots[i] / each;
	return rc;
}

/* With --ntasks-per-gpu the tasks are where the GPUs are, but SLURM_TASKS_PER_NODE spreads them by CPUs: count the
 * GPUs. Returns 1 if the slots are set, else 0. */
static int slots_by_tasks_per_gpu(struct job *j)
{
	int64_t each = number_of(j->envp, "SLURM_NTASKS_PER_GPU", 1024);
	int64_t ntasks = number_of(j->envp, "SLURM_NTASKS", HVD_MAX_RANKS), sum = 0;

	if (each < 1 || j->in_step || count_gpus(j, NULL) < 1)
		return 0;
	for (size_t i = 0; i < j->hosts.n; i++)
		sum += j->slots[i] * each;
	if (sum > HVD_MAX_RANKS || (ntasks >= 0 && sum != ntasks))
		return 0;
	for (size_t i = 0; i < j->hosts.n; i++)
		j->slots[i] = (int)(j->slots[i] * each);
	j->from = "SLURM_NTASKS_PER_GPU";
	return 1;
}

static int find_hosts(struct job *j, struct hvd_err *err)
{
	int64_t step = number_of(j->envp, "SLURM_STEP_ID", UINT32_MAX), nodes;
	const char *list;

	j->in_step = step >= 0 && step < FIRST_SPECIAL_STEP && hvd_envp_value(j->envp, "SLURM_STEP_NODELIST");
	list = hvd_envp_value(j->envp, j->in_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST");
	if (hvd_hostlist_expand(list, HVD_MAX_HOSTS, &j->hosts, err) < 0)
		return -1;
	nodes = number_of(j->envp, j->in_step ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES", UINT32_MAX);
	if (nodes >= 0 && nodes != (int64_t)j->hosts.n)
		return hvd_err_set(err, HVD_E_PROTO, "'%.200s' names %zu hosts, but %s is %lld", list, j->hosts.n,
				   j->in_step ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES", (long long)nodes);
	j->slots = hvd_xcalloc(j->hosts.n, sizeof(*j->slots));
	return 0;
}

static int find_slots(struct job *j, int slots_per_host, struct hvd_err *err)
{
	int rc;

	if (slots_per_host > 0)
		rc = all_slots(j, slots_per_host, "slots per host as asked for");
	else
		rc = slots_by_tasks_per_gpu(j);
	if (rc == 0)
		rc = slots_by_tasks(j, err);
	if (rc == 0)
		rc = slots_by_gpus(j, err);
	if (rc == 0)
		rc = all_slots(j, 1, "one slot per host");
	return rc < 0 ? -1 : 0;
}

static int add_job(struct hvd_alloc *out, char *const *envp, int slots_per_host, bool ask_controller,
		   struct hvd_err *err)
{
	HVD_CLEANUP(clear_job) struct job j = {.envp = envp, .ask_controller = ask_controller};

	if (find_hosts(&j, err) < 0 || find_slots(&j, slots_per_host, err) < 0)
		return -1;
	for (size_t i = 0; i < j.hosts.n; i++)
		if (hvd_alloc_add(out, j.hosts.v[i], j.slots[i], err) < 0)
			return -1;
	hvd_alloc_merge(out);
	snprintf(out->source, sizeof(out->source), "Slurm job %.20s: %s", hvd_envp_value(envp, "SLURM_JOB_ID"), j.from);
	return 0;
}

int hvd_alloc_from_slurm(struct hvd_alloc *out, char *const *envp, int slots_per_host, bool ask_controller,
			 struct hvd_err *err)
{
	memset(out, 0, sizeof(*out));
	if (!hvd_alloc_in_slurm(envp))
		return hvd_err_set(err, HVD_E_NOENT, "there is no Slurm job in the environment");
	if (hvd_alloc_refuse_het(envp, err) == 0 && add_job(out, envp, slots_per_host, ask_controller, err) == 0)
		return 0;
	hvd_alloc_clear(out);
	return -1;
}

/* ---- heterogeneous jobs ---- */

void hvd_slurm_component_env(char *const *envp, int component, struct hvd_strv *out)
{
	char end[32];
	const size_t len = (size_t)snprintf(end, sizeof(end), "_HET_GROUP_%d", component);

	for (; envp && *envp; envp++) {
		const size_t name = strcspn(*envp, "=");

		if (name > len && strncmp(*envp + name - len, end, len) == 0)
			hvd_strv_addf(out, "%.*s%s", (int)(name - len), *envp, *envp + name);
	}
}

static int add_component(struct hvd_alloc *out, const struct hvd_alloc *hosts, int component, struct hvd_err *err)
{
	hvd_cleanup_free int *at = hvd_alloc_find_all(out, hosts);

	for (int i = 0; i < hosts->n_hosts; i++) {
		if (at[i] >= 0) {
			hvd_err_set(err, HVD_E_USAGE, "host %s is in two components of the job, %d and %d",
				    hosts->hosts[i].name, out->hosts[at[i]].component - 1, component);
			return hvd_err_hint(err, "submit a job whose components have hosts of their own; or use one "
						 "component, and run a role --with another on its hosts");
		}
		if (hvd_alloc_append(out, &hosts->hosts[i], err) != 0)
			return -1;
		out->hosts[out->n_hosts - 1].component = component + 1;
	}
	return 0;
}

int hvd_alloc_from_het(struct hvd_alloc *out, char *const *envp, int slots_per_host, bool ask_controller,
		       struct hvd_err *err)
{
	const int64_t size = number_of(envp, "SLURM_HET_SIZE", HVD_MAX_HOSTS);
	int rc = 0;

	memset(out, 0, sizeof(*out));
	for (int i = 0; i < size && rc == 0; i++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
		HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc part = {0};

		hvd_slurm_component_env(envp, i, &env);
		if (!hvd_alloc_in_slurm(env.v))
			rc = hvd_err_set(err, HVD_E_PROTO,
					 "the job has %d components, but SLURM_JOB_NODELIST_HET_GROUP_%d is not set",
					 (int)size, i);
		else if (add_job(&part, env.v, slots_per_host, ask_controller, err) != 0)
			rc = hvd_err_prefix(err, "component %d of the job", i);
		else
			rc = add_component(out, &part, i, err);
	}
	if (rc == 0 && !out->n_hosts)
		rc = hvd_err_set(err, HVD_E_PROTO, "SLURM_HET_SIZE is no number of components");
	if (rc != 0)
		hvd_alloc_clear(out);
	else
		snprintf(out->source, sizeof(out->source), "heterogeneous Slurm job %.20s",
			 hvd_envp_value(envp, "SLURM_JOB_ID"));
	return rc;
}
