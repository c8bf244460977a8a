/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/options/options.h"
#include "lib/base/deadline.h"
#include "lib/net/addr.h"
#include "lib/protocol/agent_settings.h"
#include "lib/protocol/boot.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>

static struct hvd_addr A(const char *text) {
	struct hvd_addr addr;

	assert_int_equal(hvd_addr_parse(text, &addr), 0);
	return addr;
}

TEST(texts)
{
	static const struct {
		const char *in, *out;
	} good[] = {
		{"10.0.0.1", "10.0.0.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"::", "::"},
		{"::1", "::1"},
		{"FD00:0:0::1", "fd00::1"},
		{"2001:db8::", "2001:db8::"},
		{"fe80::1", "fe80::1"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
	};
	static const char *const bad[] = {"",           "localhost", "10.0.0",      "10.0.0.256",
					  "10.0.0.1 ",  " 10.0.0.1", "10.0.0.1:80", "[::1]",
					  "fe80::1%lo", "1.2.3.4/8", ":::",         "0x7f.1"};
	char text[HVD_ADDR_TEXT];
	struct hvd_addr addr, none = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		addr = A(good[i].in);
		assert_string_equal(hvd_addr_text(&addr, text), good[i].out);
		assert_int_equal(addr.family, strchr(good[i].out, ':') ? AF_INET6 : AF_INET);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_addr_parse(bad[i], &addr), -1);
	assert_string_equal(hvd_addr_text(&none, text), "(no address)");
}

TEST(comparing)
{
	struct hvd_addr a = A("10.0.0.1"), b = A("10.0.0.2"), c = A("fd00::1"), mapped = A("::ffff:10.0.0.1"),
			none = {0};

	assert_true(hvd_addr_equal(&a, &a));
	assert_false(hvd_addr_equal(&a, &b));
	assert_false(hvd_addr_equal(&a, &c));
	assert_true(hvd_addr_equal(&c, &c));
	assert_true(hvd_addr_equal(&a, &mapped)); /* however it came */
	assert_false(hvd_addr_equal(&none, &none));
}

TEST(kinds)
{
	static const struct {
		const char *text;
		bool loopback, link_local;
	} rows[] = {
		{"127.0.0.1", true, false},   {"127.255.0.9", true, false},  {"128.0.0.1", false, false},
		{"169.254.3.4", false, true}, {"169.253.3.4", false, false}, {"::1", true, false},
		{"fe80::1", false, true},     {"febf::1", false, true},      {"fec0::1", false, false},
		{"::2", false, false},        {"fd00::1", false, false},     {"::ffff:127.0.0.1", true, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hvd_addr addr = A(rows[i].text);

		assert_int_equal(hvd_addr_loopback(&addr), rows[i].loopback);
		assert_int_equal(hvd_addr_link_local(&addr), rows[i].link_local);
	}
}

TEST(sockaddrs)
{
	static const char *const texts[] = {"10.1.2.3", "fd00::5"};
	struct sockaddr_storage ss;
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(99)};
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct hvd_addr addr, back;
	in_port_t port;

	for (size_t i = 0; i < 2; i++) {
		addr = A(texts[i]);
		assert_int_equal(hvd_addr_to_sockaddr(&addr, 4711, &ss),
				 i ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		assert_int_equal(hvd_addr_from_sockaddr((struct sockaddr *)&ss, &back, &port), 0);
		assert_true(hvd_addr_equal(&addr, &back));
		assert_int_equal(port, 4711);
		assert_int_equal(hvd_addr_from_sockaddr((struct sockaddr *)&ss, &back, NULL), 0);
	}
	inet_pton(AF_INET6, "::ffff:10.9.8.7", &mapped.sin6_addr);
	assert_int_equal(hvd_addr_from_sockaddr((struct sockaddr *)&mapped, &back, &port), 0);
	addr = A("10.9.8.7");
	assert_true(hvd_addr_equal(&addr, &back));
	assert_int_equal(port, 99);
	assert_int_equal(hvd_addr_from_sockaddr(&other, &back, NULL), -1);
}

TEST(ends_of_a_socket)
{
	struct hvd_addr lo = A("127.0.0.1"), addr;
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&lo, 0, &ss), got = sizeof(ss);
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(hvd_addr_of_peer(client, &addr), -1);
	assert_int_equal(hvd_addr_of_self(-1, &addr), -1);
	assert_int_equal(bind(server, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&ss, &got), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&ss, got), 0);
	assert_int_equal(hvd_addr_of_peer(client, &addr), 0);
	assert_true(hvd_addr_equal(&addr, &lo));
	assert_int_equal(hvd_addr_of_self(client, &addr), 0);
	assert_true(hvd_addr_equal(&addr, &lo));
	close(client);
	close(server);
}

