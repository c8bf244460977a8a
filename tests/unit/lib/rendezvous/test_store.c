/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/store.h"
#include "lib/rendezvous/timer_wheel.h"
#include "tests/unit/unit.h"

static struct hvd_slice S(const char *s) {
	return (struct hvd_slice){s, strlen(s)};
}

static const char bytes_1001[1001];

struct woken {
	int n;
	struct hvd_rv_waiter *order[8];
	size_t len;
};

static struct woken *counts;

static bool on_wake(struct hvd_rv_waiter *w, struct hvd_rv_value *v)
{
	counts->order[counts->n++] = w;
	counts->len = v->len;
	return true;
}

static struct hvd_rv_store *make(struct woken *k)
{
	const struct hvd_rv_store_limits limits = {
		.value_max = 1000, .total_max = 100000, .name_max = 32, .scopes_max = 100, .scope_keys_max = 200};

	memset(k, 0, sizeof(*k));
	counts = k;
	return hvd_rv_store_create(&limits);
}

static enum hvd_rv_stored put(struct hvd_rv_store *st, const char *scope, const char *key, const char *text)
{
	enum hvd_rv_stored why;
	struct hvd_rv_value *v = hvd_rv_value_new(hvd_rv_store_budget(st), text, strlen(text), &why);

	if (!v)
		return why;
	why = hvd_rv_store_put(st, S(scope), S(key), v);
	hvd_rv_value_unref(v);
	return why;
}

static const char *get(struct hvd_rv_store *st, const char *scope, const char *key)
{
	static char text[1001];
	struct hvd_rv_value *v = hvd_rv_store_get(st, S(scope), S(key));

	if (!v)
		return NULL;
	memcpy(text, v->data, v->len);
	text[v->len] = '\0';
	return text;
}

static size_t bytes(struct hvd_rv_store *st)
{
	struct hvd_rv_store_stats s;

	hvd_rv_store_stats(st, &s);
	return s.bytes;
}

TEST(keeps_scopes_apart)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);

	assert_null(get(st, "a", "x"));
	assert_int_equal(put(st, "a", "x", "1"), HVD_RV_STORED);
	assert_int_equal(put(st, "b", "x", "2"), HVD_RV_STORED);
	assert_int_equal(put(st, "a", "x", "three"), HVD_RV_STORED);
	assert_int_equal(put(st, "a", "", ""), HVD_RV_STORED);
	assert_string_equal(get(st, "a", "x"), "three");
	assert_string_equal(get(st, "b", "x"), "2");
	assert_null(get(st, "", "ax"));
	assert_int_equal(hvd_rv_store_delete(st, S("a"), S("x")), 0);
	assert_int_equal(hvd_rv_store_delete(st, S("a"), S("never")), 0);
	assert_int_equal(hvd_rv_store_delete(st, S("never"), S("x")), 0);
	assert_null(get(st, "a", "x"));
	assert_string_equal(get(st, "b", "x"), "2");
	hvd_rv_store_clear(st, (struct hvd_slice){0});
	assert_int_equal(bytes(st), 0);
	hvd_rv_store_destroy(st);
	hvd_rv_store_destroy(NULL);
}

TEST(holds_many)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);
	char scope[16], key[16];

	for (int i = 0; i < 60; i++) {
		for (int j = 0; j < 10; j++) {
			snprintf(scope, sizeof(scope), "s%d", i);
			snprintf(key, sizeof(key), "k%d", j);
			assert_int_equal(put(st, scope, key, key), HVD_RV_STORED);
		}
	}
	for (int i = 0; i < 60; i++) {
		for (int j = 0; j < 10; j++) {
			snprintf(scope, sizeof(scope), "s%d", i);
			snprintf(key, sizeof(key), "k%d", j);
			assert_string_equal(get(st, scope, key), key);
			hvd_rv_store_delete(st, S(scope), S(key));
		}
	}
	assert_int_equal(bytes(st), 0);
	hvd_rv_store_destroy(st);
}

