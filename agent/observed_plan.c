/* SPDX-License-Identifier: Apache-2.0 */
/* The host's plan, for its shims or, under the plugin, as the finished variables of its tasks (step_plans.h). */
#include "observed_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/step_plans.h"
#include "rank_env.h"

#include <stdlib.h>
#include <unistd.h>

static const char *error_file(const struct observed *observed, uint32_t local_id)
{
	return observed->ranks ? hvd_observed_ranks_error_file(observed->ranks, local_id) : NULL;
}

/* A shim decides itself which variables its rank gets: the agent does not know the rank's environment and CPUs. */
static void answer_shims(const struct observed *observed, const json_t *ranks, const json_t *commands,
			 const struct hvd_name_service *names)
{
	const struct hvd_taskinfo *info = observed->agent.info;
	json_t *plans = json_array(), *env;

	for (uint32_t i = 0; i < info->local_size && (env = json_array_get(ranks, i)); i++) {
		const char *file = error_file(observed, i);
		json_t *command = json_array_get(commands, i);
		json_t *plan = json_pack("{s:I, s:I, s:O, s:o, s:b, s:o, s:b, s:b}", "rank", (json_int_t)info->ranks[i],
					 "size", (json_int_t)info->size, "env", env, "error_file",
					 file ? json_string(file) : json_null(), "func_key", observed->agent.key_fd > 0,
					 "settings", hvd_agent_settings_json(&observed->agent.settings), "slow_names",
					 names->slow, "no_own_name", names->no_own_name);

		if (command)
			json_object_set(plan, "command", command);
		json_array_append_new(plans, plan);
	}
	hvd_shims_answer(observed->shims, plans, observed->agent.key_fd);
	json_decref(plans);
}

/* The tasks get the same environment from slurmstepd as this process, but for what tells them apart. A task without a
 * rank gets no variables. */
static int answer_tasks(const struct observed *observed, const json_t *ranks, const json_t *commands,
			const struct hvd_name_service *names, struct hvd_err *err)
{
	const struct hvd_taskinfo *info = observed->agent.info;
	struct hvd_strv *tasks = hvd_xcalloc(observed->tasks, sizeof(*tasks));
	struct hvd_rank_facts facts = hvd_rank_env_facts(true);
	const json_t *plan;
	int rc;

	facts.names = *names;
	if (!commands)
		facts.command = hvd_rank_env_command(json_array_get(ranks, 0), observed->opts->command);
	for (uint32_t i = 0; i < info->local_size && (plan = json_array_get(ranks, i)); i++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv own = {0};
		bool first = info->ranks[i] == 0;

		hvd_rank_env_own_command(json_array_get(commands, i), &own);
		if (own.n)
			facts.command = hvd_rank_env_command(plan, own.v);
		if (first)
			hvd_rank_env_warn_without_pmi(plan, info->size, observed->agent.log);
		hvd_rank_env_add(&tasks[i], plan, &facts, own.n ? own.v[0] : NULL, first ? observed->agent.log : NULL);
		hvd_rank_env_error_file(&tasks[i], error_file(observed, i));
	}
	rc = hvd_step_plans_write(HVD_STEP_PLANS_FD, getpid(), tasks, observed->tasks);
	if (rc != 0)
		hvd_err_sys(err, "cannot write the launch plans of this host");
	else
		hvd_shims_answer(observed->shims, NULL, 0);
	for (uint32_t i = 0; i < observed->tasks; i++)
		hvd_strv_free(&tasks[i]);
	free(tasks);
	return rc;
}

int hvd_observed_answer(struct observed *observed, const json_t *plan, struct hvd_err *err)
{
	const json_t *ranks = json_object_get(plan, "ranks"), *commands = json_object_get(plan, "commands");
	/* Once for all ranks: each would load the libraries of the name service, and read its files. */
	struct hvd_name_service names = hvd_rank_env_names(json_array_get(ranks, 0));

	hvd_driver_client_send(observed->agent.driver, hvd_rank_env_own_name(&names));
	if (!observed->starter->shims)
		return answer_tasks(observed, ranks, commands, &names, err);
	answer_shims(observed, ranks, commands, &names);
	return 0;
}
