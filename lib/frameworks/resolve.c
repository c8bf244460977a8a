/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve.h"

#include "emit.h"
#include "emitted.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lib/host/this_host.h"
#include "lib/net/addr.h"
#include "rank_gpus.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_SHOWN 200 /* bytes of a user's value in a message */

/* A number that the plan tells the rank; `none` if it does not. */
static int planned_number(const struct hvd_strv *plan, const char *name, int none)
{
	const char *value = hvd_env_get(plan, name);

	return value ? atoi(value) : none;
}

/* ---- values that are found here ---- */

/* torchrun sets 1 where a host has several ranks, for otherwise each would start a thread for every CPU of the host. A
 * rank that has CPUs of its own can use them all. */
static char *omp_threads(const struct hvd_strv *plan, const struct hvd_rank_facts *facts)
{
	int ranks = planned_number(plan, "LOCAL_WORLD_SIZE", 1), threads = facts->cpus;

	if (ranks < 2)
		return NULL;
	if (facts->host_cpus && facts->host_cpus / ranks < threads)
		threads = facts->host_cpus / ranks;
	return hvd_xasprintf("%d", threads > 1 ? threads : 1);
}

static struct hvd_rank_numbers numbers_of(const struct hvd_strv *plan)
{
	return (struct hvd_rank_numbers){.local_rank = planned_number(plan, "LOCAL_RANK", 0),
					 .local_size = planned_number(plan, "LOCAL_WORLD_SIZE", 0),
					 .size = planned_number(plan, "WORLD_SIZE", 0)};
}

static char *jax_devices(const struct hvd_strv *plan, const struct hvd_rank_facts *facts)
{
	const struct hvd_rank_numbers numbers = numbers_of(plan);

	return hvd_rank_gpus_jax(&numbers, facts);
}

/* A value that the user has set beside MASTER_ADDR is of another launch. */
static char *agent_store(const struct hvd_strv *plan, const struct hvd_rank_facts *facts)
{
	const char *set = hvd_envp_get(facts->envp, "TORCHELASTIC_USE_AGENT_STORE");
	bool users = set && strcmp(set, "True") == 0 && !hvd_envp_get(facts->envp, "MASTER_ADDR");

	if (users || (facts->command.torch && facts->command.torch < HVD_TORCH(2, 7)))
		return hvd_xstrdup("True");
	return hvd_xstrdup(hvd_env_get(plan, "TORCHELASTIC_USE_AGENT_STORE"));
}

/* ---- conditions of the plan's values ---- */

/* With "gpu" torchrun starts one worker for each GPU, else a single one. */
static bool has_gpu(const struct hvd_rank_facts *facts)
{
	return hvd_gpu_count(facts->root ? facts->root : "", facts->envp) > 0;
}

/* torchrun compares the endpoint with the addresses of its host's name, and fails where the name has none. */
static bool has_no_own_name(const struct hvd_rank_facts *facts)
{
	return facts->names.no_own_name;
}

/* Lightning takes the numbers of Slurm's or of jsrun's variables for the rank's, unless torchrun's are set. A rank that
 * is no task of a step has Slurm's variables from the batch script, or from its host's agent. jsrun's variables would
 * make Lightning take the store's address from a file of LSF's. */
static bool has_others_numbers(const struct hvd_rank_facts *facts)
{
	bool slurm = !facts->slurm_task && hvd_envp_get(facts->envp, "SLURM_NTASKS");

	return slurm || hvd_envp_get(facts->envp, "JSM_NAMESPACE_RANK");
}

/* Each name that PyTorch looks up would delay it by 10 s. */
static bool has_slow_names(const struct hvd_rank_facts *facts)
{
	return facts->names.slow;
}

/* What this host decides of a variable. */
struct decision {
	const char *name;
	bool (*wants)(const struct hvd_rank_facts *facts); /* set it? NULL: yes */
	/* Its value in place of the plan's, which the caller frees; NULL: it is not set. */
	char *(*value)(const struct hvd_strv *plan, const struct hvd_rank_facts *facts);
};

static const struct decision *find_decision(const char *name)
{
	static const struct decision decisions[] = {
		{"OMP_NUM_THREADS", .value = omp_threads},
		{"JAX_LOCAL_DEVICE_IDS", .value = jax_devices},
		{"TORCHELASTIC_USE_AGENT_STORE", .value = agent_store},
		{"PET_NPROC_PER_NODE", .wants = has_gpu},
		{"PET_RDZV_CONF", .wants = has_no_own_name},
		{"TORCHELASTIC_RUN_ID", .wants = has_others_numbers},
		{"RES_OPTIONS", .wants = has_slow_names},
	};

	for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++)
		if (strcmp(name, decisions[i].name) == 0)
			return &decisions[i];
	return NULL;
}

/* ---- the user's store ---- */

static bool store_is_users(char *const *envp)
{
	const char *agent = hvd_envp_get(envp, "TORCHELASTIC_USE_AGENT_STORE");

	return (hvd_envp_get(envp, "MASTER_ADDR") || hvd_envp_get(envp, "MASTER_PORT")) &&
	       (!agent || strcmp(agent, "True") != 0);
}

