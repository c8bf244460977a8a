/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients at all servers of a tree of relays do thousands of things in random order. What they read is held against
 * what the store promises: a client reads what it has written itself, never something older than it has read before,
 * and never something older than what was written before a value that it has read. Counters, queues and comparisons
 * happen once each. All of that holds also while connections between the servers are cut and relays end.
 */
#include "relay_tree.h"

#include <inttypes.h>

#define CLIENTS 14 /* at most */
#define OPS     10000

#define COUNTERS 3

enum what {
	READ, /* some client's own key */
	COUNT,
	LOOK_UP, /* what the key of comparisons has, to replace it then */
	REPLACE,
	POP,
	EXIST, /* is my own key there? */
	REMOVE,
	WAIT,
};

struct actor {
	struct client c;
	enum what what;
	unsigned target;           /* READ: whose key; COUNT: which counter */
	int seen[CLIENTS];         /* the least version that it may read of each client's key */
	int at_begin[CLIENTS];     /* COUNT: `seen` when it began */
	int popped[CLIENTS];       /* the last that it has popped of what each client has pushed */
	int64_t counted[COUNTERS]; /* the last answers */
	char now[64], next[64];    /* REPLACE */
	int awaits;                /* WAIT: the number of the key */
};

struct world {
	struct tree tree;
	struct actor actors[CLIENTS];
	unsigned n;
	uint32_t dice;
	int issued[CLIENTS], removed[CLIENTS]; /* the newest version of each client's own key, and the newest removal */
	int64_t counts[COUNTERS];
	bool counted[COUNTERS][OPS + 1];
	int before[COUNTERS][OPS + 1][CLIENTS]; /* what had been written before this count, as far as it is known */
	int replaced;                           /* the number of the last successful comparison */
	bool was_replaced[OPS + 1];
	int pushed[CLIENTS], pops, pushes, appended[CLIENTS];
	bool was_popped[CLIENTS][OPS + 1];
	int gone; /* keys go/1 … go/`gone` are there */
	unsigned waiting, ops;
};

static void raise_seen(int *seen, const int *other)
{
	for (int i = 0; i < CLIENTS; i++)
		if (other[i] > seen[i])
			seen[i] = other[i];
}

/* A new version of the client's own key, with all that it has seen, and of some length. */
static void write_own(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	char key[32], *text = calloc(1, 400000);
	size_t pad = dice(&w->dice) % 8 ? dice(&w->dice) % 200 : dice(&w->dice) % 64 ? dice(&w->dice) % 5000 : 300000;
	int at;

	assert_non_null(text);
	a->seen[me] = ++w->issued[me];
	snprintf(key, sizeof(key), "own/%u", me);
	at = sprintf(text, "%d", a->seen[me]);
	for (int i = 0; i < CLIENTS; i++)
		at += sprintf(text + at, " %d", a->seen[i]);
	text[at++] = ' ';
	memset(text + at, 'x', pad);
	set(&a->c, key, text);
	free(text);
}

static void check_read(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	unsigned whose = a->target;
	char text[CLIENTS * 8 + 16] = "", *at = text;
	int version, seen[CLIENTS];

	memcpy(text, a->c.value, a->c.value_len < sizeof(text) - 1 ? a->c.value_len : sizeof(text) - 1);
	if (a->c.value_len == 0) {
		if (w->removed[whose] < a->seen[whose])
			fail_msg("client %u at server %d: the key of %u is not there, version %d was", me, a->c.node,
				 whose, a->seen[whose]);
		return;
	}
	version = (int)strtol(at, &at, 10);
	for (int i = 0; i < CLIENTS; i++)
		seen[i] = (int)strtol(at, &at, 10);
	if (version < a->seen[whose] || version > w->issued[whose] || (whose == me && version != w->issued[me]))
		fail_msg("client %u at server %d has read version %d of %u's key, after %d; the newest is %d", me,
			 a->c.node, version, whose, a->seen[whose], w->issued[whose]);
	raise_seen(a->seen, seen);
}

