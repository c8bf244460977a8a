/* SPDX-License-Identifier: Apache-2.0 */
/* What user and site have set, and what it selects. */
#include "lib/base/strv.h"
#include "lib/frameworks/emit.h"
#include "lib/frameworks/given.h"

#include "unit.h"

#include <unistd.h>

static void where_it_is_set(void **state)
{
	char dir[] = "/tmp/hvd-test-given-XXXXXX", home[64], site[64], own[64];
	char *envp[] = {home, NULL, NULL, NULL}, *value, *where;

	(void)state;
	assert_non_null(mkdtemp(dir));
	make_file(dir, "/.nccl.conf", "# NCCL_SOCKET_IFNAME=no\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=ib0\n");
	make_file(dir, "/site", "NCCL_SOCKET_IFNAME=^docker\nNCCL_IB_HCA=\n");
	make_file(dir, "/own", "NCCL_SOCKET_IFNAME=own0");
	snprintf(home, sizeof(home), "HOME=%s", dir);
	snprintf(site, sizeof(site), "%s/site", dir);
	snprintf(own, sizeof(own), "NCCL_CONF_FILE=%s/own", dir);

	assert_true(hvd_given("NCCL_SOCKET_IFNAME", envp, site, &value, &where));
	assert_string_equal(value, "ib0");
	assert_in(where, "/.nccl.conf");
	free(value);
	free(where);
	envp[1] = own;
	assert_true(hvd_given("NCCL_SOCKET_IFNAME", envp, site, &value, NULL));
	assert_string_equal(value, "own0");
	free(value);
	envp[2] = (char *)"NCCL_SOCKET_IFNAME=eth1";
	assert_true(hvd_given("NCCL_SOCKET_IFNAME", envp, site, &value, &where));
	assert_string_equal(value, "eth1");
	assert_string_equal(where, "the environment");
	free(value);
	free(where);
	envp[0] = (char *)"HOME=/nonexistent";
	envp[1] = NULL;
	assert_true(hvd_given("NCCL_SOCKET_IFNAME", envp, site, &value, NULL));
	assert_string_equal(value, "^docker");
	free(value);
	/* Empty is not set, files are NCCL's only. */
	assert_false(hvd_given("NCCL_IB_HCA", envp, site, NULL, NULL));
	assert_false(hvd_given("GLOO_SOCKET_IFNAME", envp, site, NULL, NULL));
	envp[0] = (char *)"GLOO_SOCKET_IFNAME=";
	assert_false(hvd_given("GLOO_SOCKET_IFNAME", envp, site, NULL, NULL));
	assert_false(hvd_given("NCCL_SOCKET_IFNAME", NULL, "/nonexistent", NULL, NULL));
	snprintf(home, sizeof(home), "rm -r %s", dir);
	assert_int_equal(system(home), 0);
}

static void what_it_selects(void **state)
{
	static const struct {
		const char *value;
		bool nccl;
		const char *iface;
		bool selects;
	} cases[] = {
		{"ib0", true, "ib0", true},         {"ib0", true, "ib01", true},
		{"=ib0", true, "ib01", false},      {"=ib0", true, "ib0", true},
		{"eth,ib0", true, "ib0", true},     {"eth,ib0", true, "docker0", false},
		{"^docker,lo", true, "eth0", true}, {"^docker,lo", true, "lo", false},
		{"^=eth0", true, "eth01", true},    {"^=eth0", true, "eth0", false},
		{"=ib0:4000", true, "ib0", true},   {"", true, "ib0", false},
		{"ib0", false, "ib0", true},        {"ib0", false, "ib01", false},
		{"eth0,ib0", false, "ib0", true},   {"=ib0", false, "ib0", false},
		{"ib", false, "ib0", false},        {",ib1", true, "eth0", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (hvd_given_selects(cases[i].value, cases[i].nccl, cases[i].iface) != cases[i].selects)
			fail_msg("%s: %s", cases[i].value, cases[i].iface);
}

/* Ours are set unless they are there. */
static void what_is_there_wins(void **state)
{
	char *theirs[] = {(char *)"NCCL_SOCKET_IFNAME=x", (char *)"HOROVOD_RANK=7", (char *)"HOROVOD_GLOO_IFACE=y",
			  NULL};
	char *name;

	(void)state;
	assert_null(hvd_emit_name("NCCL_SOCKET_IFNAME", theirs));
	/* Of an outer launch. */
	name = hvd_emit_name("HOROVOD_RANK", theirs);
	assert_string_equal(name, "HOROVOD_RANK");
	free(name);
	name = hvd_emit_name("HOROVOD_GLOO_IFACE", theirs);
	assert_string_equal(name, "HOROVOD_GLOO_IFACE");
	free(name);
	name = hvd_emit_name("GLOO_SOCKET_IFNAME", theirs);
	assert_string_equal(name, "GLOO_SOCKET_IFNAME");
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_it_is_set),
		cmocka_unit_test(what_it_selects),
		cmocka_unit_test(what_is_there_wins),
	};

	return cmocka_run_group_tests_name("given", tests, NULL, NULL);
}
