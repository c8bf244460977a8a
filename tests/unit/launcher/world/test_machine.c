/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elastic state machine against a simulated job: hosts, processes and a clock that are made up here. What must
 * always hold is checked in the ops; the histories are random, from fixed seeds.
 */
#include "machine_sim.h"

#include <stdio.h>
#include <string.h>

#define GRACE     1.0
#define CUT_GRACE 15.0

/* ---- what the machine wants ---- */

static void on_host_begin(uint32_t host, void *arg)
{
	struct sim *s = arg;

	assert_true(host < 64);
	assert_false(s->agent[host]);
	assert_true(s->m->hosts[host].listed);
	assert_true(s->m->hosts[host].banned_until <= s->now);
	s->agent[host] = true;
}

/* What holds of places, given out for a next generation or in force. */
static void check_places(const struct sim *s, const struct hvd_worker_group *group, bool first)
{
	struct hvd_layout layout;
	int old = 0;

	assert_false(s->over);
	assert_true(group->n >= s->opts.min_np);
	assert_true(!s->opts.max_np || group->n <= s->opts.max_np);
	for (int r = 0; r < group->n; r++) {
		const struct hvd_worker *w = group->v[r];

		assert_true(!w->fresh || w->rank == r);
		assert_true(s->m->hosts[w->host].stage == HVD_STAGE_HERE);
		assert_true(s->m->hosts[w->host].banned_until <= s->now);
		old += !w->fresh;
		for (int q = 0; q < r; q++)
			assert_false(group->v[q]->host == w->host && group->v[q]->slot == w->slot);
	}
	/* Local ranks have no gaps. */
	assert_int_equal(hvd_machine_layout(s->m, group == &s->m->next, &layout, NULL), 0);
	for (int r = 0; r < group->n; r++)
		assert_int_equal(layout.rank_slots[r].local_rank, group->v[r]->slot);
	hvd_layout_clear(&layout);
	if (!first) {
		assert_true(old > 0);
		assert_false(group->v[0]->fresh);
	}
}

static void on_prepare(void *arg)
{
	struct sim *s = arg;

	check_places(s, &s->m->next, hvd_machine_generation(s->m) == 0);
	s->prepared = true;
	for (int r = 0; r < s->m->next.n; r++)
		assert_true(!s->m->next.v[r]->fresh || s->m->next.v[r]->id >= s->n_procs); /* nobody was started yet */
	if (s->m->phase != HVD_RUNNING)
		return;
	assert_true(s->m->gen.connected);
	assert_false(s->m->gen.died || s->m->gen.success);
	s->beside++;
}

static void on_generation(bool prepared, void *arg)
{
	struct sim *s = arg;

	assert_true(s->prepared);
	s->notify_due = 0; /* what is under way is given up */
	s->generations++;
	s->in_generation = true;
	check_places(s, &s->m->now, hvd_machine_generation(s->m) == 1);
	if (hvd_machine_generation(s->m) == 1)
		assert_true(s->m->now.n >= s->opts.np || s->lost_first);
	for (int r = 0; r < s->m->now.n; r++) {
		const struct hvd_worker *w = hvd_machine_member(s->m, r);

		assert_int_equal(w->rank, r);
		if (!w->fresh)
			assert_int_equal(w->state, HVD_WORKER_READY);
		else
			assert_true(prepared == (w->id < s->n_procs));
	}
	/* Nobody may still speak at the rendezvous in the name of a generation that was given up. */
	for (uint32_t i = 0; i < s->n_procs; i++)
		assert_false(s->procs[i].alive && s->procs[i].told && !s->procs[i].member);
}

static void on_start(const struct hvd_worker *w, void *arg)
{
	struct sim *s = arg;

	assert_true(s->prepared || (s->m->phase == HVD_RUNNING && !s->m->gen.connected));
	assert_int_equal(w->id, s->n_procs);
	assert_true(s->agent[w->host]);
	for (uint32_t i = 0; i < s->n_procs; i++)
		assert_false(s->procs[i].alive && s->procs[i].host == w->host && s->procs[i].slot == w->slot);
	assert_true(s->n_procs < MAX_PROCS);
	s->procs[s->n_procs++] = (struct proc){.alive = true, .host = w->host, .slot = w->slot};
}

static void on_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct sim *s = arg;

	(void)at_once;
	assert_false(s->procs[w->id].told);
	s->procs[w->id].told = true;
}