TEST(clears_one_scope_or_all_others)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);

	assert_int_equal(hvd_rv_store_scope_size(st, S("global"), 2), 0);
	put(st, "global", "rank_0", "a");
	put(st, "local", "rank_0", "b");
	hvd_rv_store_clear(st, S("global"));
	assert_string_equal(get(st, "global", "rank_0"), "a");
	assert_null(get(st, "local", "rank_0"));
	put(st, "local", "rank_0", "b");
	hvd_rv_store_clear_scope(st, S("global"));
	hvd_rv_store_clear_scope(st, S("never"));
	assert_null(get(st, "global", "rank_0"));
	assert_string_equal(get(st, "local", "rank_0"), "b");
	hvd_rv_store_delete(st, S("global"), S("0")); /* it still has two members */
	assert_int_equal(hvd_rv_store_delete(st, S("global"), S("1")), 1);
	hvd_rv_store_clear(st, S("never"));
	assert_int_equal(hvd_rv_store_scope_size(st, S(""), 2), 0); /* a driver may say so */
	hvd_rv_store_clear(st, (struct hvd_slice){0});
	assert_int_equal(bytes(st), 0);
	put(st, "runfunc", "func", "f");
	put(st, "local", "rank_0", "b");
	hvd_rv_store_lasting(st, S("runfunc"));
	hvd_rv_store_lasting(st, S("never"));
	hvd_rv_store_clear(st, (struct hvd_slice){0});
	assert_string_equal(get(st, "runfunc", "func"), "f");
	assert_null(get(st, "local", "rank_0"));
	hvd_rv_store_destroy(st);
}

TEST(clears_a_scope_when_all_are_done)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);

	assert_int_equal(hvd_rv_store_scope_size(st, S("global"), 2), 0);
	for (int round = 0; round < 2; round++) {
		put(st, "global", "rank_0", "host");
		put(st, "global", "0", "a");
		put(st, "global", "1", "b");
		assert_int_equal(hvd_rv_store_delete(st, S("global"), S("0")), 0);
		assert_int_equal(hvd_rv_store_delete(st, S("global"), S("0")), 0); /* again: counts once */
		assert_string_equal(get(st, "global", "0"), "a");
		assert_int_equal(hvd_rv_store_delete(st, S("global"), S("1")), 1);
		assert_null(get(st, "global", "0"));
		assert_null(get(st, "global", "rank_0"));
	}
	hvd_rv_store_scope_size(st, S("global"), 0);
	assert_int_equal(bytes(st), 0);
	hvd_rv_store_destroy(st);
}

TEST(counts_every_byte)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);
	struct hvd_rv_value *v;
	enum hvd_rv_stored why;
	size_t with_one;

	assert_null(hvd_rv_value_new(hvd_rv_store_budget(st), bytes_1001, 1001, &why));
	assert_int_equal(why, HVD_RV_TOO_LONG);
	put(st, "s", "k", "12345");
	with_one = bytes(st);
	v = hvd_rv_value_ref(hvd_rv_store_get(st, S("s"), S("k")));
	hvd_rv_store_delete(st, S("s"), S("k"));
	assert_memory_equal(v->data, "12345", 5);
	assert_int_in_range(bytes(st), 5, with_one - 1); /* still being read */
	hvd_rv_value_unref(v);
	assert_int_equal(bytes(st), 0);
	/* Fill it up with values that are not even stored. */
	struct hvd_rv_value *many[200];
	int n = 0;

	while (n < 200 && (many[n] = hvd_rv_value_new(hvd_rv_store_budget(st), bytes_1001, 1000, &why)))
		n++;
	assert_int_in_range(n, 90, 99);
	assert_int_equal(why, HVD_RV_NO_ROOM);
	while (n > 0)
		hvd_rv_value_unref(many[--n]);
	assert_int_equal(bytes(st), 0);
	hvd_rv_store_destroy(st);
}

