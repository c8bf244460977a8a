/* SPDX-License-Identifier: Apache-2.0 */
/* Questions whose connections from other hosts are: how many, and when, whoever connects how often. */
#include "lib/rendezvous/remote_owner.h"

#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#define MS        INT64_C(1000000)
#define QUESTIONS 4096

struct world {
	struct event_base *base;
	struct hvd_rv_owners *owners;
	struct hvd_owner_question asked[QUESTIONS];
	size_t n;
};

/* A connection. */
struct client {
	struct hvd_rv_asked asked;
	int known;
	int64_t owner;
	struct world *again; /* ask once more when it is known */
};

static void on_ask(const struct hvd_owner_question *question, void *arg)
{
	struct world *w = arg;

	assert_true(w->n < QUESTIONS);
	w->asked[w->n++] = *question;
}

static struct hvd_addr addr_of(unsigned host)
{
	return (struct hvd_addr){.family = AF_INET, .u.v4.s_addr = htonl(0x0a000000U + host)};
}

static void on_known(struct hvd_rv_asked *asked, int64_t owner)
{
	struct client *c = (struct client *)asked;
	const struct hvd_addr from = addr_of(2), to = addr_of(1);

	c->known++;
	c->owner = owner;
	if (c->again)
		assert_true(hvd_rv_owners_ask(c->again->owners, &from, &to, 29500, asked));
	c->again = NULL;
}

/* A connection from that host. */
static bool come(struct world *w, struct client *c, unsigned host, unsigned port)
{
	const struct hvd_addr from = addr_of(host), to = addr_of(1);

	c->asked.port = (in_port_t)port;
	c->asked.known = on_known;
	return hvd_rv_owners_ask(w->owners, &from, &to, 29500, &c->asked);
}

