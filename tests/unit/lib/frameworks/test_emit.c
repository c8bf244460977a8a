/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks are told, framework by framework. */
#include "lib/frameworks/emit.h"
#include "tests/unit/unit.h"

static const struct hvd_rank_slot slot = {5, 8, 1, 2, 2, 4, 3, 5};

static struct hvd_emit rank5(enum hvd_store_mode store)
{
	struct hvd_emit in = {.frameworks = HVD_FW_TORCH,
			      .store = store,
			      .max_restarts = -1,
			      .slot = &slot,
			      .host_rank = 2,
			      .hosts = 4,
			      .run_id = "0123",
			      .hostname = "n3",
			      .iface = "ib0",
			      .ifaces = "ib0",
			      .store_port = 4711,
			      .rank0_ports = {[HVD_PORT_STORE] = 4712}};

	hvd_addr_parse("192.0.2.1", &in.store_addr);
	hvd_addr_parse("192.0.2.7", &in.rank0);
	return in;
}

static void has(const struct hvd_strv *env, const char *name, const char *value)
{
	const char *is = hvd_env_get(env, name);

	if (!value)
		assert_null(is);
	else if (!is)
		fail_msg("%s is not set", name);
	else
		assert_string_equal(is, value);
}

static void check_store(enum hvd_store_mode store, const char *addr, const char *port, const char *agent)
{
	struct hvd_emit in = rank5(store);
	struct hvd_strv env = {0};

	hvd_emit_all(&in, &env);
	has(&env, "MASTER_ADDR", addr);
	has(&env, "MASTER_PORT", port);
	has(&env, "TORCHELASTIC_USE_AGENT_STORE", agent);
	has(&env, "RANK", "5");
	hvd_strv_free(&env);
}

TEST(the_store_is_where_the_mode_says)
{
	check_store(HVD_STORE_AGENT, "192.0.2.1", "4711", "1");
	check_store(HVD_STORE_RANK0, "192.0.2.7", "4712", NULL);
	check_store(HVD_STORE_OFF, NULL, NULL, NULL);
}

TEST(ranks_and_sizes)
{
	static const char *const want[][2] = {
		{"RANK", "5"},
		{"WORLD_SIZE", "8"},
		{"LOCAL_RANK", "1"},
		{"LOCAL_WORLD_SIZE", "2"},
		{"GROUP_RANK", "2"},
		{"GROUP_WORLD_SIZE", "4"},
		{"NODE_RANK", "2"},
		{"ROLE_NAME", "default"},
		{"ROLE_RANK", "5"},
		{"ROLE_WORLD_SIZE", "8"},
		{"TORCHELASTIC_RESTART_COUNT", "0"},
		{"TORCHELASTIC_MAX_RESTARTS", "0"},
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING?", "1"},
		{"NCCL_SOCKET_IFNAME", "=ib0"},
		{"HOROVOD_RANK", NULL},
	};
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		has(&env, want[i][0], want[i][1]);
	hvd_strv_free(&env);
	in.restarts = 2;
	in.max_restarts = 3;
	hvd_emit_all(&in, &env);
	has(&env, "TORCHELASTIC_RESTART_COUNT", "2");
	has(&env, "TORCHELASTIC_MAX_RESTARTS", "3");
	hvd_strv_free(&env);
}

TEST(slurms_numbers_are_the_ranks_where_slurm_has_not_numbered_them)
{
	static const char *const want[][2] = {
		{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "8"}, {"SLURM_STEP_NUM_TASKS", "8"},
		{"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"}, {"SLURM_NNODES", "4"}, {"SLURM_STEP_NUM_NODES", "4"},
	};
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		has(&env, want[i][0], NULL);
	in.slurm = true;
	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		has(&env, want[i][0], want[i][1]);
	hvd_strv_free(&env);
}

/* What an outer launch has set is replaced. */
TEST(what_horovod_is_told)
{
	static const char *const want[] = {"HOROVOD_RANK=5",
					   "HOROVOD_SIZE=8",
					   "HOROVOD_LOCAL_RANK=1",
					   "HOROVOD_LOCAL_SIZE=2",
					   "HOROVOD_CROSS_RANK=2",
					   "HOROVOD_CROSS_SIZE=4",
					   "HOROVOD_HOSTNAME=n3",
					   "HOROVOD_CONTROLLER=gloo",
					   "HOROVOD_CPU_OPERATIONS=gloo",
					   "HOROVOD_GLOO_IFACE=ib0",
					   "NCCL_SOCKET_IFNAME==ib0",
					   "HOROVOD_GLOO_RENDEZVOUS_ADDR=fd00::1",
					   "GLOO_SOCKET_IFNAME=ib0",
					   "HOROVOD_GLOO_RENDEZVOUS_PORT=65535"};
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	in.frameworks = HVD_FW_HOROVOD;
	in.port = 65535;
	hvd_addr_parse("fd00::1", &in.rendezvous);
	hvd_env_set(&env, "HOROVOD_RANK", "99");
	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		int seen = 0;

		for (size_t e = 0; e < env.n; e++)
			seen += strcmp(env.v[e], want[i]) == 0;
		assert_int_equal(seen, 1);
	}
	hvd_strv_free(&env);
}

