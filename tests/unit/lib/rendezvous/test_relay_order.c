/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients at all servers of a tree of relays do thousands of things in random order. What they read is held against
 * what the store promises: a client reads what it has written itself, never something older than it has read before,
 * and never something older than what was written before a value that it has read. Counters, queues and comparisons
 * happen once each. Who waits is woken. All of that holds also while connections between the servers are cut, relays
 * end or have room for a few keys only, clients come and go, and the root forgets all.
 */
#include "relay_tree.h"

#include <inttypes.h>

#define CLIENTS 14 /* at most */
#define OPS     4000
#define PARTS   8 /* between which nothing is under way */

#define COUNTERS 3

enum what {
	READ,     /* some clients' own keys */
	READ_ALL, /* what all have appended to one key */
	COUNT,
	LOOK_UP, /* what the key of comparisons has, to replace it then */
	REPLACE,
	POP,
	EXIST, /* is my own key there, or the counter that I have counted? */
	REMOVE,
	WAIT,
	LINE, /* wait for a value in the queue of that name, to take it then */
	TAKE,
	MEET, /* a barrier of two */
};

struct actor {
	struct client c;
	enum what what;
	unsigned target;           /* READ: whose key; COUNT: which counter; EXIST, REMOVE: the answer */
	unsigned more;             /* READ: how many keys of the next clients follow */
	int seen[CLIENTS];         /* the least version that it may read of each client's key */
	int at_begin[CLIENTS];     /* COUNT: `seen` when it began */
	int popped[CLIENTS];       /* the last that it has popped of what each client has pushed */
	int64_t counted[COUNTERS]; /* the last answers */
	char now[64], next[64];    /* REPLACE */
	int awaits;                /* WAIT: the number of the key; MEET: of the barrier */
	bool cancels;              /* WAIT, LINE: the answer to CANCEL_WAIT follows */
	bool woken;                /* WAIT, LINE: there was an answer */
	size_t all;                /* READ_ALL: how much it was */
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
	int gone;             /* keys go/1 … go/`gone` are there */
	int line, taken, met; /* values that were put into the line and taken out of it; processes that have met */
	const int *homes;     /* the servers that clients may come to */
	int closing;          /* a relay at which nobody begins anything */
	unsigned waiting, ops;
	bool renewed;
	unsigned ended; /* relays */
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
	size_t pad = dice(&w->dice) % 8 ? dice(&w->dice) % 200 : dice(&w->dice) % 12 ? dice(&w->dice) % 5000 : 300000;
	int at;