static void check_count(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	unsigned k = a->target;
	int64_t n = a->c.number;

	if (n <= a->counted[k] || n > w->counts[k] || w->counted[k][n])
		fail_msg("client %u at server %d: counter %u is %" PRId64 " after %" PRId64 " of %" PRId64 "%s", me,
			 a->c.node, k, n, a->counted[k], w->counts[k], w->counted[k][n] ? ", a second time" : "");
	a->counted[k] = n;
	w->counted[k][n] = true;
	raise_seen(a->seen, w->before[k][n - 1]);
	raise_seen(a->seen, a->at_begin);
	memcpy(w->before[k][n], a->seen, sizeof(a->seen));
}

static void check_replace(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	int n = 0;

	if (a->c.value_len != strlen(a->next) || memcmp(a->c.value, a->next, a->c.value_len) != 0)
		return;
	n = atoi(a->next);
	if (w->was_replaced[n])
		fail_msg("client %u at server %d: two have replaced value %d", me, a->c.node, n - 1);
	w->was_replaced[n] = true;
	w->replaced = n > w->replaced ? n : w->replaced;
}

static void check_pop(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	unsigned whose = 0;
	int n = 0;

	if (a->c.number <= 0)
		return;
	if (!a->c.value || sscanf(a->c.value, "%u %d.", &whose, &n) != 2 || whose >= w->n)
		fail_msg("client %u at server %d has popped what nobody has pushed", me, a->c.node);
	if (n > w->pushed[whose] || w->was_popped[whose][n] || n <= a->popped[whose])
		fail_msg("client %u at server %d has popped %d of %u after %d%s", me, a->c.node, n, whose,
			 a->popped[whose], w->was_popped[whose][n] ? ", a second time" : "");
	w->was_popped[whose][n] = true;
	a->popped[whose] = n;
	w->pops++;
}

/* The answer is there. Returns whether the client may begin something else. */
static bool go_on(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];

	switch (a->what) {
	case READ:
		check_read(w, me);
		break;
	case COUNT:
		check_count(w, me);
		break;
	case REPLACE:
		check_replace(w, me);
		break;
	case POP:
		check_pop(w, me);
		break;
	case EXIST:
		if ((a->c.number == 0) != (w->issued[me] > w->removed[me]))
			fail_msg("client %u at server %d: its own key is %sthere", me, a->c.node,
				 a->c.number ? "not " : "");
		break;
	case REMOVE:
		if (a->c.number != (int64_t)a->target)
			fail_msg("client %u at server %d has removed %" PRId64 " keys in place of %u", me, a->c.node,
				 a->c.number, a->target);
		break;
	case WAIT:
		if (a->c.number != 0 || a->awaits > w->gone)
			fail_msg("client %u at server %d: the wait for go/%d ended at %d", me, a->c.node, a->awaits,
				 w->gone);
		w->waiting--;
		break;
	case LOOK_UP:
		if (a->c.value_len >= sizeof(a->now))
			fail_msg("client %u at server %d has read what nobody has written", me, a->c.node);
		memcpy(a->now, a->c.value, a->c.value_len);
		a->now[a->c.value_len] = '\0';
		snprintf(a->next, sizeof(a->next), "%d by %u", atoi(a->now) + 1, me);
		done(&a->c);
		add_key(&a->c.out, HVD_TCPSTORE_COMPARE_SET, "swap");
		add_string(&a->c.out, a->now);
		add_string(&a->c.out, a->next);
		a->what = REPLACE;
		ask(&a->c, BYTES);
		return false;
	}
	done(&a->c);
	return true;
}

static void begin_wait(struct world *w, struct actor *a)
{
	char key[32];
	const char *keys[] = {key, "go/0"};

	a->what = WAIT;
	a->awaits = w->gone > 2 ? w->gone - 2 + (int)(dice(&w->dice) % 5) : 1;
	snprintf(key, sizeof(key), "go/%d", a->awaits);
	add_keys(&a->c.out, HVD_TCPSTORE_WAIT, keys, 2);
	w->waiting++;
	ask(&a->c, BYTE);
}