/* ---- boot ---- */

static struct hvd_boot boot_of(void)
{
	struct hvd_boot boot = {.session = "0123456789abcdef0123456789abcdef",
				.port = 4242,
				.timeout = 12.5,
				.id = "file:/run/key, with=odd name",
				.verbose = 2};

	boot.addrs[boot.n_addrs++] = A("10.0.0.1");
	boot.addrs[boot.n_addrs++] = A("fd00::1");
	return boot;
}

TEST(boot_round_trip)
{
	struct hvd_boot boot = boot_of(), back;
	char text[HVD_BOOT_MAX];

	for (; boot.n_addrs <= HVD_BOOT_MAX_ADDRS; boot.addrs[boot.n_addrs++ % HVD_BOOT_MAX_ADDRS] = A("fd00::2")) {
		assert_int_equal(hvd_boot_format(&boot, text, NULL), 0);
		assert_int_equal(hvd_boot_parse(text, &back, NULL), 0);
		assert_string_equal(back.session, boot.session);
		assert_string_equal(back.id, boot.id);
		assert_int_equal(back.port, boot.port);
		assert_int_equal(back.port_lo, boot.port_lo);
		assert_int_equal(back.port_hi, boot.port_hi);
		boot.port_lo = 20000; /* in the next round */
		boot.port_hi = 65535;
		assert_int_equal(back.ports, boot.ports);
		assert_int_equal(back.rank_ports, boot.rank_ports);
		assert_int_equal(back.store_ports, boot.store_ports);
		boot.store_ports = boot.ports;
		boot.ports = boot.ports ? HVD_BOOT_MAX_PORTS : 2;
		boot.rank_ports = 1;
		assert_int_equal(back.role_ports, boot.role_ports);
		boot.role_ports = HVD_MAX_ROLE_PORTS;
		assert_int_equal(back.relays, boot.relays);
		boot.relays = boot.relays ? HVD_BOOT_MAX_RELAYS : 32;
		assert_int_equal(back.worlds, boot.worlds ? boot.worlds : 1);
		boot.worlds = boot.worlds ? HVD_MAX_WORLDS : 1;
		assert_int_equal(back.verbose, 2);
		assert_true(back.timeout == 12.5);
		assert_int_equal(back.keeps_stderr, boot.keeps_stderr);
		boot.keeps_stderr = true;
		assert_int_equal(back.n_addrs, boot.n_addrs);
		for (unsigned i = 0; i < boot.n_addrs; i++)
			assert_true(hvd_addr_equal(&back.addrs[i], &boot.addrs[i]));
	}
}

/* Whatever --start-timeout takes, a shim takes. */
TEST(boot_of_any_start_timeout)
{
	static const char *const values[] = {"0.001", "1", "2m", "1e6", "1000001", "300h", "1e9", "1e12", "1e300"};
	struct hvd_boot boot = boot_of(), back;
	char text[HVD_BOOT_MAX];
	struct hvd_launch_spec spec;
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		hvd_options_init(&o);
		assert_int_equal(hvd_options_config(&o, HVD_FROM_COMMAND, "start-timeout", values[i], NULL), 0);
		hvd_launch_spec_make(&spec, &o, NULL);
		boot.timeout = spec.deadlines.start;
		assert_true(boot.timeout > 0);
		assert_int_equal(hvd_boot_format(&boot, text, NULL), 0);
		assert_int_equal(hvd_boot_parse(text, &back, NULL), 0);
		assert_true(back.timeout > boot.timeout - 0.001 && back.timeout < boot.timeout + 0.001);
		assert_true(hvd_left(hvd_deadline_in(back.timeout)) > 0 || back.timeout < 1);
		hvd_launch_spec_clear(&spec);
		hvd_options_free(&o);
	}
}

TEST(boot_path_with_a_semicolon)
{
	struct hvd_boot boot = boot_of();
	char text[HVD_BOOT_MAX];
	struct hvd_err err = {0};

	strcpy(boot.id, "file:/a;b");
	assert_fails_with(hvd_boot_format(&boot, text, &err), err, HVD_E_USAGE, "semicolon");
}

#define SESSION "session=0123456789abcdef0123456789abcdef"

