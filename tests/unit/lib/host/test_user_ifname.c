/* SPDX-License-Identifier: Apache-2.0 */
/* What user and site have set, and what it selects. */
#include "lib/base/strv.h"
#include "lib/frameworks/emit.h"
#include "lib/host/user_ifname.h"

#include "tests/unit/unit.h"

TEST(where_it_is_set)
{
	char dir[] = "/tmp/hvd-test-ifname-XXXXXX", home[64], site[64], own[64];
	char *envp[] = {home, NULL, NULL, NULL};
	struct hvd_user_ifname set;

	assert_non_null(mkdtemp(dir));
	make_file(dir, "/.nccl.conf", "# NCCL_SOCKET_IFNAME=no\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=ib0\n");
	make_file(dir, "/site", "NCCL_SOCKET_IFNAME=^docker\nNCCL_IB_HCA=\n");
	make_file(dir, "/own", "NCCL_SOCKET_IFNAME=own0");
	snprintf(home, sizeof(home), "HOME=%s", dir);
	snprintf(site, sizeof(site), "%s/site", dir);
	snprintf(own, sizeof(own), "NCCL_CONF_FILE=%s/own", dir);

	assert_true(hvd_user_ifname_find("NCCL_SOCKET_IFNAME", envp, site, &set));
	assert_string_equal(set.value, "ib0");
	assert_in(set.source, "/.nccl.conf");
	hvd_user_ifname_clear(&set);
	envp[1] = own;
	assert_true(hvd_user_ifname_find("NCCL_SOCKET_IFNAME", envp, site, &set));
	assert_string_equal(set.value, "own0");
	hvd_user_ifname_clear(&set);
	envp[2] = (char *)"NCCL_SOCKET_IFNAME=eth1";
	assert_true(hvd_user_ifname_find("NCCL_SOCKET_IFNAME", envp, site, &set));
	assert_string_equal(set.value, "eth1");
	assert_string_equal(set.source, "the environment");
	hvd_user_ifname_clear(&set);
	envp[0] = (char *)"HOME=/nonexistent";
	envp[1] = NULL;
	assert_true(hvd_user_ifname_find("NCCL_SOCKET_IFNAME", envp, site, &set));
	assert_string_equal(set.value, "^docker");
	hvd_user_ifname_clear(&set);
	/* Empty is not set, files are NCCL's only. */
	assert_false(hvd_user_ifname_find("NCCL_IB_HCA", envp, site, NULL));
	assert_false(hvd_user_ifname_find("GLOO_SOCKET_IFNAME", envp, site, NULL));
	envp[0] = (char *)"GLOO_SOCKET_IFNAME=";
	assert_false(hvd_user_ifname_find("GLOO_SOCKET_IFNAME", envp, site, NULL));
	assert_false(hvd_user_ifname_find("NCCL_SOCKET_IFNAME", NULL, "/nonexistent", NULL));
	snprintf(home, sizeof(home), "rm -r %s", dir);
	assert_int_equal(system(home), 0);
}

TEST(what_it_selects)
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

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (hvd_user_ifname_selects(cases[i].value, cases[i].nccl ? HVD_NCCL_IFNAME : HVD_GLOO_IFNAME,
					    cases[i].iface) != cases[i].selects)
			fail_msg("%s: %s", cases[i].value, cases[i].iface);
}

TEST(names_that_no_interface_has)
{
	char *missing = hvd_user_ifname_missing("nosuch0,lo,,nosuch1,l");

	assert_string_equal(missing, "nosuch0, nosuch1, l");
	free(missing);
	assert_null(hvd_user_ifname_missing("lo"));
	assert_null(hvd_user_ifname_missing(""));
}

/* Ours are set unless they are there. */
TEST(what_is_there_wins)
{
	char *theirs[] = {(char *)"NCCL_SOCKET_IFNAME=x", (char *)"HOROVOD_RANK=7", (char *)"HOROVOD_GLOO_IFACE=y",
			  NULL};

	assert_null(hvd_emit_name("NCCL_SOCKET_IFNAME", theirs));
	/* Of an outer launch. */
	assert_text(hvd_emit_name("HOROVOD_RANK", theirs), "HOROVOD_RANK");
	assert_text(hvd_emit_name("HOROVOD_GLOO_IFACE", theirs), "HOROVOD_GLOO_IFACE");
	assert_text(hvd_emit_name("GLOO_SOCKET_IFNAME", theirs), "GLOO_SOCKET_IFNAME");
}

RUN_TESTS()
