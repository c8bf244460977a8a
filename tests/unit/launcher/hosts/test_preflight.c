/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts --preflight finds bad, and what of a host's findings passes over the network. */
#include "launcher/hosts/preflight.h"
#include "lib/base/xalloc.h"

#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#define HOSTS 5
#define GIB   (INT64_C(1) << 30)

/* Hosts that have reported, on which nothing is wrong. */
static void good(struct hvd_host_table *table)
{
	hvd_host_table_init(table, HOSTS, HOSTS);
	for (uint32_t h = 0; h < HOSTS; h++) {
		hvd_host_table_enter(table, h, HVD_STAGE_REPORTED);
		table->hosts[h].check = (struct hvd_host_check){
			.known = true, .tmp = GIB, .shm = GIB, .memlock = INT64_MAX, .nofile = 1024, .gpus = 4};
		table->hosts[h].mbps = 9000 + h * 100;
		table->hosts[h].rtt_us = 50 + h;
	}
}

/* Host 2 is bad because of `why`, and no other host is. */
static void only_host_2(struct hvd_host_table *table, const char *why)
{
	for (uint32_t h = 0; h < HOSTS; h++) {
		const char *hint = NULL;
		char *bad = hvd_preflight_bad(table, h, &hint);

		if (h == 2 && why) {
			assert_non_null(bad);
			assert_string_equal(bad, why);
			assert_non_null(hint);
		} else {
			assert_null(bad);
		}
		free(bad);
	}
	hvd_host_table_clear(table);
}

TEST(equal_hosts_are_good)
{
	struct hvd_host_table table;

	good(&table);
	only_host_2(&table, NULL);
	/* What is not known is not held against a host; nor is it that all of them are the same. */
	good(&table);
	for (uint32_t h = 0; h < HOSTS; h++) {
		table.hosts[h].check = (struct hvd_host_check){
			.known = true, .tmp = -1, .shm = -1, .memlock = 65536, .nofile = -1, .gpus = -1};
		table.hosts[h].mbps = 0;
		table.hosts[h].rtt_us = 0;
	}
	only_host_2(&table, NULL);
}

/* The host has registered, with a wall clock that was ahead. */
static void registered(struct hvd_clock *clock, int64_t ahead_ms)
{
	hvd_clock_registered(clock, test_clock, hvd_wall_at(test_clock) + ahead_ms * INT64_C(1000000));
}

TEST(hosts_that_lack_something)
{
	struct hvd_host_table table;

	good(&table);
	table.hosts[2].check.shm = 10 << 20;
	only_host_2(&table, "10 MiB are free in /dev/shm, and 64 MiB are needed");
	good(&table);
	table.hosts[2].check.tmp = 5 << 20;
	only_host_2(&table, "5.0 MiB are free in /tmp, and 100 MiB are needed");
	good(&table);
	table.hosts[2].check.hook = hvd_xstrdup("no licence");
	only_host_2(&table, "the site's program reports: no licence");
	good(&table);
	table.hosts[2].check.held = hvd_xstrdup("GPU 0 has 9000 MiB in use, and had 10 MiB before the ranks");
	only_host_2(&table, "GPU 0 has 9000 MiB in use, and had 10 MiB before the ranks");
	good(&table);
	table.hosts[2].check.failed = hvd_xstrdup("the checks of the host failed or took too long");
	only_host_2(&table, "the checks of the host failed or took too long");
	good(&table);
	registered(&table.hosts[2].clock, 2500);
	only_host_2(&table, "its clock is 2.5 s ahead of the launcher's");
	good(&table);
	registered(&table.hosts[2].clock, 900);
	only_host_2(&table, NULL);
	good(&table);
	registered(&table.hosts[2].clock, -9000);
	hvd_clock_went(&table.hosts[2].clock, test_clock, test_clock);
	only_host_2(&table, "its clock is 9.0 s behind the launcher's");
}

TEST(hosts_that_are_behind_the_others)
{
	struct hvd_host_table table;

	good(&table);
	table.hosts[2].check.gpus = 3;
	only_host_2(&table, "it has 3 GPUs, the others have 4");
	good(&table);
	table.hosts[2].check.gpus = -1;
	only_host_2(&table, "it has 0 GPUs, the others have 4");
	good(&table);
	table.hosts[2].check.gpu = hvd_xstrdup("GPU 1 has memory pages pending retirement");
	only_host_2(&table, "GPU 1 has memory pages pending retirement");
	good(&table);
	table.hosts[2].check.memlock = 65536;
	only_host_2(&table, "64 KiB of memory may be locked there, but more on the others");
	good(&table);
	table.hosts[2].check.nofile = 256;
	only_host_2(&table, "a process may open 256 files there, but 1024 on the others");
	good(&table);
	table.hosts[2].mbps = 95;
	only_host_2(&table, "95 Mbit/s to its neighbours, median 9.1 Gbit/s");
	good(&table);
	table.hosts[2].mbps = 4700;
	only_host_2(&table, NULL);
	good(&table);
	table.hosts[2].rtt_us = 40000;
	only_host_2(&table, "packets take 40000 us to its neighbours and back, median 53 us");
	good(&table);
	table.hosts[2].rtt_us = 900; /* more than the others by less than counts */
	only_host_2(&table, NULL);
}

