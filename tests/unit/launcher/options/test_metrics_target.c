/* SPDX-License-Identifier: Apache-2.0 */
/* The values of --metrics. */
#include "launcher/options/metrics_target.h"

#include "lib/net/addr.h"
#include "tests/unit/unit.h"

static void is_address(const char *value, const char *want, in_port_t want_port, bool loopback)
{
	struct hvd_metrics_target target;
	char text[HVD_ADDR_TEXT];
	struct hvd_addr addr;
	in_port_t port;

	assert_int_equal(hvd_metrics_target_parse(value, &target, NULL), 0);
	assert_null(target.file);
	assert_int_equal(hvd_addr_from_sockaddr((struct sockaddr *)&target.addr, &addr, &port), 0);
	assert_string_equal(hvd_addr_text(&addr, text), want);
	assert_int_equal(port, want_port);
	assert_int_equal(target.loopback, loopback);
}

TEST(addresses_and_ports)
{
	is_address("9400", "127.0.0.1", 9400, true);
	is_address("0", "127.0.0.1", 0, true);
	is_address("localhost:9400", "127.0.0.1", 9400, true);
	is_address("127.1.2.3:80", "127.1.2.3", 80, true);
	is_address("10.0.0.1:65535", "10.0.0.1", 65535, false);
	is_address("0.0.0.0:9400", "0.0.0.0", 9400, false);
	is_address("[::1]:9400", "::1", 9400, true);
	is_address("[::]:9400", "::", 9400, false);
	is_address("[fd00::1]:9400", "fd00::1", 9400, false);
	is_address("[::ffff:10.0.0.1]:9400", "10.0.0.1", 9400, false);
}

TEST(files)
{
	struct hvd_metrics_target target;

	assert_int_equal(hvd_metrics_target_parse("file:/var/x:1/hvd.prom", &target, NULL), 0);
	assert_string_equal(target.file, "/var/x:1/hvd.prom");
	assert_int_equal(hvd_metrics_target_parse("file:9400", &target, NULL), 0);
	assert_string_equal(target.file, "9400");
}

TEST(other_values_are_refused)
{
	static const char *const bad[] = {"",
					  ":",
					  ":9400",
					  "65536",
					  "-1",
					  "94 00",
					  "1.2.3.4",
					  "1.2.3.4:",
					  "1.2.3:9400",
					  "host:9400",
					  "::1:9400",
					  "[::1]9400",
					  "[]:9400",
					  "[1:9400",
					  "[::1:9400",
					  "file:",
					  "file:/a/",
					  "9400/metrics",
					  "0x10",
					  "1.2.3.4:9400:9400",
					  "http://127.0.0.1:9400/",
					  ("[::1%aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
					   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]:9400")};
	struct hvd_metrics_target target;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&err, 0, sizeof(err));
		if (hvd_metrics_target_parse(bad[i], &target, &err) == 0)
			fail_msg("'%s' is accepted", bad[i]);
		assert_int_equal(err.code, HVD_E_USAGE);
		assert_in(err.msg, "is neither [ADDRESS:]PORT nor file:PATH");
	}
}

RUN_TESTS()