static void on_answer(void *arg)
{
	struct sim *s = arg;

	assert_true(s->in_generation);
	s->in_generation = s->prepared = false;
	s->answers++;
	for (int r = 0; r < s->m->now.n; r++) {
		const struct hvd_worker *w = hvd_machine_member(s->m, r);

		assert_true(s->procs[w->id].alive);
		assert_true(w->fresh ? s->procs[w->id].arrived : w->state == HVD_WORKER_READY);
		s->procs[w->id].trains = s->procs[w->id].member = true;
		s->procs[w->id].silent = false;
	}
}

static void on_notify(uint32_t worker, void *arg)
{
	struct sim *s = arg;

	assert_int_equal(worker, hvd_machine_member(s->m, 0)->id);
	assert_int_equal(s->notify_due, 0);
	/* Nobody who trains is to wait for one that is still starting. */
	assert_int_equal(hvd_worker_group_count(&s->m->next, HVD_WORKER_STARTING), 0);
	s->notify_due = 1;
	s->notifies++;
}

static void on_cut(void *arg)
{
	struct sim *s = arg;

	assert_false(s->m->gen.success);
	s->cuts++;
}

static const struct hvd_machine_ops ops = {on_host_begin, on_host_end, on_give_up, on_prepare, on_generation,
					   on_start,      on_end,      on_answer,  on_notify,  on_cut,
					   on_finish,     NULL,        NULL,       NULL,       NULL};

static struct sim *begin(struct hvd_machine_opts opts, unsigned seed)
{
	struct sim *s = hvd_xcalloc(1, sizeof(*s));

	s->now = SECOND;
	s->seed = seed * 2654435761u + 1;
	if (opts.elastic_timeout == 0)
		opts.elastic_timeout = 600;
	if (opts.patience == 0)
		opts.patience = 600;
	opts.silent_grace = GRACE;
	opts.kill_grace = CUT_GRACE;
	s->opts = opts;
	s->m = hvd_machine_create(&opts, s->now, &ops, s, NULL);
	return s;
}

/* ---- what happens ---- */

static void arrive_one(struct sim *s, uint32_t i)
{
	if (!s->procs[i].alive || s->procs[i].arrived || s->procs[i].told)
		return;
	s->procs[i].arrived = true;
	if (s->m->phase == HVD_RUNNING && hvd_worker_group_has(&s->m->now, hvd_machine_worker(s->m, i)))
		s->procs[i].trains = s->procs[i].member = true; /* in another's place */
	hvd_machine_arrived(s->m, i, s->now);
}

static void arrive(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_procs; i++)
		arrive_one(s, i);
}

static void die(struct sim *s, uint32_t id, int status)
{
	if (!s->procs[id].alive)
		return;
	s->procs[id].alive = s->procs[id].trains = false;
	hvd_machine_exited(s->m, id, status, s->now);
}

static void ready(struct sim *s, uint32_t id)
{
	if (s->procs[id].alive && s->procs[id].trains && !s->procs[id].silent) {
		s->procs[id].trains = false;
		hvd_machine_ready(s->m, id, s->now);
	}
}

/* All ranks of this generation are ready; the last one's word begins another. */
static void all_ready(struct sim *s)
{
	int answers = s->answers;

	for (uint32_t i = 0; i < s->n_procs && s->answers == answers; i++)
		ready(s, i);
}

static void hear(struct sim *s, bool heard)
{
	if (s->notify_due) {
		s->notify_due = 0;
		hvd_machine_notified(s->m, heard, s->now);
	}
}

/* All members of the generation, if they live, say where they listen and connect to each other. */
static void meet(struct sim *s)
{
	for (int r = 0; r < s->m->now.n; r++)
		if (s->m->phase != HVD_RUNNING || !s->procs[s->m->now.v[r]->id].trains)
			return;
	for (int r = 0; r < s->m->now.n; r++)
		hvd_machine_arrived(s->m, s->m->now.v[r]->id, s->now);
	hvd_machine_connected(s->m, s->now);
}

static int rank_of(const struct sim *s, const char *host, int slot)
{
	for (int r = 0; r < s->m->now.n; r++) {
		const struct hvd_worker *w = hvd_machine_member(s->m, r);

		if (w->slot == slot && strcmp(hvd_machine_host(s->m, w->host), host) == 0)
			return r;
	}
	return -1;
}

