/* SPDX-License-Identifier: Apache-2.0 */
/* The list of names is what the emitters set: a name that one side lacks is a failure. */
#include "lib/frameworks/emit.h"
#include "lib/frameworks/emit_roles.h"
#include "lib/frameworks/emitted.h"

#include "tests/unit/unit.h"

static void emit(struct hvd_strv *env, bool mpi)
{
	static const struct hvd_rank_slot slot = {.size = 1};
	/* No values of its hosts: those variables have its name in theirs. */
	static char ports[] = "1";
	static const struct hvd_emit_role role = {.name = "a", .ports = ports, .common_ports = true};
	struct hvd_emit in = {.frameworks = ~0U,
			      .mpi = mpi,
			      .slurm = true,
			      .max_restarts = -1,
			      .slot = &slot,
			      .run_id = "1",
			      .tf_workers = "\"a:1\"",
			      .hosts = 1,
			      .hostname = "n1",
			      .iface = "IFACE",
			      .ifaces = "IFACE,ib0",
			      .port = 1,
			      .store_port = 1,
			      .nccl_ras = 1,
			      .rank0_ports = {1, 1}};

	hvd_addr_parse("192.0.2.1", &in.rendezvous);
	in.store_addr = in.rendezvous;
	hvd_emit_all(&in, env);
	hvd_emit_roles(&(struct hvd_emit_roles){&role, 1, 0, 0}, env);
	hvd_emit_job_store(1, env);
}

static const struct hvd_emitted *find(const char *name)
{
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	return NULL;
}

/* Each name that is set is in the list, and says rightly whether it holds interfaces. */
static void check_listed(bool mpi)
{
	struct hvd_strv env = {0};

	emit(&env, mpi);
	for (size_t i = 0; i < env.n; i++) {
		char *value = strchr(env.v[i], '='), *name;
		bool asks;
		const struct hvd_emitted *e;

		if (strncmp(env.v[i], "HVD_ROLE_A_", 11) == 0)
			continue;
		*value++ = '\0';
		asks = strchr(env.v[i], '?');
		name = hvd_emit_name(env.v[i], NULL);
		e = find(name);
		if (!e)
			fail_msg("%s is not in lib/frameworks/emitted.c", name);
		else if (e->iface != (strstr(value, "IFACE") != NULL) || e->keeps != asks)
			fail_msg("lib/frameworks/emitted.c is wrong about %s", name);
		free(name);
	}
	hvd_strv_free(&env);
}

/* What the plugin hands to hvd-agent. */
TEST(test_what_is_read)
{
	assert_true(hvd_emitted_reads("MASTER_ADDR=n1"));
	assert_true(hvd_emitted_reads("MASTER_PORT="));
	assert_true(hvd_emitted_reads("TORCHELASTIC_USE_AGENT_STORE=True"));
	assert_true(hvd_emitted_reads("CUDA_VISIBLE_DEVICES=0"));
	assert_false(hvd_emitted_reads("MASTER_ADDRESS=n1"));
	assert_false(hvd_emitted_reads("MASTER=n1"));
	assert_false(hvd_emitted_reads("CUDA_VISIBLE_DEVICES_ALL=0"));
	assert_false(hvd_emitted_reads("LD_PRELOAD=x"));
	assert_false(hvd_emitted_reads(""));
}

TEST(test_every_name_is_listed)
{
	check_listed(false);
	check_listed(true);
}

static bool emitted(const char *name, bool mpi)
{
	struct hvd_strv env = {0};
	bool found = false;

	emit(&env, mpi);
	for (size_t i = 0; i < env.n; i++)
		found |= strncmp(env.v[i], name, strlen(name)) == 0 && strchr("=?", env.v[i][strlen(name)]);
	hvd_strv_free(&env);
	return found;
}

TEST(test_nothing_else_is_listed)
{
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (!emitted(e->name, false) && !emitted(e->name, true))
			fail_msg("lib/frameworks/emitted.c has %s, which nothing sets", e->name);
}

TEST(test_interfaces)
{
	assert_true(hvd_emitted_flags("NCCL_SOCKET_IFNAME")->iface);
	assert_false(hvd_emitted_flags("HOROVOD_RANK")->iface);
	assert_false(hvd_emitted_flags("NCCL_SOCKET_IFNAMES")->iface);
}

RUN_TESTS()
