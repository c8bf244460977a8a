/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_gpus.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"

#include <stdlib.h>

struct gpus {
	int seen;    /* devices that a process can use; 0 = none, or not known */
	bool listed; /* CUDA_VISIBLE_DEVICES or another such list names them */
	bool mig;    /* the first of that list is an instance of MIG */
	bool own;    /* the host's other ranks see others */
};

static struct gpus gpus_of(const struct hvd_rank_facts *facts)
{
	const char *on_node = hvd_envp_get(facts->envp, "SLURM_GPUS_ON_NODE");
	struct gpus gpus = {.seen = hvd_gpu_count(facts->root ? facts->root : "", facts->envp),
			    .listed = hvd_gpu_visible(facts->envp) >= 0,
			    .mig = hvd_gpu_mig(facts->envp)};

	gpus.own = facts->slurm_task && gpus.listed && on_node && atoi(on_node) > gpus.seen;
	if (gpus.mig)
		gpus.seen = 1;
	return gpus;
}

/* Are there devices, and fewer than ranks? */
static bool too_few(const struct hvd_rank_numbers *numbers, const struct gpus *gpus)
{
	return gpus->seen > 0 && gpus->seen < numbers->local_size;
}

/* JAX takes the device of the task's number under Slurm, and elsewhere all devices of the host. */
char *hvd_rank_gpus_jax(const struct hvd_rank_numbers *numbers, const struct hvd_rank_facts *facts)
{
	const struct gpus gpus = gpus_of(facts);
	char *all;

	if (numbers->local_size < 2)
		return NULL;
	if (!too_few(numbers, &gpus))
		return facts->slurm_task ? NULL : hvd_xasprintf("%d", numbers->local_rank);
	if (!gpus.own)
		return hvd_xasprintf("%d", numbers->local_rank % gpus.seen);
	all = hvd_xstrdup("0");
	for (int i = 1; i < gpus.seen; i++)
		hvd_xappendf(&all, ",%d", i);
	return all;
}

#define FAILS                                                                                                          \
	"so a program that uses device LOCAL_RANK, as by torch.cuda.set_device(LOCAL_RANK), fails with \"invalid "     \
	"device ordinal\""

static void tell_too_few(const struct hvd_rank_numbers *numbers, const struct gpus *gpus, const struct hvd_log *log)
{
	const int ranks = numbers->local_size, seen = gpus->seen;

	if (gpus->mig) {
		hvd_warn(log, "a process can use one MIG instance, the first of its list, " FAILS);
		hvd_info(log, "give each rank an instance of its own (--gpus-per-task=1; without Slurm "
			      "CUDA_VISIBLE_DEVICES in "
			      "a script that starts the program), and use cuda:0 in the program");
	} else if (seen == 1) {
		hvd_warn(log, "each rank of this host sees one GPU, " FAILS);
		hvd_info(log, "give the ranks of a host all of its GPUs (--gpus-per-node in place of --gpus-per-task), "
			      "or use cuda:0 in the program");
	} else if (gpus->own) {
		hvd_warn(log, "each of the %d ranks of this host sees %d GPUs, " FAILS, ranks, seen);
		hvd_info(log,
			 "give the ranks of a host all of its GPUs (--gpus-per-node in place of --gpus-per-task or "
			 "--gpu-bind), or use cuda:0 in the program");
	} else {
		hvd_warn(log, "this host has %d ranks, which see %d GPUs, " FAILS " where LOCAL_RANK is %d or more",
			 ranks, seen, seen);
		hvd_info(log,
			 "start a rank for each GPU (--ntasks-per-node=%d; without Slurm --slots-per-host=%d) or "
			 "request "
			 "more GPUs; ranks that are to share GPUs use device LOCAL_RANK %% %d",
			 seen, seen, seen);
	}
}

void hvd_rank_gpus_tell(const struct hvd_rank_numbers *numbers, const struct hvd_rank_facts *facts,
			const struct hvd_log *log)
{
	const struct gpus gpus = gpus_of(facts);

	if (numbers->local_size > 1 && too_few(numbers, &gpus) && (gpus.listed || facts->command.torch))
		tell_too_few(numbers, &gpus, log);
	/* One process of JAX, or of a launcher, uses all GPUs. */
	if (numbers->local_size == 1 && gpus.listed && gpus.seen > 1 && facts->command.one_gpu)
		hvd_info(log,
			 "%d rank%s, one on each host, and %d GPUs on this one, of which a rank uses one: "
			 "--ntasks-per-node=%d (without Slurm --slots-per-host=%d) starts a rank for each GPU",
			 numbers->size, numbers->size == 1 ? "" : "s", gpus.seen, gpus.seen, gpus.seen);
}