/* Does `text` name another host than this one? A name is compared only, since a name server may take long to answer.
 * Hosts often have a name for each of their networks, as n1 and n1-ib. */
static bool names_other_host(const char *text)
{
	char own[256] = "", name[256];
	struct hvd_addr addr;

	if (hvd_addr_parse(text, &addr) == 0)
		return hvd_addr_is_own(&addr) == 0;
	if (hvd_like_this_host(text) || gethostname(own, sizeof(own) - 1) != 0 || strlen(text) >= sizeof(name))
		return false;
	own[strcspn(own, ".")] = '\0';
	memcpy(name, text, strlen(text) + 1);
	name[strcspn(name, ".")] = '\0';
	return !strstr(name, own) && !strstr(own, name);
}

static bool is_loopback(const char *text)
{
	struct hvd_addr addr;

	return strcmp(text, "localhost") == 0 || (hvd_addr_parse(text, &addr) == 0 && hvd_addr_loopback(&addr));
}

static void tell_users_store(const struct hvd_strv *plan, const struct hvd_rank_facts *facts, const struct hvd_log *log)
{
	const char *addr = hvd_envp_get(facts->envp, "MASTER_ADDR"), *port = hvd_envp_get(facts->envp, "MASTER_PORT");

	/* torchrun gives both to its workers; MASTER_ADDR alone is for --rdzv-endpoint=$MASTER_ADDR:PORT. */
	if (facts->command.torchrun && !port)
		return;
	if (!addr || !port) {
		hvd_warn(log, "%s is set and %s is not, so PyTorch's ranks will not find each other",
			 addr ? "MASTER_ADDR" : "MASTER_PORT", addr ? "MASTER_PORT" : "MASTER_ADDR");
		hvd_info(log, "unset %s, so that this launch sets both", addr ? "MASTER_ADDR" : "MASTER_PORT");
		return;
	}
	hvd_verbose(log,
		    "MASTER_ADDR=%.*s MASTER_PORT=%.*s are set by the user: PyTorch's ranks rendezvous there, not "
		    "through this launch's store",
		    VALUE_SHOWN, addr, VALUE_SHOWN, port);
	if (is_loopback(addr) ? planned_number(plan, "GROUP_WORLD_SIZE", 1) < 2 : !names_other_host(addr))
		return;
	hvd_warn(log, "MASTER_ADDR=%.*s in the environment is not an address of rank 0's host that all ranks reach",
		 VALUE_SHOWN, addr);
	hvd_info(log, "unset MASTER_ADDR and MASTER_PORT, so that this launch sets them");
}

/* ---- all of them ---- */

static void tell_names(const struct hvd_rank_facts *facts, const struct hvd_log *log)
{
	if (!facts->names.slow)
		return;
	hvd_warn(log,
		 "this host's name servers have not answered within %d ms, so each name that PyTorch looks up delays "
		 "it",
		 HVD_NAME_SERVICE_MS);
	hvd_info(log,
		 "check /etc/resolv.conf there; ranks ask each name server once, for 1 s, unless RES_OPTIONS is set");
}

/* Would the command hand the variable on to what it is not meant for? */
static bool is_for_another(const char *name, const char *value, const struct hvd_command_facts *command)
{
	if (strncmp(name, "PET_", 4) == 0)
		return command->no_torchrun;
	return command->ray && hvd_emitted_flags(name)->yields && strcmp(value + (*value == '='), "lo") == 0;
}

static void resolve_one(const struct hvd_strv *plan, const char *entry, bool users_store,
			const struct hvd_rank_facts *facts, struct hvd_strv *env)
{
	size_t len = strcspn(entry, "=");
	hvd_cleanup_free char *written = hvd_xstrndup(entry, len), *found = NULL;
	hvd_cleanup_free char *name = hvd_emit_name(written, facts->envp);
	const struct hvd_emitted *flags = name ? hvd_emitted_flags(name) : NULL;
	const struct decision *decision = NULL;
	const char *value = entry + len + 1;

	if (!name || (users_store && flags->store) || is_for_another(name, value, &facts->command))
		return;
	/* Without the "?" that its name may have, the plan has decided. */
	if (strcmp(name, written) != 0 || !flags->keeps)
		decision = find_decision(name);
	if (decision && decision->wants && !decision->wants(facts))
		return;
	if (decision && decision->value)
		value = found = decision->value(plan, facts);
	if (value)
		hvd_env_set(env, name, value);
}

static bool plans_store(const struct hvd_strv *plan)
{
	return hvd_env_get(plan, "MASTER_ADDR");
}

void hvd_resolve(const struct hvd_strv *plan, const struct hvd_rank_facts *facts, const struct hvd_log *log,
		 struct hvd_strv *env)
{
	bool users_store = plans_store(plan) && store_is_users(facts->envp);
	const struct hvd_rank_numbers numbers = numbers_of(plan);

	if (users_store)
		tell_users_store(plan, facts, log);
	hvd_rank_gpus_tell(&numbers, facts, log);
	tell_names(facts, log);
	for (size_t i = 0; i < plan->n; i++)
		resolve_one(plan, plan->v[i], users_store, facts, env);
}