TEST(who_reads_them)
{
	static const unsigned readers[] = {HVD_FW_TORCH, HVD_FW_DEEPSPEED, HVD_FW_ACCELERATE, HVD_FW_LIGHTNING};
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		in.frameworks = readers[i];
		hvd_emit_all(&in, &env);
		has(&env, "LOCAL_RANK", "1");
		has(&env, "MASTER_PORT", "4711");
		hvd_strv_free(&env);
	}
	in.frameworks = HVD_FW_HOROVOD;
	hvd_emit_all(&in, &env);
	has(&env, "LOCAL_RANK", NULL);
	has(&env, "HOROVOD_LOCAL_RANK", "1");
	has(&env, "GLOO_SOCKET_IFNAME", "ib0");
	hvd_strv_free(&env);
	in.frameworks = HVD_FW_NONE;
	hvd_emit_all(&in, &env);
	has(&env, "HOROVOD_LOCAL_RANK", NULL);
	has(&env, "GLOO_SOCKET_IFNAME", "ib0");
	hvd_strv_free(&env);
}

/* torchrun's agents, one on each host. */
TEST(torchrun)
{
	static const struct hvd_rank_slot one_of_four = {2, 4, 0, 1, 2, 4, 2, 2};
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	in.frameworks = HVD_FW_TORCHRUN;
	hvd_emit_all(&in, &env);
	has(&env, "PET_RDZV_ENDPOINT?", NULL);
	in.slot = &one_of_four;
	hvd_addr_parse("192.0.2.5", &in.here);
	hvd_emit_all(&in, &env);
	has(&env, "PET_RDZV_BACKEND?", "c10d");
	has(&env, "PET_RDZV_ENDPOINT?", "192.0.2.1:4711");
	has(&env, "PET_RDZV_ID?", "0123");
	has(&env, "PET_NNODES?", "4");
	has(&env, "PET_LOCAL_ADDR?", "192.0.2.5");
	has(&env, "RANK", NULL);
	hvd_addr_parse("fd00::1", &in.store_addr);
	hvd_emit_all(&in, &env);
	has(&env, "PET_RDZV_ENDPOINT?", "[fd00::1]:4711");
	hvd_strv_free(&env);
	in.store = HVD_STORE_RANK0;
	hvd_emit_all(&in, &env);
	has(&env, "PET_RDZV_ENDPOINT?", NULL);
	hvd_strv_free(&env);
}

TEST(jax)
{
	struct hvd_emit in = rank5(HVD_STORE_OFF);
	struct hvd_strv env = {0};

	in.frameworks = HVD_FW_JAX;
	hvd_emit_all(&in, &env);
	has(&env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT", NULL);
	has(&env, "RANK", "5");
	has(&env, "TORCHELASTIC_RESTART_COUNT", NULL);
	in.rank0_ports[HVD_PORT_JAX] = 4713;
	hvd_emit_all(&in, &env);
	has(&env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT", "192.0.2.7:4713");
	hvd_addr_parse("fd00::7", &in.rank0);
	hvd_emit_all(&in, &env);
	has(&env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT", "[fd00::7]:4713");
	hvd_strv_free(&env);
}

/* All frameworks may use NCCL. */
TEST(nccl_serves_its_ras_at_a_port_of_the_launch)
{
	struct hvd_emit in = rank5(HVD_STORE_OFF);
	struct hvd_strv env = {0};
	char *const own[] = {(char *)"NCCL_RAS_ADDR=localhost:1", NULL}, *const none[] = {NULL};

	in.frameworks = 0;
	hvd_emit_all(&in, &env);
	has(&env, "NCCL_RAS_ADDR?", NULL);
	in.nccl_ras = 4714;
	hvd_emit_all(&in, &env);
	has(&env, "NCCL_RAS_ADDR?", "127.0.0.1:4714");
	assert_null(hvd_emit_name("NCCL_RAS_ADDR?", own));
	assert_text(hvd_emit_name("NCCL_RAS_ADDR?", none), "NCCL_RAS_ADDR");
	hvd_strv_free(&env);
}

TEST(tensorflow)
{
	struct hvd_emit in = rank5(HVD_STORE_OFF);
	struct hvd_strv env = {0};

	in.frameworks = HVD_FW_TENSORFLOW;
	in.tf_workers = "\"192.0.2.1:1\", \"[fd00::1]:2\"";
	hvd_emit_all(&in, &env);
	has(&env, "TF_CONFIG?",
	    "{\"cluster\": {\"worker\": [\"192.0.2.1:1\", \"[fd00::1]:2\"]}, "
	    "\"task\": {\"type\": \"worker\", \"index\": 5}}");
	has(&env, "TF_GRPC_REUSE_PORT?TF_CONFIG", "true");
	has(&env, "WORLD_SIZE", "8");
	hvd_strv_free(&env);
}

TEST(deepspeed_and_lightning)
{
	struct hvd_emit in = rank5(HVD_STORE_AGENT);
	struct hvd_strv env = {0};

	in.frameworks = HVD_FW_DEEPSPEED | HVD_FW_LIGHTNING;
	hvd_emit_all(&in, &env);
	has(&env, "LOCAL_SIZE", "2");
	has(&env, "TORCHELASTIC_RUN_ID?", "0123");
	has(&env, "TORCHELASTIC_RUN_ID", NULL);
	hvd_strv_free(&env);
	in.max_restarts = 0;
	hvd_emit_all(&in, &env);
	has(&env, "TORCHELASTIC_RUN_ID", "0123");
	hvd_strv_free(&env);
}

RUN_TESTS()