static uint32_t id_at(const struct sim *s, const char *host, int slot)
{
	return hvd_machine_member(s->m, rank_of(s, host, slot))->id;
}

static struct sim *running(struct hvd_machine_opts opts, const char *hosts)
{
	struct sim *s = begin(opts, 1);

	list(s, hosts);
	come(s);
	pass(s, 10);
	arrive(s);
	assert_int_equal(s->answers, 1);
	meet(s);
	return s;
}

/* Those that were started for a next generation come, rank 0 is told, and all ask for their places. */
static void change(struct sim *s)
{
	int answers = s->answers;

	arrive(s);
	hear(s, true);
	all_ready(s);
	assert_int_equal(s->answers, answers + 1);
	meet(s);
}

#define DEFAULTS .reset_limit = -1, .settle = 2

/* ---- single rules ---- */

static void one_generation(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 4, DEFAULTS}, "a:2,b:2");

	(void)state;
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(rank_of(s, "a", 0), 0);
	assert_int_equal(rank_of(s, "b", 1), 3);
	for (uint32_t i = 0; i < 4; i++) {
		assert_false(s->over);
		die(s, i, 0);
	}
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_OK);
	assert_int_equal(s->status, 0);
	end(s);
}

static void host_added_and_removed(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:2,b:2");

	(void)state;
	list(s, "c:2,a:2,b:2");
	assert_int_equal(s->n_procs, 4); /* not before its node agent is there */
	come(s);
	assert_int_equal(s->n_procs, 6);
	pass(s, 5);
	assert_int_equal(s->notifies, 0); /* the new ones have not come yet */
	arrive(s);
	assert_int_equal(s->notifies, 1);
	hear(s, true);
	pass(s, 5);
	assert_int_equal(s->notifies, 1);
	pass(s, 20); /* rank 0 may have been in hvd.init() */
	assert_int_equal(s->notifies, 2);
	hear(s, true);
	pass(s, 5);
	assert_int_equal(s->notifies, 2);
	all_ready(s);
	assert_int_equal(s->answers, 2);
	meet(s);
	assert_int_equal(s->m->now.n, 6);
	assert_int_equal(rank_of(s, "a", 0), 0);
	assert_int_equal(rank_of(s, "c", 0), 4);
	list(s, "c:2,b:2"); /* nobody new: told at once */
	change(s);
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(rank_of(s, "b", 0), 0);
	assert_true(s->procs[0].told && s->procs[1].told);
	assert_true(s->agent[0]);
	obey(s);
	assert_false(s->agent[0]);
	end(s);
}

static void failure_bans_the_host(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, DEFAULTS}, "a:2,b:2");
	uint32_t b0 = id_at(s, "b", 0);

	(void)state;
	die(s, id_at(s, "b", 1), SIGKILL);
	ready(s, 0);
	ready(s, 1);
	assert_int_equal(s->answers, 1);
	ready(s, b0);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->m->now.n, 2);
	assert_true(s->procs[b0].told);
	end(s);
}

static void silent_survivor_is_replaced(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 4, DEFAULTS}, "a:2,b:2,c:2");
	uint32_t a1 = id_at(s, "a", 1);
	double grace = *state ? GRACE : CUT_GRACE;

	assert_int_equal(s->m->now.n, 6);
	s->procs[a1].silent = true;
	die(s, id_at(s, "c", 0), SIGKILL);
	pass(s, 5);
	assert_false(s->procs[a1].told); /* nobody waits for it */
	assert_int_equal(s->cuts, 0);
	all_ready(s);
	assert_int_equal(s->cuts, 1);
	if (*state)
		hvd_machine_kill_failed(s->m, s->now);
	pass(s, grace * 0.9);
	assert_false(s->procs[a1].told);
	pass(s, grace * 0.2);
	assert_int_equal(s->cuts, 1);
	assert_true(s->procs[a1].told);
	obey(s);
	assert_int_equal(s->answers, 1);
	arrive(s);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->m->now.n, 4); /* c is banned, a is not */
	assert_int_equal(rank_of(s, "a", 1), 1);
	end(s);
}

/* Who has just started is never rank 0. */
static void rank_0_survives(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 4, DEFAULTS}, "a:2,b:2");

	(void)state;
	die(s, id_at(s, "a", 0), SIGKILL);
	all_ready(s);
	arrive(s);
	assert_int_equal(s->answers, 2); /* there is no other host: a is kept */
	assert_int_equal(rank_of(s, "a", 1), 0);
	assert_int_equal(rank_of(s, "a", 0), 1);
	end(s);
}