/* What has no answer: it goes in front of something that has. */
static void begin_silent(struct world *w, unsigned me, unsigned which)
{
	struct actor *a = &w->actors[me];
	char text[64];

	switch (which) {
	case 0:
		snprintf(text, sizeof(text), "%u %d.", me, ++w->pushed[me]);
		w->pushes++;
		add_pair(&a->c.out, HVD_TCPSTORE_QUEUE_PUSH, "queue", text);
		break;
	case 1:
		snprintf(text, sizeof(text), "%u %d.", me, ++w->appended[me]);
		add_pair(&a->c.out, HVD_TCPSTORE_APPEND, "appended", text);
		break;
	case 2:
		snprintf(text, sizeof(text), "go/%d", ++w->gone);
		set(&a->c, text, "!");
		break;
	default:
		write_own(w, me);
		break;
	}
}

static void begin(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	uint32_t roll = dice(&w->dice) % 100;
	char key[32];

	for (; dice(&w->dice) % 3 == 0; w->ops++)
		begin_silent(w, me, dice(&w->dice) % 6);
	w->ops++;
	if (roll < 45) {
		a->what = READ;
		a->target = dice(&w->dice) % w->n;
		snprintf(key, sizeof(key), "own/%u", a->target);
		add_key(&a->c.out, HVD_TCPSTORE_GET, key);
		ask(&a->c, BYTES);
	} else if (roll < 65) {
		a->what = COUNT;
		a->target = dice(&w->dice) % COUNTERS;
		w->counts[a->target]++;
		memcpy(a->at_begin, a->seen, sizeof(a->seen));
		snprintf(key, sizeof(key), "counter/%u", a->target);
		add_count(&a->c.out, HVD_TCPSTORE_ADD, key, 1);
		ask(&a->c, NUMBER);
	} else if (roll < 73) {
		a->what = LOOK_UP;
		add_key(&a->c.out, HVD_TCPSTORE_GET, "swap");
		ask(&a->c, BYTES);
	} else if (roll < 83) {
		a->what = POP;
		add_key(&a->c.out, HVD_TCPSTORE_QUEUE_POP, "queue");
		ask(&a->c, POPPED);
	} else if (roll < 88) {
		const char *mine = key;

		a->what = EXIST;
		snprintf(key, sizeof(key), "own/%u", me);
		add_keys(&a->c.out, HVD_TCPSTORE_CHECK, &mine, 1);
		ask(&a->c, BYTE);
	} else if (roll < 90) {
		a->what = REMOVE;
		a->target = w->issued[me] > w->removed[me];
		snprintf(key, sizeof(key), "own/%u", me);
		w->removed[me] = a->seen[me] = ++w->issued[me];
		add_key(&a->c.out, HVD_TCPSTORE_DELETE_KEY, key);
		ask(&a->c, NUMBER);
	} else if (w->waiting < w->n / 2) {
		begin_wait(w, a);
	} else {
		a->what = EXIST;
		snprintf(key, sizeof(key), "own/%u", me);
		add_keys(&a->c.out, HVD_TCPSTORE_CHECK, (const char *const[]){key}, 1);
		ask(&a->c, BYTE);
	}
}

/* All have ended what they did: every client reads the same, which is what was written. */
static void check_all_alike(struct world *w)
{
	int64_t keys = -1;
	char *appended = NULL;

	for (unsigned me = 0; me < w->n; me++) {
		struct client *c = &w->actors[me].c;
		char key[32], *text;
		int64_t n;

		for (unsigned i = 0; i < w->n; i++) {
			snprintf(key, sizeof(key), "own/%u", i);
			text = get(c, key);
			if (atoi(text) != (w->issued[i] > w->removed[i] ? w->issued[i] : 0))
				fail_msg("in the end client %u at server %d reads version %d of %u's key, not %d", me,
					 c->node, atoi(text), i, w->issued[i]);
			free(text);
		}
		for (unsigned k = 0; k < COUNTERS; k++) {
			char sum[32];

			snprintf(key, sizeof(key), "counter/%u", k);
			snprintf(sum, sizeof(sum), "%" PRId64, w->counts[k]);
			assert_get(c, key, sum);
		}
		text = get(c, "swap");
		assert_int_equal(atoi(text), w->replaced);
		free(text);
		text = get(c, "appended");
		if (appended)
			assert_string_equal(text, appended);
		free(appended);
		appended = text;
		add_query(&c->out, HVD_TCPSTORE_GETNUMKEYS);
		n = ask_number(c, NUMBER);
		assert_true(keys < 0 || keys == n);
		keys = n;
		add_key(&c->out, HVD_TCPSTORE_QUEUE_LEN, "queue");
		assert_int_equal(ask_number(c, NUMBER), w->pushes - w->pops);
	}
	for (unsigned i = 0; i < w->n; i++) {
		const char *at = appended;

		for (int n = 1; n <= w->appended[i]; n++) {
			char token[32];

			snprintf(token, sizeof(token), "%s%u %d.", at == appended ? "" : ".", i, n);
			at = strstr(at, token);
			if (!at)
				fail_msg("what client %u has appended as number %d is not there, or out of order", i,
					 n);
			at += strlen(token) - 1;
		}
	}
	for (int n = 1; n <= w->replaced; n++)
		assert_true(w->was_replaced[n]);
	free(appended);
}

