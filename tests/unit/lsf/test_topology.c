/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/host/bind.h"
#include "lsf/topology.h"
#include "tests/unit/unit.h"

static struct hvd_alloc hosts_of(const char *list)
{
	struct hvd_alloc a;

	assert_int_equal(hvd_alloc_from_hosts(&a, list, 0, NULL), 0);
	return a;
}

TEST(answers_are_read_in_any_order)
{
	struct hvd_erf_host hosts[2] = {{.gpus = 6}, {.gpus = 6}};
	struct hvd_alloc a = hosts_of("n1,n2.site.org");

	assert_int_equal(hvd_topology_parse(hosts, &a,
					    "Warning: something\n"
					    "hvd-topology n2 cores=42 threads=4 sockets=2\r\n"
					    "hvd-topology other cores=1 threads=1 sockets=1\n"
					    "hvd-topology n1.site.org cores=8 threads=1 sockets=1",
					    NULL),
			 0);
	assert_int_equal(hosts[0].cores, 8);
	assert_int_equal(hosts[1].cores, 42);
	assert_int_equal(hosts[1].threads, 4);
	assert_int_equal(hosts[1].sockets, 2);
	assert_int_equal(hosts[1].gpus, 6);
	hvd_alloc_clear(&a);
}

TEST(answers_that_cannot_be_right_are_refused)
{
	static const char *const bad[] = {
		"hvd-topology n1 cores=0 threads=1 sockets=1",
		"hvd-topology n1 cores=-1 threads=1 sockets=1",
		"hvd-topology n1 cores=99999999 threads=1 sockets=1",
		"hvd-topology n1 cores=70000 threads=1 sockets=1",
		"hvd-topology n1 cores=1 threads=1",
		"hvd-topology n1 cores=1 threads=1 sockets=1 more",
		"hvd-topology  cores=1 threads=1 sockets=1",
		"hvd-topology ",
	};
	struct hvd_alloc a = hosts_of("n1");
	struct hvd_erf_host host = {0};
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_fails(hvd_topology_parse(&host, &a, bad[i], &err), err, "a compute node answered");
	}
	assert_int_equal(hvd_topology_parse(&host, &a, "n1 cores=1 threads=1 sockets=1\n", &err), -1);
	assert_string_equal(err.host, "n1");
	hvd_alloc_clear(&a);
}

TEST(this_host_answers_what_can_be_read)
{
	char *line = hvd_topology_line(NULL), name[256];
	struct hvd_erf_host host = {0};
	struct hvd_cores cores;
	struct hvd_alloc a;

	assert_non_null(line);
	assert_int_equal(sscanf(line, "hvd-topology %255s", name), 1);
	a = hosts_of(name);
	assert_int_equal(hvd_topology_parse(&host, &a, line, NULL), 0);
	assert_int_equal(hvd_bind_cores(&cores, NULL, NULL), 0);
	assert_int_equal(host.cores, cores.cores);
	hvd_alloc_clear(&a);
	free(line);
}

TEST(cores_are_counted)
{
	struct hvd_cores c;

	assert_int_equal(hvd_bind_cores(&c, "synthetic:pack:2 core:21 pu:4", NULL), 0);
	assert_int_equal(c.cores, 42);
	assert_int_equal(c.threads, 4);
	assert_int_equal(c.packages, 2);
}

RUN_TESTS()