static void failing_again_and_again_ends(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:2");
	int times = 0;

	(void)state;
	while (!s->over && times < 10) {
		die(s, id_at(s, "a", 1), 3 << 8);
		all_ready(s);
		obey(s);
		arrive(s);
		times++;
	}
	assert_true(s->over);
	assert_int_equal(times, 4);
	assert_int_equal(s->status, 3);
	end(s);
}

static void all_fail(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:1,b:1");

	(void)state;
	die(s, 0, 7 << 8);
	die(s, 1, SIGABRT);
	assert_true(s->over);
	assert_int_equal(s->status, 7);
	assert_string_equal(s->why.host, "a");
	end(s);
}

/* A program that cannot start is not started over and over. */
static void all_fail_at_first(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 2, .min_np = 1, DEFAULTS}, 1);

	(void)state;
	list(s, "a:1,b:1");
	come(s);
	die(s, 0, 1 << 8);
	assert_false(s->over);
	die(s, 1, 1 << 8);
	assert_true(s->over);
	assert_int_equal(s->status, 1);
	end(s);
}

/* A new worker that dies before it has come does no harm to those that wait. */
static void failure_while_starting(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:2");

	(void)state;
	list(s, "a:2,b:1,c:1");
	come(s);
	die(s, s->m->next.v[2]->id, 1 << 8);
	assert_true(s->procs[3].told); /* its rank would be another one */
	assert_int_equal(s->n_procs, 4);
	assert_int_equal(s->m->phase, HVD_RUNNING);
	obey(s);
	assert_int_equal(s->n_procs, 5);
	change(s);
	assert_int_equal(s->notifies, 1);
	assert_int_equal(s->m->now.n, 3);
	assert_int_equal(rank_of(s, "b", 0), -1);
	assert_int_equal(hvd_machine_generation(s->m), 2);
	end(s);
}

static void reset_limit(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.np = 2, .min_np = 1, .reset_limit = 1, .settle = 2}, "a:1,b:1,c:1");

	(void)state;
	die(s, id_at(s, "c", 0), SIGKILL);
	all_ready(s);
	assert_int_equal(s->answers, 2);
	meet(s);
	die(s, id_at(s, "b", 0), SIGKILL);
	all_ready(s);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_LIMIT);
	end(s);
}

static void slots_that_never_come(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 4, .min_np = 4, .elastic_timeout = 20, DEFAULTS}, 1);

	(void)state;
	list(s, "a:2");
	come(s);
	pass(s, 19);
	assert_false(s->over);
	pass(s, 2);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_TIMEOUT);
	end(s);
}

/* Below the least number the survivors are kept waiting, and go on when hosts come. */
static void waits_for_hosts(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.np = 4, .min_np = 4, .elastic_timeout = 60, DEFAULTS}, "a:2,b:2");

	(void)state;
	hvd_machine_host_gone(s->m, 1, HVD_HOST_LOST, s->now);
	s->agent[1] = false;
	s->procs[2].alive = s->procs[3].alive = false;
	all_ready(s);
	pass(s, 30);
	assert_false(s->over);
	list(s, "a:2");
	list(s, "a:2,b:2");
	come(s);
	arrive(s);
	assert_int_equal(s->answers, 2);
	end(s);
}

static void cooldown_ends(void **state)
{
	struct sim *s = running(
		(struct hvd_machine_opts){.np = 2, .min_np = 1, .cooldown_min = 10, .cooldown_max = 15, DEFAULTS},
		"a:1,b:1");

	(void)state;
	for (int i = 0; i < 2; i++) {
		die(s, id_at(s, "b", 0), SIGKILL);
		all_ready(s);
		assert_int_equal(s->m->now.n, 1);
		pass(s, i ? 14 : 9);
		assert_int_equal(s->notifies, i);
		meet(s);
		pass(s, 2);
		assert_int_equal(s->notifies, i);
		change(s);
		assert_int_equal(s->notifies, i + 1);
		assert_int_equal(s->m->now.n, 2);
	}
	end(s);
}