/* Hosts that were left out do not count. */
TEST(only_hosts_that_are_in_are_compared)
{
	struct hvd_host_table table;
	char *bad;

	good(&table);
	for (uint32_t h = 0; h < 3; h++) {
		table.hosts[h].check.gpus = 8;
		hvd_host_table_enter(&table, h, HVD_STAGE_AWAY);
	}
	bad = hvd_preflight_bad(&table, 3, NULL);
	assert_null(bad);
	hvd_host_table_clear(&table);
}

/* A host is compared with what it was itself. */
TEST(hosts_that_have_become_worse)
{
	static const struct {
		int had, has;
		const char *gpu, *hook, *want;
	} rows[] = {
		{4, 4, NULL, NULL, NULL},
		{4, 5, NULL, NULL, NULL},
		{-1, -1, NULL, NULL, NULL},
		{4, 3, NULL, NULL, "it has 3 GPUs, and had 4 before"},
		{4, -1, NULL, NULL, "it has 0 GPUs, and had 4 before"},
		{4, 4, "GPU 1 has memory pages pending retirement", NULL, "GPU 1 has memory pages pending retirement"},
		{4, 3, NULL, "no licence", "the site's program reports: no licence"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct hvd_host_check first = {.known = true, .gpus = rows[i].had};
		const struct hvd_host_entry host = {.check = {.known = true,
							      .tmp = GIB,
							      .shm = GIB,
							      .gpus = rows[i].has,
							      .gpu = (char *)rows[i].gpu,
							      .hook = (char *)rows[i].hook}};
		const char *hint = NULL;
		char *bad = hvd_preflight_worse(&host, &first, &hint);

		if (rows[i].want)
			assert_string_equal(bad, rows[i].want);
		else
			assert_null(bad);
		assert_non_null(hint);
		free(bad);
	}
}

TEST(findings_over_the_network)
{
	struct hvd_host_check check = {.known = true,
				       .tmp = 1,
				       .shm = 0,
				       .memlock = INT64_MAX,
				       .nofile = -1,
				       .gpus = 2,
				       .mib = json_pack("[ii]", 10, 81000),
				       .held = (char *)"GPU 1 has 81000 MiB in use",
				       .hook = (char *)"a \033[31mred\nline",
				       .failed = (char *)"it hangs"};
	struct hvd_host_check read;
	json_t *object = hvd_host_check_json(&check);

	hvd_host_check_read(object, &read);
	json_decref(object);
	assert_true(read.known && read.tmp == 1 && read.shm == 0 && read.memlock == INT64_MAX && read.nofile == -1);
	assert_int_equal(read.gpus, 2);
	assert_null(read.gpu);
	assert_true(json_equal(read.mib, check.mib));
	json_decref(check.mib);
	assert_string_equal(read.held, "GPU 1 has 81000 MiB in use");
	assert_string_equal(read.hook, "a \\x1b[31mred\nline");
	assert_string_equal(read.failed, "it hangs");
	hvd_host_check_clear(&read);
}

TEST(findings_that_are_malformed)
{
	static const char *const texts[] = {"{}",
					    "{\"tmp\":-1,\"gpus\":1e9,\"hook\":7,\"gpu\":[]}",
					    "{\"tmp\":\"1\",\"shm\":null,\"gpus\":99999999999}",
					    "{\"mib\":[1,-1],\"held\":1}",
					    "{\"mib\":[1,\"2\"]}",
					    "{\"mib\":{\"0\":1}}"};
	struct hvd_host_check read;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *object = json_loads(texts[i], 0, NULL);

		assert_non_null(object);
		hvd_host_check_read(object, &read);
		json_decref(object);
		assert_true(read.known && read.tmp == -1 && read.shm == -1 && read.gpus == -1);
		assert_null(read.hook);
		assert_null(read.gpu);
		assert_null(read.mib);
		assert_null(read.held);
		hvd_host_check_clear(&read);
	}
	hvd_host_check_read(NULL, &read);
	assert_false(read.known);
	hvd_host_check_clear(&read);
}

RUN_TESTS()