/* ---- the settings of agents ---- */

TEST(agent_settings_round_trip)
{
	const struct hvd_agent_settings settings = {.stderr_lines = 1000, .kill_wait = 0.25};
	struct hvd_agent_settings back;
	json_t *object = hvd_agent_settings_json(&settings);
	struct hvd_err err = {0};

	assert_int_equal(hvd_agent_settings_read(object, &back, NULL), 0);
	assert_int_equal(back.stderr_lines, 1000);
	assert_true(back.kill_wait == 0.25);
	json_object_set_new(object, "kill_wait", json_real(65533));
	assert_int_equal(hvd_agent_settings_read(object, &back, NULL), 0); /* the most that KillWait can be */
	json_object_set_new(object, "kill_wait", json_real(100000.5));
	assert_fails_with(hvd_agent_settings_read(object, &back, &err), err, HVD_E_PROTO, "kill_wait");
	assert_true(back.kill_wait == 0 && back.stderr_lines == 0);
	json_object_set_new(object, "kill_wait", json_string("5"));
	assert_fails_with(hvd_agent_settings_read(object, &back, &err), err, HVD_E_PROTO, "kill_wait");
	json_object_del(object, "stderr_lines");
	assert_fails_with(hvd_agent_settings_read(object, &back, &err), err, HVD_E_PROTO, "stderr_lines");
	assert_int_equal(hvd_agent_settings_read(NULL, &back, NULL), -1);
	json_decref(object);
}

TEST(boot_texts)
{
	static const struct {
		const char *text;
		enum hvd_errc code; /* 0: fine */
	} rows[] = {
		{"2;" SESSION ";port=1;addr=::1;id=munge", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;later=things;timeout=5", HVD_OK},
		{"", HVD_E_PROTO},
		{"2", HVD_E_PROTO},
		{"2;", HVD_E_PROTO},
		{"1;" SESSION ";port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=", HVD_E_PROTO},
		{"2;" SESSION ";port=0;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=65536;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1x;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=host;id=munge", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1,;id=munge;timeout=nan", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;timeout=-1", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;timeout=1e10", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;verbose=99", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;range=7-7", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;range=0-7", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=0+8", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=513+0", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=2", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=2+", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=2+0;store=2", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;ports=1+8;store=2", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;store=1", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;relays=0", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;relays=4096", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;relays=4097", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;relays=-1", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;relays=", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;stderr=1", HVD_OK},
		{"2;" SESSION ";port=1;addr=::1;id=munge;stderr=2", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;range=8-7", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;range=8-65536", HVD_E_PROTO},
		{"2;" SESSION ";port=1;addr=::1;id=munge;range=8", HVD_E_PROTO},
		{"2;" SESSION "0;port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;session=0123456789abcdef0123456789abcdeX;port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;session=0123456789ABCDEF0123456789ABCDEF;port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;novalue;" SESSION ";port=1;addr=::1;id=munge", HVD_E_PROTO},
		{"2;" SESSION
		 ";port=1;id=munge;addr=::1,::2,::3,::4,::5,::6,::7,::8,::9,::a,::b,::c,::d,::e,::f,::10,::11",
		 HVD_E_PROTO},
	};
	struct hvd_boot boot;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&err, 0, sizeof(err));
		assert_int_equal(hvd_boot_parse(rows[i].text, &boot, &err), rows[i].code ? -1 : 0);
		assert_int_equal(err.code, rows[i].code);
		if (rows[i].code)
			assert_in(err.msg, HVD_BOOT_ENV);
	}
}

TEST(boot_limits)
{
	char text[HVD_BOOT_MAX + 16];
	struct hvd_boot boot;
	struct hvd_err err;

	memset(text, 'x', sizeof(text));
	memcpy(text, "2;", 2);
	text[HVD_BOOT_MAX] = '\0';
	assert_fails_with(hvd_boot_parse(text, &boot, &err), err, HVD_E_LIMIT, "");
	snprintf(text, sizeof(text), "2;" SESSION ";port=1;addr=::1;id=%0*d", (int)sizeof(boot.id), 0);
	assert_int_equal(hvd_boot_parse(text, &boot, &err), -1);
	snprintf(text, sizeof(text), "2;" SESSION ";port=1;addr=::1;id=%0*d", (int)sizeof(boot.id) - 1, 0);
	assert_int_equal(hvd_boot_parse(text, &boot, &err), 0);
}

RUN_TESTS()