/* All hosts are replaced: one stays until the others have its state. */
static void state_is_handed_over(void **state)
{
	int most = *state ? 2 : 0;
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .max_np = most, DEFAULTS}, "a:2");

	list(s, "b:2");
	come(s);
	change(s);
	assert_int_equal(s->m->now.n, most ? 2 : 4);
	assert_int_equal(rank_of(s, "a", 0), 0);
	obey(s);
	come(s);
	change(s);
	assert_int_equal(s->m->now.n, 2);
	assert_int_equal(rank_of(s, "b", 0), 0);
	end(s);
}

/* A node that is taken away kills its ranks first. When it comes again it is as good as any. */
static void going_is_no_failure(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 1, DEFAULTS}, "a:1,b:1");

	(void)state;
	die(s, id_at(s, "b", 0), SIGTERM);
	all_ready(s);
	assert_int_equal(s->m->now.n, 1);
	meet(s);
	list(s, "a:1");
	list(s, "a:1,b:1");
	come(s);
	change(s);
	assert_int_equal(s->m->now.n, 2);
	end(s);
}

static void aborting_is_not_held_against(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 3, .min_np = 1, DEFAULTS}, "a:1,b:1,c:1");

	(void)state;
	die(s, id_at(s, "c", 0), SIGKILL);
	die(s, id_at(s, "b", 0), SIGABRT);
	all_ready(s);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->m->now.n, 1);
	meet(s);
	change(s);
	assert_int_equal(s->m->now.n, 2);
	assert_int_equal(rank_of(s, "c", 0), -1);
	end(s);
}

/* Those who train do not wait for those who start, when they are enough. What fills the gap is no reset. */
static void survivors_go_on_first(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_np = 4, .reset_limit = 1, .settle = 2},
			"a:2,b:2,c:2");

	(void)state;
	assert_int_equal(s->m->now.n, 4);
	die(s, id_at(s, "b", 1), SIGKILL);
	all_ready(s);
	assert_int_equal(s->answers, 2);
	assert_int_equal(s->m->now.n, 2);
	obey(s);
	assert_int_equal(s->n_procs, 4); /* not before they have met */
	meet(s);
	assert_int_equal(s->n_procs, 6);
	change(s);
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(rank_of(s, "c", 1), 3);
	list(s, "a:2,b:2,c:1"); /* a second reset */
	hear(s, true);
	all_ready(s);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_LIMIT);
	end(s);
}

/* At the limit new hosts are no reason to end. */
static void no_growth_beyond_the_limit(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .reset_limit = 0, .settle = 2}, "a:2");

	(void)state;
	list(s, "a:2,b:2");
	come(s);
	pass(s, 10);
	assert_int_equal(s->n_procs, 2);
	assert_int_equal(s->notifies, 0);
	end(s);
}

static void hosts_change_while_ranks_start(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:2,b:2");

	(void)state;
	list(s, "a:2,b:2,c:2");
	come(s);
	assert_int_equal(s->n_procs, 6);
	list(s, "a:2,b:2,c:2,d:2"); /* one more: it waits for its turn */
	come(s);
	assert_int_equal(s->n_procs, 6);
	change(s);
	assert_int_equal(s->m->now.n, 6);
	assert_int_equal(s->n_procs, 8);
	list(s, "a:2,c:2,d:2"); /* one goes: that comes first */
	assert_true(s->procs[6].told && s->procs[7].told);
	assert_int_equal(s->notifies, 2);
	obey(s);
	change(s);
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(rank_of(s, "b", 0), -1);
	obey(s);
	change(s);
	assert_int_equal(s->m->now.n, 6);
	end(s);
}

static void those_who_never_come(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .patience = 60, DEFAULTS}, "a:2");

	(void)state;
	list(s, "a:2,b:2");
	come(s);
	pass(s, 59);
	assert_false(s->procs[2].told);
	pass(s, 2);
	assert_true(s->procs[2].told && s->procs[3].told);
	assert_int_equal(s->m->hosts[1].banned_until, HVD_FOREVER);
	assert_int_equal(s->m->phase, HVD_RUNNING);
	end(s);
	/* Those that train have asked for places, and wait. */
	s = running((struct hvd_machine_opts){.np = 4, .min_np = 4, .patience = 60, DEFAULTS}, "a:2,b:3");
	die(s, id_at(s, "b", 1), SIGKILL);
	all_ready(s);
	pass(s, 59);
	assert_false(s->procs[s->n_procs - 1].told);
	pass(s, 2);
	assert_true(s->procs[s->n_procs - 1].told);
	assert_false(s->over);
	end(s);
}

