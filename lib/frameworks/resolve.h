/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.h - which variables of its plan a rank gets. It is decided on the rank's host, since only there is known what
 * user and site have set, and which CPUs and GPUs the rank has.
 *
 * What the rank's environment has already wins over the plan as follows; emitted.h has the names.
 *
 *   a name with "?"        the variable, if the environment has it (emit.h)
 *   flag `yields`          the variable, if user or site have set it, also in a file (lib/job/user_ifname.h)
 *   flag `store`           all variables with this flag, if the environment has MASTER_ADDR or MASTER_PORT, and no
 *                          TORCHELASTIC_USE_AGENT_STORE=True beside them. With it they are of a launch around this one,
 *                          this suite's or torchrun's, whose store is not for these ranks
 *   any other variable     is always the plan's
 *
 * Variables with the flag `local` get their value here, or are left out, where their name in the plan has a "?".
 */
#ifndef HVD_RESOLVE_H
#define HVD_RESOLVE_H

#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/net/name_service.h"

#include <stdbool.h>

/* What is known of a rank on its host. */
struct hvd_rank_facts {
	char *const *envp; /* its environment without the plan; NULL-terminated, or NULL */
	bool slurm_task;   /* it is a task of a Slurm step, so SLURM_PROCID and the like tell its rank */
	int cpus;          /* how many CPUs it may run on; 0 = not known */
	int host_cpus;     /* … and all ranks of its host together; 0 = not known */
	struct hvd_name_service names;
	const char *root; /* for hvd_gpu_count(); NULL = "" */
};

/* Add to `env` what a rank gets of its plan: `plan` has NAME=VALUE, with names as hvd_emit_all() writes them. `log`
 * gets what the user should know of it; NULL = nothing, as for all ranks of a launch but one. */
void hvd_resolve(const struct hvd_strv *plan, const struct hvd_rank_facts *facts, const struct hvd_log *log,
		 struct hvd_strv *env);

#endif
