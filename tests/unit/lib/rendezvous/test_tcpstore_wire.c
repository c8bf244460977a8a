/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/tcpstore_wire.h"
#include "tests/unit/tcpstore_bytes.h"
#include "tests/unit/unit.h"

struct outcome {
	enum hvd_tcpstore_parsed last; /* what ended it */
	const char *why;
	int items, requests;
	char text[4096]; /* all items, as text */
};

static const char *const names[HVD_TCPSTORE_QUERIES] = {
	"VALIDATE",   "SET",        "COMPARE_SET", "GET",       "ADD",       "CHECK",       "WAIT",
	"GETNUMKEYS", "DELETE_KEY", "APPEND",      "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING",
	"QUEUE_PUSH", "QUEUE_POP",  "QUEUE_LEN",   "LIST_KEYS", "BARRIER",
};

static void note(struct outcome *o, const struct hvd_tcpstore_item *item)
{
	size_t n = strlen(o->text);

	snprintf(o->text + n, sizeof(o->text) - n, "%s%s%s|%.*s|%.*s|%.*s|%lld\n", item->first ? "+" : "",
		 item->last ? "-" : "", names[item->query], (int)item->key.n, item->key.p ? item->key.p : "",
		 (int)item->expected.n, item->expected.p ? item->expected.p : "", (int)item->value.n,
		 item->value.p ? item->value.p : "", (long long)item->number);
	o->items++;
	o->requests += item->last;
}

/* Parse all items of `len` bytes, of which `given` are there at first and the others after MORE. Each is in memory of
 * its exact size. */
static struct outcome parse(const char *data, size_t given, size_t len)
{
	struct hvd_tcpstore_wire wire = {0};
	struct outcome o = {.last = HVD_TCPSTORE_ITEM};
	size_t at = 0;

	while (o.last == HVD_TCPSTORE_ITEM && at < len) {
		struct hvd_tcpstore_item item;
		char *part = malloc(given - at + 1);
		size_t used, need = 0;

		memcpy(part, data + at, given - at);
		o.last = hvd_tcpstore_parse(&wire, part, given - at, &used, &need, &item, &o.why);
		if (o.last == HVD_TCPSTORE_ITEM)
			note(&o, &item);
		free(part);
		if (o.last == HVD_TCPSTORE_ITEM)
			at += used;
		if (o.last == HVD_TCPSTORE_MORE) {
			assert_int_equal(used, 0);
			assert_true(need > given - at);
			if (given < len) {
				given = len;
				o.last = HVD_TCPSTORE_ITEM;
			}
		}
	}
	return o;
}

TEST(reads_every_query)
{
	for (int big = 0; big < 2; big++) {
		struct bytes b = {.big = big};
		int n = add_all_queries(&b);
		struct outcome o = parse(b.p, b.n, b.n);

		assert_int_equal(o.last, HVD_TCPSTORE_ITEM);
		assert_int_equal(o.requests, n);
		assert_int_equal(o.items, n + 2 + 2 + 2 + 1); /* CHECK, WAIT, MULTI_GET, MULTI_SET */
		assert_in(o.text, "+-VALIDATE||||1015412686\n+-PING||||4711\n+-ADD|init/|||1\n+-SET|a||one|0\n");
		assert_in(o.text, "+-COMPARE_SET|c||three|0\n");
		assert_in(o.text, "+-ADD|counter|||-7\n+CHECK|a|||0\nCHECK|b|||0\n-CHECK|counter|||0\n");
		assert_in(o.text, "\n+-CHECK||||0\n");
		assert_in(o.text, "\n+MULTI_SET|m||1|0\n-MULTI_SET|n||2|0\n+-CANCEL_WAIT||||0\n");
		assert_in(o.text, "\n+-LIST_KEYS||||0\n+-BARRIER|barrier|||1\n");
		free(b.p);
	}
}