/* What the first ranks do before they come is their own business; --elastic-timeout is for slots. */
static void first_ranks_take_their_time(void **state)
{
	struct sim *s = begin(
		(struct hvd_machine_opts){.np = 2, .min_np = 2, .elastic_timeout = 3, .patience = 60, DEFAULTS}, 1);

	(void)state;
	list(s, "a:2");
	pass(s, 8); /* so long its shim takes to start */
	assert_false(s->over);
	come(s);
	pass(s, 8);
	assert_false(s->over);
	pass(s, 3600);
	assert_false(s->over);
	arrive(s);
	assert_int_equal(s->answers, 1);
	end(s);
}

/* The time for slots counts from when it is known that there are too few. */
static void host_that_does_not_come(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 4,
							.min_np = 4,
							.elastic_timeout = 3,
							.patience = 60,
							.cooldown_min = 1,
							.cooldown_max = 1,
							DEFAULTS},
			      1);

	(void)state;
	list(s, "a:2,b:2");
	hvd_machine_host_here(s->m, 0, s->now);
	pass(s, 30);
	assert_false(s->over);
	hvd_machine_host_gone(s->m, 1, HVD_HOST_LOST, s->now);
	s->agent[1] = false;
	pass(s, 2);
	assert_false(s->over); /* it is being tried again; how long that takes does not count any more */
	pass(s, 2);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_TIMEOUT);
	assert_in(s->why.msg, "there were not enough slots for 3 seconds: 2, but 4 ranks are needed");
	end(s);
}

/* Nothing is awaited that cannot come. */
static void hosts_of_which_none_can_be_used(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 4, .min_np = 4, DEFAULTS}, 1);

	(void)state;
	list(s, "a:2,b:2");
	hvd_machine_host_gone(s->m, 0, HVD_HOST_UNFIT, s->now);
	s->agent[0] = false;
	/* A host that is listed again counts as repaired, but not as fit. */
	list(s, "b:2");
	list(s, "a:2,b:2");
	pass(s, 1);
	assert_false(s->over);
	hvd_machine_host_gone(s->m, 1, HVD_HOST_UNFIT, s->now);
	s->agent[1] = false;
	pass(s, 1);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_FAILED);
	assert_in(s->why.msg, "none of the hosts can be used");
	end(s);
}

/* One goes after the answer, before it has said where it listens: the others wait for its word. */
static void one_goes_before_they_have_met(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, DEFAULTS}, "a:2,b:2");

	(void)state;
	list(s, "a:2,b:1");
	hear(s, true);
	all_ready(s);
	obey(s);
	assert_int_equal(s->m->now.n, 3);
	die(s, id_at(s, "b", 0), SIGKILL);
	assert_int_equal(s->n_procs, 5); /* another one, with its place */
	assert_int_equal(hvd_machine_newcomer(s->m, 2)->id, 4);
	assert_int_equal(s->answers, 2);
	arrive(s);
	assert_null(hvd_machine_newcomer(s->m, 2));
	meet(s);
	die(s, id_at(s, "b", 0), SIGKILL); /* now it is a failure as any */
	all_ready(s);
	assert_int_equal(s->answers, 3);
	assert_int_equal(s->m->now.n, 2);
	die(s, id_at(s, "a", 0), SIGKILL); /* it had the state for the others */
	assert_true(s->over);
	assert_int_equal(s->status, 137);
	assert_non_null(strstr(s->why.msg, "rank 0 was lost while the ranks of generation 3 were connecting"));
	end(s);
}

/* The same when one goes, and another one does not answer. */
static void some_never_meet(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 3, .min_np = 1, .patience = 300, DEFAULTS}, "a:3");

	(void)state;
	list(s, "a:2");
	hear(s, true);
	all_ready(s);
	obey(s);
	assert_int_equal(s->answers, 2);
	hvd_machine_arrived(s->m, id_at(s, "a", 0), s->now);
	pass(s, 200);
	assert_false(s->over);
	die(s, id_at(s, "a", 0), SIGABRT);
	pass(s, 59);
	assert_false(s->over);
	pass(s, 2);
	assert_true(s->over);
	assert_int_equal(s->status, 134);
	end(s);
	s = running((struct hvd_machine_opts){.np = 2, .min_np = 1, .patience = 300, DEFAULTS}, "a:2");
	all_ready(s);
	assert_int_equal(s->answers, 2);
	pass(s, 301);
	assert_true(s->over);
	assert_int_equal(s->why.code, HVD_E_TIMEOUT);
	assert_int_equal(s->status, 1);
	end(s);
}