TEST(bounds_names_and_numbers)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);
	char name[16];
	int n;

	assert_int_equal(put(st, "s", "a name that is longer than is allowed", "v"), HVD_RV_TOO_LONG);
	assert_int_equal(put(st, "a name that is longer than is allowed", "k", "v"), HVD_RV_TOO_LONG);
	assert_int_equal(bytes(st), 0);
	for (n = 0; n < 1000; n++) {
		snprintf(name, sizeof(name), "%d", n);
		if (put(st, "s", name, "v") != HVD_RV_STORED)
			break;
	}
	assert_int_equal(n, 200);
	assert_int_equal(put(st, "s", "0", "again"), HVD_RV_STORED);
	hvd_rv_store_clear(st, (struct hvd_slice){0});
	for (n = 0; n < 1000; n++) {
		snprintf(name, sizeof(name), "%d", n);
		if (put(st, name, "k", "v") != HVD_RV_STORED)
			break;
	}
	assert_int_equal(n, 100);
	hvd_rv_store_destroy(st);
}

TEST(wakes_in_order)
{
	struct woken k;
	struct hvd_rv_store *st = make(&k);
	struct hvd_rv_waiter w[4] = {{.wake = on_wake}, {.wake = on_wake}, {.wake = on_wake}, {.wake = on_wake}};

	for (int i = 0; i < 4; i++)
		assert_int_equal(hvd_rv_store_wait(st, S("s"), S(i == 3 ? "other" : "k"), &w[i]), 0);
	hvd_rv_store_unwait(st, &w[1]);
	hvd_rv_store_unwait(st, &w[1]);
	assert_null(get(st, "s", "k"));
	hvd_rv_store_clear(st, (struct hvd_slice){0}); /* they go on waiting */
	put(st, "s", "k", "now");
	assert_int_equal(k.n, 2);
	assert_ptr_equal(k.order[0], &w[0]);
	assert_ptr_equal(k.order[1], &w[2]);
	assert_int_equal(k.len, 3);
	hvd_rv_store_delete(st, S("s"), S("k"));
	hvd_rv_store_unwait(st, &w[3]);
	assert_int_equal(bytes(st), 0);
	hvd_rv_store_destroy(st);
}

TEST(wheel_reports_each_once)
{
	static struct hvd_rv_timer_wheel w;
	struct hvd_rv_timer s[50] = {{0}};
	hvd_time t0, now;
	int seen = 0;

	hvd_rv_timer_wheel_init(&w);
	t0 = hvd_now();
	for (int i = 0; i < 50; i++)
		hvd_rv_timer_wheel_set(&w, &s[i], t0 + i * INT64_C(1000000000)); /* several turns ahead */
	hvd_rv_timer_wheel_set(&w, &s[49], t0);
	hvd_rv_timer_wheel_remove(&w, &s[48]);
	hvd_rv_timer_wheel_remove(&w, &s[48]);
	for (now = t0; now < t0 + INT64_C(60000000000); now += HVD_RV_TIMER_WHEEL_TICK) {
		struct hvd_rv_timer *one;

		while ((one = hvd_rv_timer_wheel_due(&w, now))) {
			assert_true(one->deadline <= now && now - one->deadline <= 3 * HVD_RV_TIMER_WHEEL_TICK);
			seen++;
		}
	}
	assert_int_equal(seen, 49);
	assert_int_equal(w.n, 0);
	/* After a long sleep all come at once. */
	hvd_rv_timer_wheel_set(&w, &s[0], now + 1);
	hvd_rv_timer_wheel_set(&w, &s[1], now + INT64_C(9000000000));
	now += INT64_C(100000000000);
	assert_non_null(hvd_rv_timer_wheel_due(&w, now));
	assert_non_null(hvd_rv_timer_wheel_due(&w, now));
	assert_null(hvd_rv_timer_wheel_due(&w, now));
}

RUN_TESTS()