	assert_non_null(text);
	a->seen[me] = ++w->issued[me];
	snprintf(key, sizeof(key), "own/%u", me);
	at = sprintf(text, "%d", a->seen[me]);
	for (int i = 0; i < CLIENTS; i++)
		at += sprintf(text + at, " %d", a->seen[i]);
	text[at++] = ' ';
	for (size_t i = 0; i < pad; i++) /* so that it cannot be compressed, and fills connections */
		text[at++] = (char)('a' + dice(&w->dice) % 26);
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

/* All that it has appended itself, and no less than it has read before. */
static void check_read_all(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	char *text = strndup(a->c.value, a->c.value_len), last[32];

	snprintf(last, sizeof(last), "%u %d.", me, w->appended[me]);
	if (a->c.value_len < a->all || (w->appended[me] > 0 && !strstr(text, last)))
		fail_msg("client %u at server %d has read %zu bytes of what was appended, after %zu%s", me, a->c.node,
			 a->c.value_len, a->all, strstr(text, last) ? "" : ", without its own");
	a->all = a->c.value_len;
	free(text);
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

/* WAIT, LINE: false, if another answer follows. */
static bool go_on_after_wait(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	bool is_there = a->c.number == 0;

	if (is_there ? a->what == WAIT && a->awaits > w->gone : !a->cancels)
		fail_msg("client %u at server %d: the wait for go/%d ended at %d", me, a->c.node, a->awaits, w->gone);
	w->waiting -= !a->woken;
	a->woken = true;
	if (a->cancels && is_there) {
		done(&a->c);
		a->c.busy = true;
		return false;
	}
	if (a->what == WAIT)
		return true;
	done(&a->c);
	add_key(&a->c.out, HVD_TCPSTORE_QUEUE_POP, "line");
	a->what = TAKE;
	ask(&a->c, POPPED);
	return false;
}

/* The answer is there. Returns whether the client may begin something else. */
static bool go_on(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];

	switch (a->what) {
	case READ:
		check_read(w, me);
		if (a->more == 0)
			break;
		a->more--;
		a->target = (a->target + 1) % w->n;
		done(&a->c);
		a->c.busy = true;
		return false;
	case READ_ALL:
		check_read_all(w, me);
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
		if (a->c.number != (int64_t)a->target)
			fail_msg("client %u at server %d: its own key or counter is %sthere", me, a->c.node,
				 a->c.number ? "not " : "");
		break;
	case REMOVE:
		if (a->c.number != (int64_t)a->target)
			fail_msg("client %u at server %d has removed %" PRId64 " keys in place of %u", me, a->c.node,
				 a->c.number, a->target);
		break;
	case WAIT:
	case LINE:
		if (!go_on_after_wait(w, me))
			return false;
		break;
	case MEET:
		if (a->c.number != 0 || 2 * a->awaits + 2 > w->met)
			fail_msg("client %u at server %d is alone at barrier %d", me, a->c.node, a->awaits);
		w->waiting--;
		break;
	case TAKE:
		if (a->c.number > 0 && ++w->taken > w->line)
			fail_msg("client %u at server %d has taken what nobody has put into the line", me, a->c.node);
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
	char key[32], also[32] = "go/0";
	const char *keys[] = {key, also, "go/0"};

	w->waiting++;
	a->cancels = a->woken = false;
	switch (dice(&w->dice) % 4) {
	case 0:
		a->what = LINE;
		keys[0] = "line";
		add_keys(&a->c.out, HVD_TCPSTORE_WAIT, keys, 1 + dice(&w->dice) % 2);
		a->cancels = dice(&w->dice) % 4 == 0;
		break;
	case 1:
		a->what = MEET;
		a->awaits = w->met++ / 2;
		snprintf(key, sizeof(key), "meet/%d", a->awaits);
		add_count(&a->c.out, HVD_TCPSTORE_BARRIER, key, 2);
		break;
	default:
		a->what = WAIT;
		a->awaits = w->gone > 2 ? w->gone - 2 + (int)(dice(&w->dice) % 5) : 1;
		snprintf(key, sizeof(key), "go/%d", a->awaits - 1);
		snprintf(also, sizeof(also), "go/%d", a->awaits);
		add_keys(&a->c.out, HVD_TCPSTORE_WAIT, keys, 2 + dice(&w->dice) % 2);
		a->cancels = dice(&w->dice) % 4 == 0;
		break;
	}
	if (a->cancels)
		add_query(&a->c.out, HVD_TCPSTORE_CANCEL_WAIT);
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
	case 3:
		if (w->line > w->taken) /* it is to be empty most of the time, so that clients wait */
			break;
		w->line++;
		add_pair(&a->c.out, HVD_TCPSTORE_QUEUE_PUSH, "line", "!");
		break;
	default:
		write_own(w, me);
		break;
	}
}

/* The client leaves, and comes to another server. */
static void move_to(struct world *w, unsigned me, int node)
{
	struct actor *a = &w->actors[me];

	if (a->c.fd > 0)
		leave(&a->c);
	come(&w->tree, &a->c, node, 5000 + me, true);
}

static void begin_read(struct world *w, struct actor *a)
{
	char names[3][32];
	const char *keys[3];

	a->what = READ;
	a->target = dice(&w->dice) % w->n;
	a->more = dice(&w->dice) % 4 ? 0 : 1 + dice(&w->dice) % 2;
	for (unsigned i = 0; i <= a->more; i++) {
		snprintf(names[i], sizeof(names[i]), "own/%u", (a->target + i) % w->n);
		keys[i] = names[i];
	}
	if (a->more == 0)
		add_key(&a->c.out, HVD_TCPSTORE_GET, keys[0]);
	else
		add_keys(&a->c.out, HVD_TCPSTORE_MULTI_GET, keys, a->more + 1);
	ask(&a->c, BYTES);
}

static void begin_exist(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	unsigned k = dice(&w->dice) % (2 * COUNTERS);
	char key[32];

	a->what = EXIST;
	if (k < COUNTERS && a->counted[k] > 0) {
		a->target = 0;
		snprintf(key, sizeof(key), "counter/%u", k);
	} else {
		a->target = w->issued[me] <= w->removed[me];
		snprintf(key, sizeof(key), "own/%u", me);
	}
	add_keys(&a->c.out, HVD_TCPSTORE_CHECK, (const char *const[]){key}, 1);
	ask(&a->c, BYTE);
}

static void begin(struct world *w, unsigned me)
{
	struct actor *a = &w->actors[me];
	uint32_t roll = dice(&w->dice) % 100;
	char key[32];

	if (w->closing > 0 && a->c.node == w->closing)
		return;
	if (dice(&w->dice) % 100 == 0)
		move_to(w, me, w->homes[dice(&w->dice) % w->n]);

	for (; dice(&w->dice) % 3 == 0; w->ops++)
		begin_silent(w, me, dice(&w->dice) % 7);
	w->ops++;
	if (roll < 38) {
		begin_read(w, a);
	} else if (roll < 45) {
		if (dice(&w->dice) % 3) /* what it appends is there when it reads */
			begin_silent(w, me, 1);
		a->what = READ_ALL;
		add_key(&a->c.out, HVD_TCPSTORE_GET, "appended");
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
		begin_exist(w, me);
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
		begin_exist(w, me);
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

		add(c, "fence", 1); /* behind all that has happened before: others may see that later */
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
		add_key(&c->out, HVD_TCPSTORE_QUEUE_LEN, "line");
		assert_int_equal(ask_number(c, NUMBER), w->line - w->taken);
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

/* The others have ended: those who wait get what they wait for. */
static void serve_waiters(struct world *w)
{
	struct client c;
	char key[32];

	come(&w->tree, &c, 0, 999, false);
	snprintf(key, sizeof(key), "go/%d", ++w->gone);
	add(&c, key, 1); /* which wakes otherwise than a value */
	add_key(&c.out, HVD_TCPSTORE_QUEUE_LEN, "line");
	if (ask_number(&c, NUMBER) == 0) {
		w->line++;
		add_pair(&c.out, HVD_TCPSTORE_QUEUE_PUSH, "line", "!");
	}
	if (w->met % 2) {
		snprintf(key, sizeof(key), "meet/%d", w->met++ / 2);
		add_count(&c.out, HVD_TCPSTORE_BARRIER, key, 2);
		ask_number(&c, BYTE);
	}
	check(&c, key); /* so that the value is in the line */
	leave(&c);
}

/* Let the clients do things until there were so many; `disturb` is called between them. */
static void act_until(struct world *w, unsigned ops, void (*disturb)(struct world *w))
{
	hvd_time end = hvd_deadline_in(40);
	unsigned busy = 1;

	for (unsigned i = 0; i < w->n; i++)
		begin(w, i);
	while (w->ops < ops || busy > 0) {
		turn(&w->tree, dice(&w->dice) % 50 == 0);
		busy = 0;
		for (unsigned i = 0; i < w->n; i++) {
			struct actor *a = &w->actors[i];

			if (answered(&a->c) && go_on(w, i) && w->ops < ops) {
				begin(w, i);
				if (disturb)
					disturb(w);
			}
			busy += a->c.busy;
		}
		if (w->ops >= ops && busy > 0 && busy == w->waiting)
			serve_waiters(w);
		if (hvd_now() > end)
			fail_msg("%u of %u clients get no answer, %u of them wait for keys", busy, w->n, w->waiting);
	}
}

static void act(struct world *w, void (*disturb)(struct world *w))
{
	for (unsigned part = 1; part <= PARTS; part++) {
		act_until(w, OPS / PARTS * part, disturb);
		check_all_alike(w);
	}
}

/* The clients come to a store in which there is nothing. */
static void begin_all(struct world *w)
{
	char key[32];

	for (unsigned i = 0; i < w->n; i++)
		move_to(w, i, w->homes[i]);
	set(&w->actors[0].c, "go/0", "!");
	for (int k = 0; k < COUNTERS; k++) {
		snprintf(key, sizeof(key), "counter/%d", k);
		set(&w->actors[0].c, key, "0");
	}
	check(&w->actors[0].c, "go/0");
	for (unsigned i = 0; i < w->n; i++)
		assert_get(&w->actors[i].c, "counter/0", "0"); /* as a value, before anybody counts */
}

/* With `tight`, relays have room for a few keys only. */
static struct world *make_world(const int *homes, unsigned n, uint32_t seed, bool tight)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	plant_with(&w->tree, tight ? 6 : 0, tight ? 4 << 20 : 0);
	w->homes = homes;
	w->n = n;
	w->dice = seed;
	begin_all(w);
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
	struct world *w = make_world(everywhere, 14, 20261122, false);

	act(w, NULL);
	end_world(w);
}

TEST(also_where_relays_forget)
{
	struct world *w = make_world(everywhere, 14, 1848, true);

	act(w, NULL);
	for (int i = 1; i < NODES; i++) {
		struct hvd_rv_stats stats;

		hvd_rv_stats(w->tree.nodes[i].rv, &stats);
		assert_int_in_range(stats.store.keys, 0, 16);
	}
	end_world(w);
}

/* The root forgets all, and closes all connections. The clients come again. */
static void renew(struct world *w)
{
	hvd_time end = hvd_deadline_in(20);

	if (w->ops < OPS / 2 || w->renewed)
		return;
	hvd_rv_tcpstore_reset(w->tree.nodes[0].rv);
	for (unsigned i = 0; i < w->n; i++) {
		while (!w->actors[i].c.closed) {
			turn(&w->tree, true);
			assert_true(hvd_now() < end);
		}
		leave(&w->actors[i].c);
	}
	*w = (struct world){
		.tree = w->tree, .homes = w->homes, .n = w->n, .dice = w->dice, .ops = w->ops, .renewed = true};
	begin_all(w);
	for (unsigned i = 0; i < w->n; i++)
		begin(w, i);
}

TEST(also_after_all_was_forgotten)
{
	struct world *w = make_world(everywhere, 14, 1789, false);

	act(w, renew);
	end_world(w);
}

static void cut_some(struct world *w)
{
	if (dice(&w->dice) % 20 == 0)
		cut(&w->tree.nodes[1 + dice(&w->dice) % (NODES - 1)]);
}

TEST(also_while_connections_are_cut)
{
	struct world *w = make_world(everywhere, 14, 4711, false);
	unsigned lost = 0;

	act(w, cut_some);
	for (int i = 1; i < NODES; i++)
		lost += w->tree.nodes[i].lost;
	assert_true(lost > 50);
	end_world(w);
}

/* A relay ends with its clients and with its children in mid-work. What its clients do is done: nobody could tell
 * whether the rest has happened. Its clients come again, here if another process is the same relay now. */
static bool end_relay(struct world *w, int node, bool again)
{
	w->closing = node;
	for (unsigned i = 0; i < w->n; i++)
		if (w->actors[i].c.node == node && w->actors[i].c.busy)
			return false;
	relay_node_end(&w->tree.nodes[node]);
	if (again)
		start_node(&w->tree, node, 0, false);
	w->closing = 0;
	for (unsigned i = 0; i < w->n; i++)
		if (w->actors[i].c.node == node) {
			move_to(w, i, again ? node : 0);
			begin(w, i);
		}
	return true;
}

static void end_inner(struct world *w)
{
	if (w->ops > OPS / 3 && w->ended == 0)
		w->ended += end_relay(w, 1, true);
	if (w->ops > OPS / 2 && w->ended == 1)
		w->ended += end_relay(w, 2, false);
}

TEST(also_when_inner_relays_end)
{
	static const int homes[] = {0, 0, 1, 1, 3, 3, 4, 4, 5, 5, 6, 6, 7};
	struct world *w = make_world(homes, 13, 815, false);

	act(w, end_inner);
	assert_int_equal(w->ended, 2);
	for (int i = 3; i < 7; i++)
		assert_int_equal(w->tree.nodes[i].lost, 1);
	end_world(w);
}

RUN_TESTS(.no_sigpipe = true)