/* One that was killed does not end: a file system hangs, perhaps. */
static void killed_but_does_not_end(void **state)
{
	struct hvd_machine_opts opts = {.np = 2, .min_np = 2, .patience = 60, DEFAULTS};
	struct sim *s = running(opts, "a:3");

	(void)state;
	s->procs[2].silent = true;
	die(s, id_at(s, "a", 1), SIGKILL);
	all_ready(s);
	pass(s, CUT_GRACE + 1);
	assert_true(s->procs[2].told);
	pass(s, 50);
	assert_false(s->over);
	pass(s, 20);
	assert_int_equal(s->given_up, 1); /* and no host is left */
	assert_true(s->over);
	assert_int_equal(s->status, 137);
	end(s);

	s = running(opts, "a:2");
	list(s, "a:2,b:2");
	come(s);
	list(s, "a:2"); /* those who start on b are not wanted any longer */
	assert_true(s->procs[2].told);
	die(s, id_at(s, "a", 1), SIGKILL);
	all_ready(s);
	pass(s, 59);
	assert_int_equal(s->given_up + s->over, 0);
	pass(s, 2);
	assert_int_equal(s->given_up, 1);
	assert_false(s->agent[1]);
	assert_int_equal(s->m->phase, HVD_STARTING); /* the rank that was killed is started again on a */
	end(s);
}

/* Somebody is ready though nobody is known to have died. */
static void connections_break_by_themselves(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, DEFAULTS}, "a:2");

	(void)state;
	ready(s, 0);
	pass(s, 5);
	assert_int_equal(s->cuts, 0);
	pass(s, 6);
	assert_int_equal(s->cuts, 1);
	ready(s, 1);
	assert_int_equal(s->answers, 2);
	end(s);
}

/* ---- random histories ---- */

static void one_event(struct sim *s)
{
	uint32_t any = s->n_procs ? s->n_procs - 1 - rnd(s, s->n_procs < 16 ? s->n_procs : 16) : 0;
	uint32_t host = s->m->n_hosts ? rnd(s, s->m->n_hosts) : 0;
	/* In every other history failures are rare, and nobody asks for a place without a reason. */
	bool gentle = s->gentle && rnd(s, 8);
	bool excited = s->gentle ? s->m->gen.notified || s->m->gen.died : s->notifies > 0 || s->m->gen.died;

	if (rnd(s, 2))
		meet(s);
	switch (rnd(s, 15)) {
	case 0:
		random_list(s);
		break;
	case 1:
	case 2:
		if (s->m->n_hosts && s->agent[host])
			hvd_machine_host_here(s->m, host, s->now);
		break;
	case 3:
		if (s->m->n_hosts && s->agent[host] && !gentle && rnd(s, 3) == 0) {
			for (uint32_t i = 0; i < s->n_procs; i++)
				if (s->procs[i].host == host)
					s->procs[i].alive = s->procs[i].trains = false;
			s->agent[host] = false;
			s->lost_first |= hvd_machine_generation(s->m) == 0;
			hvd_machine_host_gone(s->m, host, rnd(s, 9) ? HVD_HOST_LOST : HVD_HOST_UNFIT, s->now);
		}
		break;
	case 4:
		if (s->n_procs && !gentle)
			die(s, any, rnd(s, 3) ? SIGKILL : rnd(s, 2) ? SIGABRT : 1 << 8);
		break;
	case 5:
		if (s->n_procs && excited && !gentle)
			s->procs[any].silent = true;
		break;
	case 6:
	case 7:
		if (s->n_procs)
			arrive_one(s, any);
		break;
	case 8:
	case 9:
	case 10:
		if (s->n_procs && excited)
			ready(s, any);
		break;
	case 11:
		hear(s, rnd(s, 4) != 0);
		break;
	case 12:
		obey(s);
		break;
	case 13:
		if (s->cuts && rnd(s, 2))
			hvd_machine_kill_failed(s->m, s->now);
		break;
	default:
		pass(s, rnd(s, 100) / 50.0);
	}
}

