/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank gets of its plan: what user and site have set wins where it should, and values that only the rank's host
 * knows are found there. */
#include "lib/frameworks/command_facts.h"
#include "lib/frameworks/resolve.h"

#include "tests/unit/unit.h"

#include <sys/mman.h>

static struct hvd_strv out;
static char said[4096];

/* Resolve a plan of 4 local ranks on 2 hosts, with `more` ("NAME=VALUE", NULL at the end) in it. */
static void resolve(const struct hvd_rank_facts *facts, const char *const *more)
{
	static const char *const base[] = {"RANK=0",
					   "LOCAL_RANK=0",
					   "LOCAL_WORLD_SIZE=4",
					   "GROUP_WORLD_SIZE=2",
					   "MASTER_ADDR=192.0.2.1",
					   "MASTER_PORT=4711",
					   "TORCHELASTIC_USE_AGENT_STORE=1",
					   "OMP_NUM_THREADS?=",
					   "TORCH_NCCL_ASYNC_ERROR_HANDLING?=1",
					   NULL};
	struct hvd_log log = hvd_log_make("test", HVD_LOG_VERBOSE);
	struct hvd_strv plan = {0};
	ssize_t n;

	hvd_strv_add_all(&plan, (char *const *)base);
	for (; more && *more; more++) {
		size_t len = strcspn(*more, "=");
		char name[64] = "";

		assert_true(len < sizeof(name));
		memcpy(name, *more, len);
		hvd_env_set(&plan, name, *more + len + 1);
	}
	log.fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(log.fd >= 0);
	hvd_strv_free(&out);
	hvd_resolve(&plan, facts, &log, &out);
	n = pread(log.fd, said, sizeof(said) - 1, 0);
	assert_true(n >= 0);
	said[n] = '\0';
	close(log.fd);
	hvd_strv_free(&plan);
}

static void has(const char *name, const char *value)
{
	const char *is = hvd_env_get(&out, name);

	if (!value && is)
		fail_msg("%s is %s", name, is);
	else if (value && !is)
		fail_msg("%s is not set", name);
	else if (value)
		assert_string_equal(is, value);
}

static void says(const char *text)
{
	if (text ? !strstr(said, text) : *said != '\0')
		fail_msg("said \"%s\" and not \"%s\"", said, text ? text : "");
}

static void with(const char *a, const char *b, const char *c)
{
	char *envp[] = {(char *)a, (char *)b, (char *)c, NULL};
	struct hvd_rank_facts facts = {.envp = envp};

	resolve(&facts, NULL);
}