/* Two pieces, cut at every byte, and byte by byte. */
TEST(cuts_make_no_difference)
{
	for (int big = 0; big < 2; big++) {
		struct bytes b = {.big = big};
		struct hvd_tcpstore_wire wire = {0};
		struct outcome whole, slow = {0};
		size_t at = 0;

		add_all_queries(&b);
		whole = parse(b.p, b.n, b.n);
		for (size_t cut = 0; cut <= b.n; cut++) {
			struct outcome o = parse(b.p, cut, b.n);

			assert_int_equal(o.last, HVD_TCPSTORE_ITEM);
			assert_string_equal(o.text, whole.text);
		}
		for (size_t given = 0; given <= b.n; given++) {
			struct hvd_tcpstore_item item;
			size_t used, need;
			const char *why;

			while (hvd_tcpstore_parse(&wire, b.p + at, given - at, &used, &need, &item, &why) ==
			       HVD_TCPSTORE_ITEM) {
				note(&slow, &item);
				at += used;
				if (at == given)
					break;
			}
		}
		assert_string_equal(slow.text, whole.text);
		free(b.p);
	}
}

static struct bytes validated(void)
{
	struct bytes b = {0};

	add_validate(&b);
	return b;
}

static void bad(struct bytes b, const char *why)
{
	struct outcome o = parse(b.p, b.n, b.n);

	assert_int_equal(o.last, HVD_TCPSTORE_BAD);
	assert_in(o.why, why);
	free(b.p);
}

TEST(refuses_what_is_none)
{
	struct bytes b = {0};

	add_number(&b, 0, 1);
	add_number(&b, 0x3C85F7CF, 4);
	bad(b, "magic number");
	b = (struct bytes){0};
	add_key(&b, HVD_TCPSTORE_GET, "a");
	bad(b, "not VALIDATE");
	b = validated();
	add_validate(&b);
	bad(b, "VALIDATE twice");
	b = validated();
	add_number(&b, HVD_TCPSTORE_QUERIES, 1);
	bad(b, "unknown query");
	b = validated();
	add_number(&b, 255, 1);
	bad(b, "unknown query");
}

/* An announced length beyond a limit is refused at once; one within it is waited for. */
TEST(keeps_the_limits)
{
	static const struct {
		enum hvd_tcpstore_query query;
		uint64_t first, limit;
		const char *why;
	} cases[] = {
		{HVD_TCPSTORE_GET, 0, HVD_TCPSTORE_KEY_MAX, "8 KiB"},
		{HVD_TCPSTORE_SET, 1, HVD_TCPSTORE_VALUE_MAX, "8 MiB"},
		{HVD_TCPSTORE_COMPARE_SET, 1, HVD_TCPSTORE_VALUE_MAX, "8 MiB"},
		{HVD_TCPSTORE_CHECK, 0, HVD_TCPSTORE_LIST_MAX, "131,072"},
		{HVD_TCPSTORE_MULTI_SET, 0, HVD_TCPSTORE_LIST_MAX, "131,072"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int k = 0; k < 3; k++) {
			struct bytes b = validated();
			struct outcome o;

			add_query(&b, cases[i].query);
			if (cases[i].first)
				add_string(&b, "k");
			add_number(&b, k == 0 ? cases[i].limit : k == 1 ? cases[i].limit + 1 : UINT64_MAX, 8);
			o = parse(b.p, b.n, b.n);
			assert_int_equal(o.last, k == 0 ? HVD_TCPSTORE_MORE : HVD_TCPSTORE_BAD);
			if (k > 0)
				assert_in(o.why, cases[i].why);
			free(b.p);
		}
}

TEST(writes_numbers)
{
	static const struct hvd_tcpstore_wire little = {.validated = true}, big = {.validated = true, .big = true};
	char out[8];

	hvd_tcpstore_put_u32(&little, 0x01020304, out);
	assert_memory_equal(out, "\4\3\2\1", 4);
	hvd_tcpstore_put_u32(&big, 0x01020304, out);
	assert_memory_equal(out, "\1\2\3\4", 4);
	hvd_tcpstore_put_u64(&little, (uint64_t)-2, out);
	assert_memory_equal(out, "\xfe\xff\xff\xff\xff\xff\xff\xff", 8);
	hvd_tcpstore_put_u64(&big, 258, out);
	assert_memory_equal(out, "\0\0\0\0\0\0\1\2", 8);
}

RUN_TESTS()