/* Let the clients do things until there were so many; `disturb` is called between them. */
static void act(struct world *w, void (*disturb)(struct world *w))
{
	hvd_time end = hvd_deadline_in(120);
	unsigned busy = 1;

	while (w->ops < OPS || busy > 0) {
		turn(&w->tree, dice(&w->dice) % 50 == 0);
		busy = 0;
		for (unsigned i = 0; i < w->n; i++) {
			struct actor *a = &w->actors[i];

			if (answered(&a->c) && go_on(w, i) && w->ops < OPS) {
				begin(w, i);
				if (disturb)
					disturb(w);
			}
			busy += a->c.busy;
		}
		/* The others have ended: the waiters get what they wait for. */
		if (w->ops >= OPS && busy > 0 && busy == w->waiting) {
			struct client c;
			char key[32];

			come(&w->tree, &c, 0, 999, false);
			snprintf(key, sizeof(key), "go/%d", ++w->gone);
			set(&c, key, "!");
			check(&c, key);
			leave(&c);
		}
		if (hvd_now() > end)
			fail_msg("%u of %u clients get no answer, %u of them wait for keys", busy, w->n, w->waiting);
	}
}

static struct world *make_world(const int *nodes, unsigned n, uint32_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	plant(&w->tree);
	w->n = n;
	w->dice = seed;
	for (unsigned i = 0; i < n; i++)
		come(&w->tree, &w->actors[i].c, nodes[i], 5000 + i, true);
	set(&w->actors[0].c, "go/0", "!");
	for (unsigned i = 0; i < n; i++)
		begin(w, i);
	return w;
}

static void end_world(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++)
		leave(&w->actors[i].c);
	fell(&w->tree);
	free(w);
}

static const int everywhere[] = {0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};

TEST(all_read_what_was_written)
{
	struct world *w = make_world(everywhere, 14, 20261122);

	act(w, NULL);
	check_all_alike(w);
	end_world(w);
}

static void cut_some(struct world *w)
{
	if (dice(&w->dice) % 150 == 0)
		cut(&w->tree.nodes[1 + dice(&w->dice) % (NODES - 1)]);
}

TEST(also_while_connections_are_cut)
{
	struct world *w = make_world(everywhere, 14, 4711);
	unsigned lost = 0;

	act(w, cut_some);
	check_all_alike(w);
	for (int i = 1; i < NODES; i++)
		lost += w->tree.nodes[i].lost;
	assert_true(lost > 20);
	end_world(w);
}

/* Relay 1 ends with both of its children in mid-work, relay 2 later. No clients are theirs. */
static void end_inner(struct world *w)
{
	if (w->ops > OPS / 3 && w->tree.nodes[1].rv)
		relay_node_end(&w->tree.nodes[1]);
	if (w->ops > OPS / 2 && w->tree.nodes[2].rv)
		relay_node_end(&w->tree.nodes[2]);
}

TEST(also_when_inner_relays_end)
{
	static const int leaves[] = {0, 0, 3, 3, 4, 4, 5, 5, 6, 6, 7};
	struct world *w = make_world(leaves, 11, 815);

	act(w, end_inner);
	check_all_alike(w);
	for (int i = 3; i < 7; i++)
		assert_int_equal(w->tree.nodes[i].lost, 1);
	end_world(w);
}

RUN_TESTS(.no_sigpipe = true)