TEST(nothing_set)
{
	with("X=1", NULL, NULL);
	has("MASTER_ADDR", "192.0.2.1");
	has("MASTER_PORT", "4711");
	has("TORCHELASTIC_USE_AGENT_STORE", "1");
	has("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
	has("TORCH_NCCL_ASYNC_ERROR_HANDLING?", NULL);
	says(NULL);
}

/* The value depends on the PyTorch, and a user who knows it better may say so. */
TEST(the_value_of_the_agent_store)
{
	char *users[] = {(char *)"TORCHELASTIC_USE_AGENT_STORE=True", NULL};
	char *outer[] = {(char *)"TORCHELASTIC_USE_AGENT_STORE=True", (char *)"MASTER_ADDR=192.0.2.9",
			 (char *)"MASTER_PORT=1", NULL};
	struct hvd_rank_facts facts = {.command.torch = HVD_TORCH(2, 6)};

	resolve(&facts, NULL);
	has("TORCHELASTIC_USE_AGENT_STORE", "True");
	facts.command.torch = HVD_TORCH(2, 7);
	resolve(&facts, NULL);
	has("TORCHELASTIC_USE_AGENT_STORE", "1");
	facts.envp = users;
	resolve(&facts, NULL);
	has("TORCHELASTIC_USE_AGENT_STORE", "True");
	facts.envp = outer;
	resolve(&facts, NULL);
	has("TORCHELASTIC_USE_AGENT_STORE", "1");
	has("MASTER_ADDR", "192.0.2.1");
}

/* What the command hands on to another program that would take it for its own. */
TEST(variables_for_another)
{
	const char *const more[] = {"PET_NNODES?=2", "GLOO_SOCKET_IFNAME=lo", "NCCL_SOCKET_IFNAME==lo",
				    "HOROVOD_GLOO_IFACE=lo", NULL};
	const char *const network[] = {"GLOO_SOCKET_IFNAME=eth0", NULL};
	struct hvd_rank_facts facts = {0};

	resolve(&facts, more);
	has("PET_NNODES", "2");
	has("GLOO_SOCKET_IFNAME", "lo");
	facts.command.no_torchrun = facts.command.ray = true;
	resolve(&facts, more);
	has("PET_NNODES", NULL);
	has("GLOO_SOCKET_IFNAME", NULL);
	has("NCCL_SOCKET_IFNAME", NULL);
	has("HOROVOD_GLOO_IFACE", "lo");
	resolve(&facts, network);
	has("GLOO_SOCKET_IFNAME", "eth0");
}

TEST(the_users_store)
{
	char own[256] = "", addr[300], mine[300];

	assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
	snprintf(addr, sizeof(addr), "MASTER_ADDR=%s", own);
	with(addr, "MASTER_PORT=29500", "RANK=7");
	has("MASTER_ADDR", NULL);
	has("MASTER_PORT", NULL);
	has("TORCHELASTIC_USE_AGENT_STORE", NULL);
	has("RANK", "0"); /* what a rank is cannot be the user's */
	says("MASTER_PORT=29500 are set by the user");
	assert_null(strstr(said, "warning"));
	/* A name of the same host on another network. */
	snprintf(mine, sizeof(mine), "MASTER_ADDR=%s-ib.cluster", own);
	with(mine, "MASTER_PORT=29500", NULL);
	has("MASTER_ADDR", NULL);
	assert_null(strstr(said, "warning"));
}

TEST(a_store_of_an_outer_launch)
{
	with("MASTER_ADDR=192.0.2.9", "MASTER_PORT=29500", "TORCHELASTIC_USE_AGENT_STORE=True");
	has("MASTER_ADDR", "192.0.2.1");
	has("MASTER_PORT", "4711");
	says(NULL);
	with("MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "TORCHELASTIC_USE_AGENT_STORE=False");
	has("MASTER_ADDR", NULL);
}

TEST(stores_that_cannot_work)
{
	char *one_host[] = {(char *)"MASTER_ADDR=localhost", (char *)"MASTER_PORT=1", NULL};
	char *only_addr[] = {(char *)"MASTER_ADDR=192.0.2.9", NULL};
	const char *const one[] = {"GROUP_WORLD_SIZE=1", NULL};
	struct hvd_rank_facts torchruns = {.envp = only_addr};
	struct hvd_rank_facts facts = {.envp = one_host};

	with("MASTER_ADDR=192.0.2.9", NULL, NULL);
	has("MASTER_ADDR", NULL);
	says("MASTER_ADDR is set and MASTER_PORT is not");
	torchruns.command.torchrun = true;
	resolve(&torchruns, NULL);
	says(NULL);
	with("MASTER_PORT=29500", NULL, NULL);
	says("MASTER_PORT is set and MASTER_ADDR is not");
	/* An address of documentation, so of no host. */
	with("MASTER_ADDR=192.0.2.9", "MASTER_PORT=29500", NULL);
	says("is not an address of rank 0's host");
	with("MASTER_ADDR=another-host", "MASTER_PORT=29500", NULL);
	says("is not an address of rank 0's host");
	/* Each of the two hosts has a localhost. */
	with("MASTER_ADDR=localhost", "MASTER_PORT=29500", NULL);
	says("is not an address of rank 0's host");
	resolve(&facts, one);
	assert_null(strstr(said, "warning"));
}

TEST(the_users_word_one_by_one)
{
	static const char *const more[] = {"JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT=192.0.2.1:1", NULL};
	char *port[] = {(char *)"JAX_COORDINATOR_PORT=5", NULL};
	char *own[] = {(char *)"OMP_NUM_THREADS=6", (char *)"TORCH_NCCL_ASYNC_ERROR_HANDLING=0", NULL};
	struct hvd_rank_facts facts = {.envp = own, .cpus = 8};

	resolve(&facts, more);
	has("OMP_NUM_THREADS", NULL);
	has("TORCH_NCCL_ASYNC_ERROR_HANDLING", NULL);
	has("JAX_COORDINATOR_ADDRESS", "192.0.2.1:1");
	has("MASTER_ADDR", "192.0.2.1");
	facts.envp = port;
	resolve(&facts, more);
	has("JAX_COORDINATOR_ADDRESS", NULL);
}

static void threads(int cpus, int host_cpus, const char *ranks, const char *want)
{
	const char *const more[] = {ranks, NULL};
	struct hvd_rank_facts facts = {.cpus = cpus, .host_cpus = host_cpus};

	resolve(&facts, more);
	has("OMP_NUM_THREADS", want);
}

TEST(threads_from_the_binding)
{
	const char *const said_so[] = {"OMP_NUM_THREADS=3", NULL};
	struct hvd_rank_facts facts = {.cpus = 8, .host_cpus = 8};

	threads(2, 8, "LOCAL_WORLD_SIZE=4", "2"); /* CPUs of its own */
	threads(8, 8, "LOCAL_WORLD_SIZE=4", "2"); /* shares all of them */
	threads(4, 8, "LOCAL_WORLD_SIZE=4", "2"); /* two ranks share a socket */
	threads(1, 64, "LOCAL_WORLD_SIZE=4", "1");
	threads(2, 2, "LOCAL_WORLD_SIZE=4", "1");
	threads(0, 0, "LOCAL_WORLD_SIZE=4", "1");
	threads(8, 8, "LOCAL_WORLD_SIZE=1", NULL);
	/* A setting of the launch is not a value to be found here. */
	resolve(&facts, said_so);
	has("OMP_NUM_THREADS", "3");
}

static void devices(const char *gpus, bool slurm, const char *ranks, const char *want)
{
	const char *const more[] = {"JAX_LOCAL_DEVICE_IDS?=", "LOCAL_RANK=3", ranks, NULL};
	char *envp[] = {(char *)gpus, NULL};
	struct hvd_rank_facts facts = {.envp = envp, .slurm_task = slurm};

	resolve(&facts, more);
	has("JAX_LOCAL_DEVICE_IDS", want);
}

TEST(jax_devices)
{
	devices("CUDA_VISIBLE_DEVICES=2", true, "LOCAL_WORLD_SIZE=4", "0");
	says("invalid device ordinal");
	devices("ROCR_VISIBLE_DEVICES=2", false, "LOCAL_WORLD_SIZE=4", "0");
	devices("CUDA_VISIBLE_DEVICES=0,1,2,3", true, "LOCAL_WORLD_SIZE=4", NULL);
	says(NULL);
	devices("CUDA_VISIBLE_DEVICES=0,1,2,3", false, "LOCAL_WORLD_SIZE=4", "3");
	devices(NULL, false, "LOCAL_WORLD_SIZE=4", "3");
	devices("CUDA_VISIBLE_DEVICES=2", true, "LOCAL_WORLD_SIZE=1", NULL);
	says(NULL);
	/* Fewer GPUs than ranks, which share them: 3 modulo their number. */
	devices("CUDA_VISIBLE_DEVICES=4,7", true, "LOCAL_WORLD_SIZE=4", "1");
	says("this host has 4 ranks, which see 2 GPUs");
	says("where LOCAL_RANK is 2 or more");
	says("--ntasks-per-node=2");
	devices("CUDA_VISIBLE_DEVICES=4,7", false, "LOCAL_WORLD_SIZE=4", "1");
	/* A process can use one instance of MIG. */
	devices("CUDA_VISIBLE_DEVICES=MIG-0a,MIG-1b,MIG-2c,MIG-3d", true, "LOCAL_WORLD_SIZE=4", "0");
	says("a process can use one MIG instance");
	says("--gpus-per-task=1");
	devices("CUDA_VISIBLE_DEVICES=MIG-0a,MIG-1b", true, "LOCAL_WORLD_SIZE=1", NULL);
	says(NULL);
	devices("CUDA_VISIBLE_DEVICES=", true, "LOCAL_WORLD_SIZE=4", NULL);
	says(NULL);
}

/* --gpus-per-task=2, --gpu-bind=mask_gpu: each rank has GPUs of its own, all of which JAX may use. */
TEST(gpus_of_each_rank)
{
	const char *const more[] = {"JAX_LOCAL_DEVICE_IDS?=", "LOCAL_RANK=3", NULL};
	char *envp[] = {(char *)"CUDA_VISIBLE_DEVICES=6,7", (char *)"SLURM_GPUS_ON_NODE=8", NULL};
	struct hvd_rank_facts facts = {.envp = envp, .slurm_task = true};

	resolve(&facts, more);
	has("JAX_LOCAL_DEVICE_IDS", "0,1");
	says("each of the 4 ranks of this host sees 2 GPUs");
	says("--gpu-bind");
	/* No tasks of Slurm's: their list is the part of a node's GPUs that they share. */
	facts.slurm_task = false;
	resolve(&facts, more);
	has("JAX_LOCAL_DEVICE_IDS", "1");
	says("this host has 4 ranks, which see 2 GPUs");
}

/* One rank on a host of several GPUs is a mistake only where its program uses one GPU. */
TEST(gpus_that_no_rank_uses)
{
	const char *const more[] = {"LOCAL_WORLD_SIZE=1", "WORLD_SIZE=2", NULL};
	char *envp[] = {(char *)"CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", NULL};
	char *one[] = {(char *)"CUDA_VISIBLE_DEVICES=5", NULL},
	     *mig[] = {(char *)"CUDA_VISIBLE_DEVICES=MIG-0,MIG-1", NULL};
	struct hvd_rank_facts facts = {.envp = envp};

	resolve(&facts, more);
	says(NULL);
	facts.command.one_gpu = true;
	resolve(&facts, more);
	says("2 ranks, one on each host, and 8 GPUs on this one");
	says("--ntasks-per-node=8");
	facts.envp = one;
	resolve(&facts, more);
	says(NULL);
	facts.envp = mig;
	resolve(&facts, more);
	says(NULL);
}

static void run_id(bool slurm_task, const char *entry, const char *want)
{
	const char *const more[] = {"TORCHELASTIC_RUN_ID?=0123", NULL};
	char *envp[] = {(char *)entry, NULL};
	struct hvd_rank_facts facts = {.envp = envp, .slurm_task = slurm_task};

	resolve(&facts, more);
	has("TORCHELASTIC_RUN_ID", want);
}

TEST(name_services)
{
	const char *const more[] = {"RES_OPTIONS?=timeout:1 attempts:1", "PET_RDZV_CONF?=is_host=0", NULL};
	char *user[] = {(char *)"RES_OPTIONS=rotate", (char *)"PET_RDZV_CONF=is_host=1", NULL}, *none[] = {NULL};
	struct hvd_rank_facts facts = {.envp = none};

	resolve(&facts, more);
	has("RES_OPTIONS", NULL);
	has("PET_RDZV_CONF", NULL);
	says(NULL);
	facts.names.no_own_name = true;
	resolve(&facts, more);
	has("RES_OPTIONS", NULL);
	has("PET_RDZV_CONF", "is_host=0");
	facts.names.slow = true;
	resolve(&facts, more);
	has("RES_OPTIONS", "timeout:1 attempts:1");
	says("name servers have not answered");
	facts.envp = user;
	resolve(&facts, more);
	has("RES_OPTIONS", NULL);
	has("PET_RDZV_CONF", NULL);
}

/* Lightning is to take torchrun's variables where it would take other ones that are not the rank's. */
TEST(run_ids)
{
	const char *const elastic[] = {"TORCHELASTIC_RUN_ID=0123", NULL};
	struct hvd_rank_facts facts = {0};

	run_id(true, "SLURM_NTASKS=4", NULL);
	run_id(false, "SLURM_NTASKS=4", "0123");
	run_id(false, "JSM_NAMESPACE_RANK=1", "0123");
	run_id(false, NULL, NULL);
	resolve(&facts, elastic);
	has("TORCHELASTIC_RUN_ID", "0123");
}

TEST(torchrun_workers)
{
	const char *const more[] = {"PET_NPROC_PER_NODE?=gpu", NULL};
	char *none[] = {(char *)"CUDA_VISIBLE_DEVICES=", NULL}, *two[] = {(char *)"CUDA_VISIBLE_DEVICES=0,1", NULL};
	struct hvd_rank_facts facts = {.envp = none};

	resolve(&facts, more);
	has("PET_NPROC_PER_NODE", NULL);
	facts.envp = two;
	resolve(&facts, more);
	has("PET_NPROC_PER_NODE", "gpu");
}

static int teardown(void **state)
{
	hvd_strv_free(&out);
	return 0;
}

RUN_TESTS(.group_teardown = teardown)