/* Nothing bad happens any more: it must come to rest, training or over. */
static void calm(struct sim *s)
{
	bool resting = false;

	if (!s->over)
		list(s, "h0:2,h1:2,h2:2,h3:2,h4:2,h5:2,new1:2,new2:2,new3:2");
	for (int i = 0; i < 200 && !s->over && !resting; i++) {
		/* Where nobody is ready a silent one ends its wait by itself: Gloo has a timeout. */
		for (uint32_t p = 0; p < s->n_procs && i == 40; p++)
			s->procs[p].silent = false;
		come(s);
		obey(s);
		arrive(s);
		meet(s);
		hear(s, true);
		if (s->m->gen.died || s->m->gen.notified || s->m->phase != HVD_RUNNING)
			all_ready(s);
		pass(s, 1);
		obey(s);
		resting = s->m->phase == HVD_RUNNING && !s->m->next.n && !s->m->gen.died && !s->m->gen.notified &&
			  !s->m->gen.notifying && !s->notify_due;
		for (uint32_t p = 0; p < s->n_procs; p++)
			resting &= !s->procs[p].alive || s->procs[p].trains;
	}
	if (!s->over && !resting)
		fail_msg("after calm: phase %d generation %d died %d told %d notifying %d size %d", s->m->phase,
			 s->m->generation, s->m->gen.died, s->m->gen.notified, s->m->gen.notifying, s->m->now.n);
	for (uint32_t p = 0; p < s->n_procs && !s->over; p++)
		die(s, p, 0);
	assert_true(s->over);
	if (resting)
		assert_int_equal(s->status, 0);
}

static void random_histories(void **state)
{
	long generations = 0, finished = 0, silent = 0, beside = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 5000; seed++) {
		struct hvd_machine_opts opts = {.np = 2 + (int)(seed % 3),
						.min_np = 1 + (int)(seed % 4),
						.max_np = seed % 5 ? 0 : 6,
						.reset_limit = seed % 7 ? -1 : 5,
						.elastic_timeout = 30,
						.patience = 30,
						.cooldown_min = seed % 2 ? 0 : 3,
						.cooldown_max = 10,
						.settle = 2};
		struct sim *s = begin(opts, seed);

		s->gentle = seed % 2;
		for (int i = 0; i < 300 && !s->over; i++)
			one_event(s);
		generations += s->generations;
		beside += s->beside;
		finished += s->over;
		for (uint32_t p = 0; p < s->n_procs; p++)
			silent += s->procs[p].silent;
		calm(s);
		end(s);
	}
	/* The histories must not all be over before anything has happened. */
	assert_true(generations > 10000);
	assert_true(finished < 4000);
	assert_true(silent > 1000);
	printf("%ld generations, %ld prepared beside another, %ld over\n", generations, beside, finished);
	assert_true(beside > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_generation),
		cmocka_unit_test(host_added_and_removed),
		cmocka_unit_test(failure_bans_the_host),
		cmocka_unit_test(silent_survivor_is_replaced),
		cmocka_unit_test_prestate(silent_survivor_is_replaced, (void *)"uncut"),
		cmocka_unit_test(rank_0_survives),
		cmocka_unit_test(failing_again_and_again_ends),
		cmocka_unit_test(all_fail),
		cmocka_unit_test(all_fail_at_first),
		cmocka_unit_test(failure_while_starting),
		cmocka_unit_test(reset_limit),
		cmocka_unit_test(slots_that_never_come),
		cmocka_unit_test(waits_for_hosts),
		cmocka_unit_test(cooldown_ends),
		cmocka_unit_test(state_is_handed_over),
		cmocka_unit_test_prestate(state_is_handed_over, (void *)"no room"),
		cmocka_unit_test(aborting_is_not_held_against),
		cmocka_unit_test(going_is_no_failure),
		cmocka_unit_test(survivors_go_on_first),
		cmocka_unit_test(no_growth_beyond_the_limit),
		cmocka_unit_test(hosts_change_while_ranks_start),
		cmocka_unit_test(those_who_never_come),
		cmocka_unit_test(first_ranks_take_their_time),
		cmocka_unit_test(host_that_does_not_come),
		cmocka_unit_test(hosts_of_which_none_can_be_used),
		cmocka_unit_test(connections_break_by_themselves),
		cmocka_unit_test(one_goes_before_they_have_met),
		cmocka_unit_test(some_never_meet),
		cmocka_unit_test(killed_but_does_not_end),
		cmocka_unit_test(random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