static void pass(struct world *w, hvd_time time)
{
	for (hvd_time end = test_clock + time; test_clock < end; test_clock += MS)
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* Answer a question: all of its ports are `owner`'s. */
static void answer(struct world *w, size_t question, int64_t owner)
{
	struct hvd_owner_answer a = {.id = w->asked[question].id, .n = w->asked[question].n};

	for (size_t i = 0; i < a.n; i++)
		a.owners[i] = owner;
	hvd_rv_owners_answer(w->owners, &a);
}

SETUP(begin, struct world, w)
{
	w->base = event_base_new();
	w->owners = hvd_rv_owners_create(w->base, on_ask, w);
}

TEARDOWN(end, struct world, w)
{
	hvd_rv_owners_destroy(w->owners);
	event_base_free(w->base);
}

#define T(name) TEST_WITH(name, begin, end)

T(those_that_come_together_share_a_question)
{
	struct world *w = *state;
	struct client c[3] = {0};
	char text[HVD_ADDR_TEXT];

	for (unsigned i = 0; i < 3; i++)
		assert_true(come(w, &c[i], i < 2 ? 2 : 3, 40000 + i));
	assert_int_equal(w->n, 0); /* not within the caller's call */
	pass(w, 0);
	assert_int_equal(w->n, 2);
	assert_int_equal(w->asked[0].n, 2);
	assert_string_equal(hvd_addr_text(&w->asked[0].from, text), "10.0.0.2");
	assert_string_equal(hvd_addr_text(&w->asked[0].to, text), "10.0.0.1");
	assert_int_equal(w->asked[0].port, 29500);
	assert_int_equal(w->asked[0].ports[1], 40001);
	assert_int_equal(w->asked[1].n, 1);
	answer(w, 1, 7);
	assert_int_equal(c[2].owner, 7);
	assert_int_equal(c[0].known + c[1].known, 0);
	answer(w, 0, HVD_OWNER_OTHER);
	assert_int_equal(c[0].owner, HVD_OWNER_OTHER);
	assert_int_equal(c[1].owner, HVD_OWNER_OTHER);
	answer(w, 0, 7); /* twice: the second one is nobody's */
	assert_int_equal(c[0].known, 1);
}

/* A flood from a host: one question is open, and the next one follows a moment after its answer. */
T(a_source_has_one_question_open)
{
	static struct client c[2000];
	struct world *w = *state;
	size_t taken = 0;

	memset(c, 0, sizeof(c));
	for (unsigned i = 0; i < 2000; i++)
		taken += come(w, &c[i], 2, 30000 + i);
	assert_int_equal(taken, 1024);
	pass(w, 100 * MS);
	assert_int_equal(w->n, 1);
	assert_int_equal(w->asked[0].n, HVD_OWNER_PORTS);
	answer(w, 0, 5);
	pass(w, 0);
	assert_int_equal(w->n, 1);
	pass(w, 3 * MS);
	assert_int_equal(w->n, 2);
	/* In the order in which they came. */
	assert_int_equal(w->asked[1].ports[0], 30000 + HVD_OWNER_PORTS);
	for (size_t i = 1; i < w->n; i++) {
		answer(w, i, 5);
		pass(w, 3 * MS);
	}
	assert_int_equal(w->n, 1024 / HVD_OWNER_PORTS);
	for (unsigned i = 0; i < 1024; i++)
		assert_int_equal(c[i].known, 1);
	/* There is room again. */
	assert_true(come(w, &c[1024], 2, 50000));
}

/* The flood of one host is not in the way of another host's connection. */
T(sources_take_turns)
{
	static struct client c[1000], d[300], hers;
	struct world *w = *state;
	size_t before;

	memset(c, 0, sizeof(c));
	memset(d, 0, sizeof(d));
	memset(&hers, 0, sizeof(hers));
	for (unsigned i = 0; i < 1000; i++)
		assert_true(come(w, &c[i], 2, 30000 + i));
	assert_true(come(w, &hers, 3, 40000));
	pass(w, 0);
	assert_int_equal(w->n, 2);
	answer(w, 1, 9);
	assert_int_equal(hers.owner, 9);
	/* Hundreds of hosts at once: a few questions in a millisecond. */
	pass(w, 10 * MS);
	before = w->n;
	for (unsigned i = 0; i < 300; i++)
		assert_true(come(w, &d[i], 100 + i, 40000));
	pass(w, 0);
	assert_int_equal(w->n, before + 8);
	pass(w, 10 * MS);
	assert_int_in_range(w->n, before + 80, before + 100);
	pass(w, 40 * MS);
	assert_int_equal(w->n, before + 300);
}

T(one_that_is_not_answered_is_unknown_in_the_end)
{
	struct world *w = *state;
	struct client c[2] = {0};

	assert_true(come(w, &c[0], 2, 40000));
	pass(w, 0);
	assert_true(come(w, &c[1], 2, 40001));
	pass(w, 9900 * MS);
	assert_int_equal(c[0].known, 0);
	pass(w, 200 * MS);
	assert_int_equal(c[0].owner, HVD_OWNER_UNKNOWN);
	assert_int_equal(w->n, 2);
	answer(w, 0, 5); /* too late */
	assert_int_equal(c[0].known, 1);
	answer(w, 1, 5);
	assert_int_equal(c[1].owner, 5);
}

/* An answer that lacks owners, as for an address that no host has. */
T(owners_that_are_missing_are_unknown)
{
	struct world *w = *state;
	struct client c[2] = {0};

	for (unsigned i = 0; i < 2; i++)
		assert_true(come(w, &c[i], 2, 40000 + i));
	pass(w, 0);
	hvd_rv_owners_answer(w->owners, &(struct hvd_owner_answer){.id = w->asked[0].id, .n = 1, .owners = {3}});
	assert_int_equal(c[0].owner, 3);
	assert_int_equal(c[1].owner, HVD_OWNER_UNKNOWN);
}

T(closed_connections_hear_nothing)
{
	struct world *w = *state;
	struct client c[4] = {0};

	for (unsigned i = 0; i < 2; i++)
		assert_true(come(w, &c[i], 2, 40000 + i));
	pass(w, 0);
	assert_true(come(w, &c[2], 2, 40002)); /* waits for the next question */
	hvd_rv_owners_forget(&c[0].asked);
	hvd_rv_owners_forget(&c[2].asked);
	hvd_rv_owners_forget(&c[2].asked);
	answer(w, 0, 5);
	assert_int_equal(c[0].known, 0);
	assert_int_equal(c[1].known, 1);
	pass(w, 10 * MS);
	assert_int_equal(w->n, 1);
	assert_int_equal(c[2].known, 0);
	/* One that is gone before its question. */
	assert_true(come(w, &c[3], 4, 1));
	hvd_rv_owners_forget(&c[3].asked);
	pass(w, 10 * MS);
	assert_int_equal(w->n, 1);
}

T(one_may_ask_again_when_it_is_known)
{
	struct world *w = *state;
	struct client c = {.again = w};

	assert_true(come(w, &c, 2, 40000));
	pass(w, 0);
	answer(w, 0, 1);
	pass(w, 3 * MS);
	assert_int_equal(w->n, 2);
	answer(w, 1, 99);
	assert_int_equal(c.known, 2);
	assert_int_equal(c.owner, 99);
}

RUN_TESTS()
