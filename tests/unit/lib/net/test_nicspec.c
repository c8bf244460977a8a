/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of interfaces as users give them. */
#include "lib/base/strv.h"
#include "lib/net/nicspec.h"

#include "tests/unit/unit.h"

static struct hvd_strv entries(const char *list)
{
	struct hvd_strv v = {0};
	char *copy = strdup(list), *save = NULL;

	for (char *e = strtok_r(copy, ",", &save); e; e = strtok_r(NULL, ",", &save))
		hvd_strv_add(&v, e);
	free(copy);
	return v;
}

/* Does the list want that address (NULL: none) of that interface? */
static bool wants(const char *list, const char *iface, const char *addr)
{
	struct hvd_strv v = entries(list);
	struct hvd_nicspec spec;
	struct hvd_addr a;
	bool yes;

	assert_int_equal(hvd_nicspec_parse(&spec, v.v, NULL), 0);
	assert_int_equal(hvd_nicspec_check("x", list, NULL), 0);
	if (addr)
		assert_int_equal(hvd_addr_parse(addr, &a), 0);
	yes = hvd_nicspec_wants(&spec, iface, addr ? &a : NULL);
	hvd_nicspec_clear(&spec);
	hvd_strv_free(&v);
	return yes;
}

TEST(what_is_wanted)
{
	static const struct {
		const char *list, *iface, *addr;
		bool yes;
	} cases[] = {
		{"eth0", "eth0", "10.0.0.1", true},
		{"eth0", "eth01", "10.0.0.1", false},
		{"ib0,eth0", "eth0", NULL, true},
		{"ib*", "ib0", NULL, true},
		{"ib*", "eth0", NULL, false},
		{"en[sp]?", "ens3", NULL, true},
		{"en[sp]?", "eno3", NULL, false},
		{"^docker0", "eth0", NULL, true},
		{"^docker0", "docker0", NULL, false},
		{"^docker0,virbr*", "virbr0", NULL, false},
		{"^docker0,virbr*", "eth0", NULL, true},
		{"ib*,^ib3", "ib2", NULL, true},
		{"ib*,^ib3", "ib3", NULL, false},
		{"ib*,^ib3", "eth0", NULL, false},
		{"10.77.0.0/24", "any", "10.77.0.255", true},
		{"10.77.0.0/24", "any", "10.77.1.1", false},
		{"10.77.0.9/24", "any", "10.77.0.1", true},
		{"10.77.0.0/20", "any", "10.77.15.1", true},
		{"10.77.0.0/20", "any", "10.77.16.1", false},
		{"0.0.0.0/0", "any", "1.2.3.4", true},
		{"0.0.0.0/0", "any", "fd00::1", false},
		{"0.0.0.0/0", "any", NULL, false},
		{"10.77.0.1/32", "any", "10.77.0.1", true},
		{"fd77::/64", "any", "fd77::5", true},
		{"fd77::/64", "any", "fd77:0:0:1::5", false},
		{"^10.77.0.0/24", "eth0", "10.77.0.1", false},
		{"^10.77.0.0/24", "eth0", "10.78.0.1", true},
		{"eth0,10.78.0.0/24", "ib0", "10.78.0.1", true},
		{"eth0,10.78.0.0/24", "ib0", "10.79.0.1", false},
		{"10.77.0.0/24,^eth0", "eth0", "10.77.0.1", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (wants(cases[i].list, cases[i].iface, cases[i].addr) != cases[i].yes)
			fail_msg("%s: %s %s", cases[i].list, cases[i].iface, cases[i].addr ? cases[i].addr : "");
}

TEST(what_is_refused)
{
	static const struct {
		const char *list, *why;
	} cases[] = {
		{"^", "empty"},
		{"eth0,^", "empty"},
		{"10.77.0.5", "as in 10.77.0.0/24"},
		{"fd00::1", "address of one host"},
		{"10.77.0.0/33", "number of bits"},
		{"10.77.0.0/", "number of bits"},
		{"10.77.0.0/-1", "number of bits"},
		{"10.77.0.0/2x", "number of bits"},
		{"fd00::/129", "number of bits"},
		{"x/24", "not an address"},
		{"eth 0", "no interface"},
		{"^^eth0", "no interface"},
		{"eth0123456789012", "so long a name"},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*", "too long"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hvd_err err = {0};

		assert_fails_with(hvd_nicspec_check("x", cases[i].list, &err), err, HVD_E_USAGE, cases[i].why);
		assert_in(err.hint, "ib*");
	}
}

TEST(names_and_families)
{
	struct hvd_strv v = entries("eth0,ib*,^x,10.0.0.0/8,eth1");
	struct hvd_nicspec spec;

	assert_int_equal(hvd_nicspec_parse(&spec, v.v, NULL), 0);
	assert_string_equal(hvd_nicspec_name(&spec, 0), "eth0");
	assert_string_equal(hvd_nicspec_name(&spec, 1), "eth1");
	assert_null(hvd_nicspec_name(&spec, 2));
	assert_false(hvd_nicspec_ipv6(&spec));
	hvd_nicspec_clear(&spec);
	assert_true(hvd_nicspec_wants(&spec, "any", NULL));
	assert_false(hvd_nicspec_ipv6(&spec));
	hvd_strv_free(&v);
	v = entries("fd79::/64,^docker0");
	assert_int_equal(hvd_nicspec_parse(&spec, v.v, NULL), 0);
	assert_true(hvd_nicspec_ipv6(&spec));
	hvd_nicspec_clear(&spec);
	hvd_strv_free(&v);
	assert_int_equal(hvd_nicspec_parse(&spec, NULL, NULL), 0);
	hvd_nicspec_clear(&spec);
	hvd_nicspec_clear(NULL);
}

RUN_TESTS()
