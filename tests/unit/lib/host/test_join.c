/* SPDX-License-Identifier: Apache-2.0 */
/* Self-registering agents: join addresses, offers, refusals. */
#include "tests/unit/unit.h"

#include "lib/base/size.h"
#include "lib/host/join.h"

#define SESSION "0123456789abcdef0123456789abcdef"

TEST(addresses)
{
	static const char *const good[] = {
		"10.0.0.1:5000/" SESSION,
		"10.0.0.1,fd00::1,192.0.2.7:65535/" SESSION,
		"::1:1/" SESSION,
	};
	struct hvd_boot boot;
	char text[HVD_JOIN_ADDRESS_MAX];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(&boot, 0, sizeof(boot));
		assert_int_equal(hvd_join_address_parse(good[i], &boot, NULL), 0);
		hvd_join_address_format(&boot, text);
		assert_string_equal(text, good[i]);
	}
	assert_string_equal(boot.session, SESSION);
	assert_int_equal(boot.port, 1);
	assert_int_equal(boot.n_addrs, 1);
}

TEST(no_addresses)
{
	static const char *const bad[] = {
		"",
		"10.0.0.1",
		"10.0.0.1:5000",
		"10.0.0.1:5000/",
		"10.0.0.1:5000/0123",
		"10.0.0.1:5000/" SESSION "0",
		"10.0.0.1:5000/g123456789abcdef0123456789abcdef",
		"10.0.0.1:0/" SESSION,
		"10.0.0.1:65536/" SESSION,
		"10.0.0.1:-1/" SESSION,
		"10.0.0.1:5000x/" SESSION,
		"10.0.0.1:/" SESSION,
		":5000/" SESSION,
		"host:5000/" SESSION,
		"10.0.0.1,:5000",
		"1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,"
		"1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1:5000/" SESSION,
	};
	struct hvd_boot boot;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&err, 0, sizeof(err));
		if (hvd_join_address_parse(bad[i], &boot, &err) == 0)
			fail_msg("'%s' is taken for an address", bad[i]);
		assert_int_equal(err.code, HVD_E_USAGE);
	}
}

static struct hvd_join_offer four_slots(void)
{
	struct hvd_join_offer o = {.slots = 4, .index = 7};

	snprintf(o.host, sizeof(o.host), "n1.example.org");
	memset(o.machine, 'a', HVD_MACHINE_LEN);
	return o;
}

TEST(offers)
{
	struct hvd_join_offer said = four_slots(), heard;
	json_t *msg;

	for (int index = -1; index <= 7; index += 8) {
		said.index = index;
		msg = hvd_join_offer(&said);
		assert_int_equal(hvd_join_offer_read(msg, &heard, NULL), 0);
		assert_memory_equal(&said, &heard, sizeof(said));
		json_decref(msg);
	}
}

/* Read an offer in which `key` has this value; a NULL value: it has none. */
static enum hvd_errc read_with(const char *key, json_t *value)
{
	struct hvd_join_offer o = four_slots(), heard;
	json_t *msg = hvd_join_offer(&o);
	struct hvd_err err = {0};
	int rc;

	if (value)
		json_object_set_new(msg, key, value);
	else
		json_object_del(msg, key);
	rc = hvd_join_offer_read(msg, &heard, &err);
	assert_int_equal(rc, err.code ? -1 : 0);
	json_decref(msg);
	return err.code;
}

TEST(limits_of_offers)
{
	assert_int_equal(read_with("index", NULL), HVD_OK);
	assert_int_equal(read_with("slots", json_integer(HVD_MAX_HOST_RANKS)), HVD_OK);
	assert_int_equal(read_with("slots", json_integer(HVD_MAX_HOST_RANKS + 1)), HVD_E_LIMIT);
	assert_int_equal(read_with("slots", json_integer(1000000000)), HVD_E_LIMIT);
	assert_int_equal(read_with("slots", json_integer(0)), HVD_E_LIMIT);
	assert_int_equal(read_with("slots", json_integer(-1)), HVD_E_LIMIT);
	assert_int_equal(read_with("slots", json_string("2")), HVD_E_PROTO);
	assert_int_equal(read_with("slots", NULL), HVD_E_PROTO);
	assert_int_equal(read_with("index", json_integer(-1)), HVD_E_PROTO);
	assert_int_equal(read_with("index", json_integer(1LL << 40)), HVD_E_PROTO);
	assert_int_equal(read_with("host", NULL), HVD_E_PROTO);
	assert_int_equal(read_with("host", json_string("")), HVD_E_USAGE);
	assert_int_equal(read_with("host", json_string("-oProxyCommand=x")), HVD_E_USAGE);
	assert_int_equal(read_with("host", json_string("a b")), HVD_E_USAGE);
	assert_int_equal(read_with("machine", NULL), HVD_E_PROTO);
}

TEST(refusals)
{
	struct hvd_err said = {0}, heard;
	json_t *msg;

	hvd_err_set(&said, HVD_E_LIMIT, "so it is");
	hvd_err_hint(&said, "do that");
	msg = hvd_join_refusal(&said);
	hvd_join_refusal_read(msg, &heard);
	assert_int_equal(heard.code, HVD_E_FAILED);
	assert_non_null(strstr(heard.msg, "so it is"));
	assert_string_equal(heard.hint, "do that");
	json_object_clear(msg);
	hvd_join_refusal_read(msg, &heard);
	assert_int_equal(heard.code, HVD_E_FAILED);
	assert_non_null(strstr(heard.msg, "its job could not start"));
	json_decref(msg);
}

RUN_TESTS()
