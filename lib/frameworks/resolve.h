/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.h - which variables of its plan a rank gets. The rank's host decides, because only there are the settings of
 * user and site, and the rank's CPUs and GPUs, known.
 *
 * A variable that the rank's environment already has wins over the plan as follows; emitted.h has the names.
 *
 *   a name with "?"        the variable, if the environment has it (emit.h)
 *   flag `yields`          the variable, if user or site have set it, also in a file (lib/host/user_ifname.h)
 *   flag `store`           all variables with this flag, if the environment has MASTER_ADDR or MASTER_PORT without
 *                          TORCHELASTIC_USE_AGENT_STORE=True. With it, they come from a launch around this one (of hvd
 *                          or torchrun), whose store is not for these ranks
 *   any other variable     never: the plan wins
 *
 * Some variables get their value here (`decisions` in resolve.c). If their name in the plan has a "?", they may be left
 * out.
 *
 * Two kinds depend on the command (command_facts.h): torchrun's options (PET_*) are left out where it does not run
 * torchrun or runs it with --standalone, and the interface "lo" of a launch on one host where it starts Ray, whose
 * workers inherit it and may work with those of other hosts.
 *
 * TORCHELASTIC_USE_AGENT_STORE becomes True for a PyTorch that is known to be older than 2.7, which does not know the
 * plan's value (emit.c), and for a user who has set True, for a PyTorch in a container for example. If the
 * PyTorch is not known to be older, and is, rank 0 fails at once. With True and a newer PyTorch, programs that set
 * MASTER_ADDR themselves would hang.
 */
#ifndef HVD_RESOLVE_H
#define HVD_RESOLVE_H

#include "command_facts.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/net/name_service.h"

#include <stdbool.h>

/* What is known of a rank on its host. */
struct hvd_rank_facts {
	char *const *envp; /* its environment without the plan; NULL-terminated, or NULL */
	bool slurm_task;   /* it is a task of a Slurm step, so SLURM_PROCID and the like have its rank */
	int cpus;          /* how many CPUs it may run on; 0 = not known */
	int host_cpus;     /* how many CPUs all ranks of its host may run on together; 0 = not known */
	struct hvd_name_service names;
	const char *root; /* for hvd_gpu_count(); NULL = "" */
	struct hvd_command_facts command;
};

/* Add to `env` what a rank gets of its plan: `plan` has NAME=VALUE, with names as hvd_emit_all() writes them. `log`
 * gets what the user should know of it; NULL = nothing, as for all ranks of a launch but one. */
void hvd_resolve(const struct hvd_strv *plan, const struct hvd_rank_facts *facts, const struct hvd_log *log,
		 struct hvd_strv *env);

#endif
