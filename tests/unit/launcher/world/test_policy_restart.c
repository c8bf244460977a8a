/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's policy of the elastic state machine against a simulated job, as test_machine.c has Horovod's: what must
 * always hold is checked in the ops; the histories are random, from fixed seeds.
 */
#include "machine_sim.h"

#include <stdio.h>
#include <string.h>

#define FAILED (1 << 8)

static int alive(const struct sim *s)
{
	int n = 0;

	for (uint32_t i = 0; i < s->n_procs; i++)
		n += s->procs[i].alive;
	return n;
}

/* ---- what the machine wants ---- */

static void on_host_begin(uint32_t host, void *arg)
{
	struct sim *s = arg;

	assert_true(host < 64);
	assert_false(s->agent[host]);
	assert_true(s->m->hosts[host].listed && s->m->hosts[host].slots > 0);
	s->agent[host] = true;
}

static void on_prepare(void *arg)
{
	struct sim *s = arg;

	assert_false(s->over);
	assert_int_equal(alive(s), 0);
	s->prepared = true;
}

/* All ranks are new, none of the last generation is left, and the hosts are those that may be used. */
static void on_generation(bool prepared, void *arg)
{
	struct sim *s = arg;
	struct hvd_layout layout;
	int n = s->m->now.n;

	assert_true(s->prepared && !prepared && !s->over);
	assert_int_equal(alive(s), 0);
	s->prepared = s->failed = false;
	s->generations++;
	assert_int_equal(hvd_machine_generation(s->m), s->generations);
	assert_int_equal(hvd_machine_restarts(s->m), s->failures);
	assert_true(s->failures <= s->opts.max_restarts);
	assert_true(n >= s->opts.min_np && (!s->opts.max_np || n <= s->opts.max_np));
	assert_true(s->generations > 1 || n >= s->opts.np || s->lost_first);
	assert_int_equal(hvd_machine_layout(s->m, false, &layout, NULL), 0);
	for (int r = 0; r < n; r++) {
		const struct hvd_worker *w = hvd_machine_member(s->m, r);

		assert_true(w->rank == r && w->id >= s->n_procs);
		assert_int_equal(layout.rank_slots[r].local_rank, w->slot);
		assert_true(s->agent[w->host] && s->m->hosts[w->host].listed);
		assert_true(s->m->hosts[w->host].banned_until <= s->now);
	}
	hvd_layout_clear(&layout);
}

static void on_start(const struct hvd_worker *w, void *arg)
{
	struct sim *s = arg;

	assert_int_equal(w->id, s->n_procs);
	assert_true(s->n_procs < MAX_PROCS && s->agent[w->host]);
	s->procs[s->n_procs++] = (struct proc){.alive = true, .host = w->host, .slot = w->slot};
}

static void on_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct sim *s = arg;

	assert_false(at_once); /* it may write a checkpoint */
	assert_true(s->procs[w->id].alive && !s->procs[w->id].told);
	s->procs[w->id].told = true;
}

static void on_nothing(void *arg)
{
	(void)arg;
	fail();
}

static void on_notify(uint32_t worker, void *arg)
{
	(void)worker;
	on_nothing(arg);
}

static void on_check(uint32_t host, void *arg)
{
	struct sim *s = arg;

	assert_true(s->agent[host] && s->opts.check_wait > 0);
	s->checks[host]++;
}

static void on_bad(uint32_t host, const char *why, void *arg)
{
	struct sim *s = arg;

	assert_true(*why);
	snprintf(s->bad, sizeof(s->bad), "%s", hvd_machine_host(s->m, host));
}

static const struct hvd_machine_ops ops = {on_host_begin, on_host_end, on_give_up, on_prepare, on_generation,
					   on_start,      on_end,      on_nothing, on_notify,  on_nothing,
					   on_finish,     on_check,    on_bad,     NULL,       NULL};

static struct sim *begin(struct hvd_machine_opts opts, unsigned seed)
{
	struct sim *s = hvd_xcalloc(1, sizeof(*s));

	s->now = SECOND;
	s->seed = seed * 2654435761u + 1;
	opts.restart = true;
	opts.reset_limit = -1;
	opts.elastic_timeout = opts.elastic_timeout > 0 ? opts.elastic_timeout : 600;
	opts.patience = 600;
	opts.settle = 3;
	s->opts = opts;
	s->m = hvd_machine_create(&opts, s->now, &ops, s, NULL);
	return s;
}

/* ---- what happens ---- */

/* A rank ends. Its first failure in a generation that was not told to end is the one that counts. */
static void counts(struct sim *s, const struct proc *p, bool bad)
{
	if (bad && !p->told && !s->failed) {
		s->failed = true;
		s->failures++;
	}
}

static void die(struct sim *s, uint32_t id, int status)
{
	if (!s->procs[id].alive)
		return;
	counts(s, &s->procs[id], status != 0);
	s->procs[id].alive = false;
	hvd_machine_exited(s->m, id, status, s->now);
}

static void lose(struct sim *s, uint32_t host, enum hvd_host_end how)
{
	if (!s->agent[host])
		return;
	for (uint32_t i = 0; i < s->n_procs; i++)
		if (s->procs[i].alive && s->procs[i].host == host) {
			counts(s, &s->procs[i], true);
			s->procs[i].alive = false;
		}
	s->agent[host] = false;
	s->lost_first |= s->generations == 0;
	hvd_machine_host_gone(s->m, host, how, s->now);
}

static uint32_t id_of(const struct sim *s, int rank)
{
	return hvd_machine_member(s->m, rank)->id;
}

static const char *host_of(const struct sim *s, int rank)
{
	return hvd_machine_host(s->m, hvd_machine_member(s->m, rank)->host);
}

static struct sim *running(struct hvd_machine_opts opts, const char *hosts)
{
	struct sim *s = begin(opts, 1);

	list(s, hosts);
	come(s);
	assert_int_equal(s->generations, 1);
	return s;
}

/* ---- single rules ---- */

static void all_end_well(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_restarts = 3}, "a:2,b:2");

	(void)state;
	assert_int_equal(s->m->now.n, 4);
	die(s, id_of(s, 0), 0);
	die(s, id_of(s, 1), 0);
	list(s, "a:2,b:2,c:2");
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 1); /* the job is near its end */
	die(s, id_of(s, 3), 0);
	assert_false(s->over);
	die(s, id_of(s, 2), 0);
	assert_true(s->over);
	assert_int_equal(s->status, 0);
	assert_int_equal(s->why.code, HVD_OK);
	end(s);
}

static void failure_restarts_all(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_restarts = 3}, "a:2,b:2");

	(void)state;
	die(s, id_of(s, 2), FAILED);
	for (int r = 0; r < 4; r++)
		assert_int_equal(s->procs[r].told, r != 2);
	die(s, 0, SIGTERM);
	die(s, 1, 0);
	pass(s, 5);
	assert_int_equal(s->generations, 1); /* one of the last generation is not gone yet */
	die(s, 3, SIGKILL);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(hvd_machine_restarts(s->m), 1);
	assert_string_equal(host_of(s, 3), "b");
	/* One ends well, another fails: all are started anew. */
	die(s, id_of(s, 0), 0);
	die(s, id_of(s, 1), SIGSEGV);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_int_equal(s->m->now.n, 4);
	end(s);
}

static void restarts_are_limited(void **state)
{
	int max = *state ? 0 : 2;
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .max_restarts = max}, "a:2");

	for (int i = 0; i < max; i++) {
		die(s, id_of(s, 0), FAILED);
		obey(s);
		assert_int_equal(s->generations, i + 2);
	}
	die(s, id_of(s, 1), 7 << 8);
	assert_true(s->over);
	assert_int_equal(s->status, 7);
	assert_non_null(strstr(s->why.msg, "rank 1 failed: exit code 7"));
	assert_non_null(strstr(s->why.hint, "--max-restarts"));
	end(s);
}

static void hosts_that_come(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .max_np = 7, .max_restarts = 1}, "a:2");

	(void)state;
	pass(s, 1);
	list(s, "a:2,b:2");
	come(s);
	pass(s, 7);
	assert_false(s->procs[0].told); /* the generation is young */
	list(s, "a:2,b:2,c:2");
	pass(s, 3);
	assert_false(s->procs[0].told); /* another one is coming */
	come(s);
	pass(s, 2.5);
	assert_false(s->procs[0].told); /* they may not be the last */
	pass(s, 1);
	assert_true(s->procs[0].told && s->procs[1].told);
	obey(s);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 6);
	assert_int_equal(hvd_machine_restarts(s->m), 0);
	/* The limit on ranks is met: nobody waits for others. */
	pass(s, 20);
	list(s, "a:2,b:2,c:2,d:2");
	come(s);
	assert_true(s->procs[id_of(s, 0)].told);
	obey(s);
	assert_int_equal(s->m->now.n, 7);
	/* Hosts that there is no use for change nothing. */
	list(s, "a:2,b:2,c:2,d:2,e:2");
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 3);
	assert_false(s->procs[id_of(s, 0)].told);
	end(s);
}

static void hosts_that_go(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 6, .min_np = 3, .max_restarts = 0}, "a:2,b:2,c:2");

	(void)state;
	list(s, "b:2,c:2");
	assert_true(s->procs[0].told && s->procs[5].told);
	obey(s);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 4);
	assert_string_equal(host_of(s, 0), "b");
	assert_false(s->agent[0]);
	/* Too few would be left: they go on while they can. */
	list(s, "b:2");
	pass(s, 10);
	assert_int_equal(s->generations, 2);
	assert_false(s->procs[id_of(s, 0)].told);
	list(s, "b:2,a:1");
	come(s);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_int_equal(s->m->now.n, 3);
	assert_int_equal(hvd_machine_restarts(s->m), 0);
	/* A slot goes. */
	list(s, "b:1,a:1,d:2");
	come(s);
	obey(s);
	pass(s, 3);
	assert_int_equal(s->m->now.n, 4);
	end(s);
}

/* Another host in place of the only one: not even the oldest stays, for there is no state to hand over. */
static void host_is_replaced(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 2, .min_np = 2, .max_restarts = 0}, "a:2");

	(void)state;
	list(s, "b:2");
	come(s);
	assert_true(s->procs[0].told && s->procs[1].told);
	obey(s);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 2);
	assert_string_equal(host_of(s, 0), "b");
	end(s);
}

/* A host that there is no use for yet does not get ahead of those that are in use. */
static void spare_host(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.np = 4, .min_np = 4, .max_np = 4, .max_restarts = 5}, "a:2,b:2,c:2");

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_string_equal(host_of(s, 0), "a");
		assert_string_equal(host_of(s, 2), "b");
		pass(s, 700);
		die(s, id_of(s, 3), FAILED);
		obey(s);
	}
	assert_int_equal(s->generations, 4);
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	/* It takes the place of the one that was lost. */
	assert_string_equal(host_of(s, 0), "c");
	assert_string_equal(host_of(s, 2), "b");
	end(s);
}

/* --spares without -np: the job has the ranks of the other hosts. What is lost is replaced, rank for rank, and what
 * comes back is the next spare. */
static void spares(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, "a:2,b:2,c:2,d:4");

	(void)state;
	assert_int_equal(s->m->now.n, 6);
	assert_string_equal(host_of(s, 4), "c");
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->m->now.n, 6);
	assert_string_equal(host_of(s, 0), "a");
	assert_string_equal(host_of(s, 2), "d");
	assert_string_equal(host_of(s, 3), "d");
	assert_string_equal(host_of(s, 4), "c");
	/* It is tried again, as there is no spare host, and ends nothing. */
	pass(s, 11);
	assert_true(s->agent[1]);
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 2);
	lose(s, 2, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_string_equal(host_of(s, 2), "d");
	assert_string_equal(host_of(s, 4), "b");
	assert_string_equal(host_of(s, 5), "b");
	end(s);
}

/* The slowest host is the spare, however early it comes. It takes the first place that is free. */
static void slowest_is_the_spare(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, 1);

	(void)state;
	list(s, "a:2,b:2,c:2,d:2");
	for (uint32_t h = 0; h < 4; h++)
		hvd_machine_network(s->m, h, NULL, h == 1 ? 600 : 1000);
	come(s);
	assert_int_equal(s->generations, 1);
	assert_int_equal(s->m->now.n, 6);
	assert_string_equal(host_of(s, 0), "a");
	assert_string_equal(host_of(s, 2), "c");
	assert_string_equal(host_of(s, 4), "d");
	lose(s, 3, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 2), "c");
	assert_string_equal(host_of(s, 4), "b");
	end(s);
}

/* It is not waited for for long, if it does not come. */
static void spare_that_does_not_come(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, 1);

	(void)state;
	list(s, "a:2,b:2,c:2");
	hvd_machine_host_here(s->m, 1, s->now);
	hvd_machine_host_here(s->m, 2, s->now);
	assert_int_equal(s->generations, 0);
	pass(s, 3);
	assert_int_equal(s->generations, 1);
	assert_string_equal(host_of(s, 0), "b");
	end(s);
}

/* A spare host with fewer slots than a lost one had ranks holds some of them: others follow on hosts with room. */
static void small_spare(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.np = 4, .min_np = 4, .max_np = 4, .spares = 2, .max_restarts = 9},
			"a:2,b:2,c:1,d:1");

	(void)state;
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->m->now.n, 4);
	assert_string_equal(host_of(s, 0), "b");
	assert_string_equal(host_of(s, 2), "c");
	assert_string_equal(host_of(s, 3), "d");
	end(s);
}

/* Ranks that fail soon after their start, again and again; a lost host does not count, and progress starts anew. */
static void no_progress(void **state)
{
	const bool by_file = *state != NULL;
	struct sim *s = running((struct hvd_machine_opts){.np = 4,
							  .min_np = 4,
							  .max_np = 4,
							  .spares = 2,
							  .max_restarts = 20,
							  .max_idle = 3,
							  .progress_after = by_file ? -1 : 60},
				"a:2,b:2,c:2,d:2");

	for (int i = 0; i < 2; i++) {
		pass(s, by_file ? 1000 : 59);
		die(s, id_of(s, 1 + i), FAILED);
		obey(s);
	}
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->generations, 4);
	pass(s, by_file ? 1 : 61);
	if (by_file)
		hvd_machine_progress(s->m);
	die(s, id_of(s, 0), FAILED);
	obey(s);
	for (int i = 0; i < 3; i++) {
		assert_false(s->over);
		assert_false(hvd_machine_idle(s->m));
		pass(s, 1);
		die(s, id_of(s, 2 + i % 2), FAILED);
		if (!s->over)
			obey(s);
	}
	assert_true(s->over && hvd_machine_idle(s->m));
	assert_int_equal(s->status, HVD_IDLE_STATUS);
	assert_int_equal(s->generations, 7);
	assert_non_null(strstr(s->why.hint, by_file ? "without a new file" : "soon after the start"));
	end(s);
}

/* The program's failure on a second host ends the job at once, unless there was progress since, or it may go on. */
static void repeats(void **state)
{
	static const struct {
		int max_idle, lasted;
		bool over;
	} cases[] = {{3, 59, true}, {3, 61, false}, {0, 59, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim *s = running((struct hvd_machine_opts){.np = 2,
								  .min_np = 2,
								  .max_restarts = 20,
								  .max_idle = cases[i].max_idle,
								  .progress_after = 60},
					"a:1,b:1");

		die(s, id_of(s, 1), FAILED);
		obey(s);
		pass(s, cases[i].lasted);
		hvd_machine_repeats(s->m);
		die(s, id_of(s, 1), FAILED);
		assert_int_equal(s->over, cases[i].over);
		if (s->over) {
			assert_int_equal(s->status, 1);
			assert_non_null(strstr(s->why.hint, "the program is at fault"));
		} else {
			obey(s);
			die(s, id_of(s, 1), FAILED);
			assert_false(s->over); /* it holds for one generation */
		}
		end(s);
	}
}

static void too_few_hosts_for_spares(void **state)
{
	struct sim *s =
		begin((struct hvd_machine_opts){.np = 5, .min_np = 5, .max_np = 5, .spares = 1, .max_restarts = 1}, 1);

	(void)state;
	list(s, "a:2,b:2,c:2");
	assert_true(s->over);
	assert_int_equal(s->status, 2);
	assert_string_equal(s->why.msg, "without 1 spare host there are 4 slots, but the job has 5 ranks");
	end(s);
}

/* They have numbers, as those of another world's ranks do, and nothing waits for them or counts on them. */
static void hosts_without_slots(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, "x:0,a:2,y:0,b:2");

	(void)state;
	assert_int_equal(s->m->now.n, 2);
	assert_string_equal(host_of(s, 0), "a");
	lose(s, 1, HVD_HOST_LOST);
	assert_int_equal(s->generations, 2);
	assert_string_equal(host_of(s, 0), "b");
	/* One gets slots, and its agent is started: it is the spare host. Then it loses them. */
	list(s, "x:2,y:0,b:2");
	assert_true(s->agent[0] && !s->agent[2]);
	come(s);
	list(s, "x:0,y:0,b:2");
	assert_false(s->agent[0]);
	/* So does the host of the ranks. */
	list(s, "x:2,y:0,b:0");
	come(s);
	obey(s);
	pass(s, 3);
	assert_int_equal(s->generations, 3);
	assert_string_equal(host_of(s, 1), "x");
	assert_false(s->agent[3]);
	end(s);
}

static void only_hosts_without_slots_are_left(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 2, .min_np = 2, .max_restarts = 1}, 1);

	(void)state;
	list(s, "x:0,a:2");
	lose(s, 1, HVD_HOST_UNFIT);
	assert_true(s->over);
	assert_string_equal(s->why.msg, "none of the hosts can be used");
	end(s);
}

/* Self-registering agents: the job waits for the ranks' hosts, and whatever comes later is a spare host. */
static void spares_that_come(void **state)
{
	struct sim *s =
		begin((struct hvd_machine_opts){.np = 4, .spares = 1, .max_restarts = 2, .hosts_come = true}, 1);

	(void)state;
	list(s, "a:2");
	come(s);
	assert_false(s->over);
	list(s, "a:2,b:2");
	come(s);
	list(s, "a:2,b:2,c:2");
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 1);
	assert_int_equal(s->m->now.n, 4);
	assert_string_equal(host_of(s, 3), "b");
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 0), "c");
	end(s);
}

static void lost_host(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_restarts = 1}, "a:2,b:2");

	(void)state;
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 2);
	assert_int_equal(hvd_machine_restarts(s->m), 1);
	/* It is dropped, and listed again. */
	list(s, "b:2");
	list(s, "b:2,a:2");
	come(s);
	pass(s, 11);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_string_equal(host_of(s, 0), "b");
	lose(s, 0, HVD_HOST_LOST);
	assert_true(s->over);
	assert_non_null(strstr(s->why.msg, "was lost with its host"));
	assert_int_equal(s->status, 128 + SIGKILL);
	end(s);
}

/* When a host is lost while all are being ended, that is no second failure. */
static void lost_while_ending(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 6, .min_np = 2, .max_restarts = 1}, "a:2,b:2,c:2");

	(void)state;
	die(s, id_of(s, 0), FAILED);
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 4);
	end(s);
}

/* A host goes before the first generation, and comes when it is tried again. */
static void lost_host_comes_back(void **state)
{
	struct sim *s = begin((struct hvd_machine_opts){.np = 6, .min_np = 4, .max_restarts = 1}, 1);

	(void)state;
	list(s, "a:2,b:2,c:2");
	hvd_machine_host_here(s->m, 0, s->now);
	hvd_machine_host_here(s->m, 2, s->now);
	lose(s, 1, HVD_HOST_LOST);
	pass(s, 9);
	assert_false(s->agent[1]);
	pass(s, 2);
	assert_true(s->agent[1]);
	assert_int_equal(s->generations, 0);
	come(s);
	assert_int_equal(s->generations, 1);
	assert_int_equal(s->m->now.n, 6);
	/* It is lost again, and tried after twice the time. */
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->m->now.n, 4);
	pass(s, 19);
	assert_false(s->agent[1]);
	pass(s, 2);
	assert_true(s->agent[1]);
	come(s);
	pass(s, 4);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_int_equal(s->m->now.n, 6);
	end(s);
}

/* The host does not come back: the others begin. */
static void first_generation_without_a_lost_host(void **state)
{
	struct hvd_machine_opts opts = {.np = 6, .min_np = 4, .max_restarts = 1};
	struct sim *s = begin(opts, 1);

	(void)state;
	list(s, "a:2,b:2,c:2");
	hvd_machine_host_here(s->m, 0, s->now);
	hvd_machine_host_here(s->m, 2, s->now);
	lose(s, 1, HVD_HOST_LOST);
	pass(s, 12);
	lose(s, 1, HVD_HOST_LOST);
	pass(s, 7);
	assert_int_equal(s->generations, 0);
	pass(s, 2);
	assert_int_equal(s->generations, 1);
	assert_int_equal(s->m->now.n, 4);
	end(s);
	/* With a short time for slots it is half of that. */
	opts.elastic_timeout = 10;
	s = begin(opts, 1);
	list(s, "a:2,b:2,c:2");
	hvd_machine_host_here(s->m, 0, s->now);
	hvd_machine_host_here(s->m, 2, s->now);
	lose(s, 1, HVD_HOST_LOST);
	pass(s, 6);
	assert_int_equal(s->generations, 1);
	end(s);
	/* Where none was lost, -np stands. */
	s = begin(opts, 1);
	list(s, "a:2,c:2");
	come(s);
	pass(s, 11);
	assert_true(s->over);
	assert_in(s->why.hint, "lower -np to 4");
	end(s);
}

/* A rank that was told to end does not: others go on without its host. */
static void rank_that_does_not_end(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_restarts = 1}, "a:2,b:2");

	(void)state;
	die(s, id_of(s, 0), FAILED);
	die(s, id_of(s, 1), SIGTERM);
	die(s, id_of(s, 3), SIGTERM);
	pass(s, 599);
	assert_int_equal(s->given_up, 0);
	assert_int_equal(s->generations, 1);
	pass(s, 2);
	assert_int_equal(s->given_up, 1);
	assert_false(s->agent[1]);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 2);
	assert_int_equal(hvd_machine_restarts(s->m), 1);
	end(s);
}

/* SIGKILL does not end a rank: a spare host takes the place of its host at once, and for good. */
static void rank_that_cannot_be_killed(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, "a:2,b:2,c:2");

	(void)state;
	hvd_machine_unkillable(s->m, id_of(s, 0), s->now); /* nobody was to end it */
	assert_int_equal(s->given_up, 0);
	die(s, id_of(s, 0), FAILED);
	die(s, id_of(s, 1), SIGTERM);
	die(s, id_of(s, 2), SIGTERM);
	pass(s, 40);
	hvd_machine_unkillable(s->m, id_of(s, 3), s->now);
	assert_int_equal(s->given_up, 1);
	assert_int_equal(s->generations, 2);
	assert_string_equal(host_of(s, 0), "a");
	assert_string_equal(host_of(s, 2), "c");
	pass(s, 1000);
	assert_false(s->agent[1]);
	/* The job needs the others: it waits for the end of such a rank. */
	die(s, id_of(s, 0), FAILED);
	die(s, id_of(s, 1), SIGTERM);
	die(s, id_of(s, 2), SIGTERM);
	hvd_machine_unkillable(s->m, id_of(s, 3), s->now);
	pass(s, 500);
	assert_int_equal(s->given_up, 1);
	assert_int_equal(s->generations, 2);
	die(s, id_of(s, 3), SIGKILL);
	assert_int_equal(s->generations, 3);
	/* The job does not wait for ever. */
	die(s, id_of(s, 0), FAILED);
	die(s, id_of(s, 1), SIGTERM);
	die(s, id_of(s, 2), SIGTERM);
	hvd_machine_unkillable(s->m, id_of(s, 3), s->now);
	pass(s, 601);
	assert_int_equal(s->given_up, 2);
	pass(s, 601);
	assert_true(s->over && s->status != 0 && hvd_machine_too_few(s->m));
	end(s);
}

/* Without a spare host, fewer ranks are better than none. */
static void rank_that_cannot_be_killed_and_no_spare(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 2, .max_restarts = 9}, "a:2,b:2");

	(void)state;
	die(s, id_of(s, 0), FAILED);
	die(s, id_of(s, 1), SIGTERM);
	hvd_machine_unkillable(s->m, id_of(s, 3), s->now);
	assert_int_equal(s->generations, 2);
	assert_int_equal(s->m->now.n, 2);
	assert_string_equal(host_of(s, 0), "a");
	end(s);
}

/* While ranks are being ended their hosts and the spare one are checked. */
static void hosts_are_checked_again(void **state)
{
	struct sim *s =
		running((struct hvd_machine_opts){.spares = 1, .max_restarts = 9, .check_wait = 3}, "a:2,b:2,c:2");

	(void)state;
	assert_int_equal(s->checks[0] + s->checks[1] + s->checks[2], 0);
	die(s, id_of(s, 0), FAILED);
	assert_true(s->checks[0] == 1 && s->checks[1] == 1 && s->checks[2] == 1);
	for (uint32_t h = 0; h < 3; h++)
		hvd_machine_checked(s->m, h, s->now);
	pass(s, 1);
	obey(s);
	assert_int_equal(s->generations, 2); /* the results were there */
	/* One is bad, and known to be so when the ranks have ended. */
	die(s, id_of(s, 0), FAILED);
	hvd_machine_checked(s->m, 0, s->now);
	hvd_machine_checked(s->m, 2, s->now);
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_string_equal(host_of(s, 0), "a");
	assert_string_equal(host_of(s, 2), "c");
	/* It is tried again after a pause, and is a spare host then, which ends nothing. */
	pass(s, 11);
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 3);
	assert_true(s->agent[1]);
	/* A late result is awaited. */
	die(s, id_of(s, 0), FAILED);
	hvd_machine_checked(s->m, 0, s->now);
	hvd_machine_checked(s->m, 1, s->now);
	obey(s);
	pass(s, 2);
	assert_int_equal(s->generations, 3);
	hvd_machine_checked(s->m, 2, s->now);
	assert_int_equal(s->generations, 4);
	/* A late result is awaited for a moment only. */
	die(s, id_of(s, 0), FAILED);
	obey(s);
	assert_true(hvd_machine_checking(s->m, 2));
	pass(s, 2);
	assert_int_equal(s->generations, 4);
	pass(s, 2);
	assert_int_equal(s->generations, 5);
	assert_false(hvd_machine_checking(s->m, 2));
	end(s);
}

/* Of fixed hosts without spares none comes back: a bad one that the others cannot do without is needed. */
static void a_host_that_is_needed(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 4, .max_restarts = 9, .hosts_stay = true},
				"a:2,b:2,c:2");

	(void)state;
	assert_false(hvd_machine_needs(s->m, 1, s->now));
	assert_false(hvd_machine_needs(s->m, 9, s->now));
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_true(hvd_machine_needs(s->m, 1, s->now));
	end(s);
}

/* A bad host is tried again after 10 s, 20 s, 40 s, …, as long as it is bad. */
static void pauses_of_a_bad_host_grow(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.spares = 1, .max_restarts = 9}, "a:2,b:2,c:2");
	double pause = 10;

	(void)state;
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 2), "c");
	for (int i = 0; i < 8; i++) {
		pass(s, pause - 0.5);
		assert_false(s->agent[1]);
		pass(s, 1);
		assert_true(s->agent[1]);
		lose(s, 1, HVD_HOST_LOST); /* its check fails before it is admitted */
		pause = pause < 150 ? 2 * pause : 300;
	}
	pass(s, 301);
	come(s);
	pass(s, 100);
	assert_int_equal(s->generations, 2);
	end(s);
}

/* The nearest spare host takes a place, whatever the order of hosts. */
static void nearest_spare(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.spares = 3, .max_restarts = 9}, "a:1,b:1,c:1,d:1,e:1");

	(void)state;
	hvd_machine_network(s->m, 0, "core.s1", 0);
	hvd_machine_network(s->m, 1, "core.s2", 0);
	hvd_machine_network(s->m, 3, "core.s1", 0);
	hvd_machine_network(s->m, 4, "core.s2", 0);
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 0), "a");
	assert_string_equal(host_of(s, 1), "e");
	lose(s, 4, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 1), "d"); /* none is left below s2, but one below the core */
	lose(s, 0, HVD_HOST_LOST);
	obey(s);
	assert_string_equal(host_of(s, 0), "c");
	end(s);
}

static void slots_that_never_come(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 3, .max_restarts = 3}, "a:2,b:2");

	(void)state;
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	pass(s, 599);
	assert_false(s->over);
	pass(s, 2);
	assert_true(s->over);
	assert_non_null(strstr(s->why.msg, "not enough slots"));
	end(s);
}

static void hosts_that_stay(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 4, .min_np = 3, .max_restarts = 3, .hosts_stay = true},
				"a:2,b:2");

	(void)state;
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_true(s->over); /* no other host will come */
	assert_int_equal(s->status, 128 + SIGKILL);
	assert_non_null(strstr(s->why.hint, "2 slots are left, but 3 ranks are needed"));
	end(s);
}

static void all_hosts_go(void **state)
{
	struct sim *s = running(
		(struct hvd_machine_opts){.np = 2, .min_np = 2, .max_restarts = 3, .hosts_end = *state != NULL}, "a:2");

	lose(s, 0, HVD_HOST_LOST);
	assert_false(s->over); /* it may be dropped, and listed again */
	list(s, "");
	assert_int_equal(s->over, *state != NULL);
	if (!s->over) {
		list(s, "b:2");
		come(s);
		assert_int_equal(s->generations, 2);
	}
	end(s);
}

static void host_that_fails_again(void **state)
{
	struct sim *s = running((struct hvd_machine_opts){.np = 6, .min_np = 4, .max_restarts = 99}, "a:2,b:2,c:2");

	(void)state;
	die(s, id_of(s, 0), FAILED);
	obey(s);
	assert_int_equal(s->m->now.n, 6); /* once is no reason */
	pass(s, 700);
	die(s, id_of(s, 0), FAILED);
	obey(s);
	assert_int_equal(s->m->now.n, 6); /* it has worked for long in between */
	assert_string_equal(s->bad, "");
	die(s, id_of(s, 0), FAILED);
	obey(s);
	list(s, "a:2,b:2,c:2,d:2");
	come(s);
	pass(s, 20);
	obey(s);
	assert_int_equal(s->m->now.n, 8);
	die(s, id_of(s, 0), FAILED);
	obey(s);
	assert_int_equal(s->m->now.n, 8); /* nothing had failed in the generation before */
	list(s, "a:2,b:2,c:2");
	obey(s);
	assert_int_equal(s->m->now.n, 6);
	die(s, id_of(s, 1), FAILED);
	obey(s);
	die(s, id_of(s, 0), FAILED);
	obey(s);
	assert_int_equal(s->m->now.n, 4);
	assert_string_equal(host_of(s, 0), "b");
	assert_string_equal(s->bad, "a");
	/* The others are not enough without these. */
	for (int i = 0; i < 3; i++) {
		die(s, id_of(s, 0), FAILED);
		obey(s);
		assert_int_equal(s->m->now.n, 4);
	}
	assert_string_equal(s->bad, "b"); /* bad all the same, if the job is requeued */
	/* One that was left out is better than none. */
	lose(s, 1, HVD_HOST_LOST);
	obey(s);
	assert_int_equal(s->m->n_hosts, 4);
	come(s);
	pass(s, 4);
	assert_int_equal(s->m->now.n, 4);
	assert_string_equal(host_of(s, 0), "a");
	end(s);
}

static void cooldown(void **state)
{
	struct sim *s = running(
		(struct hvd_machine_opts){
			.np = 4, .min_np = 2, .max_restarts = 9, .cooldown_min = 20, .cooldown_max = 60},
		"a:2,b:2");

	(void)state;
	die(s, id_of(s, 3), FAILED);
	obey(s);
	assert_int_equal(s->m->now.n, 2);
	pass(s, 19);
	assert_false(s->procs[id_of(s, 0)].told);
	pass(s, 5);
	obey(s);
	assert_int_equal(s->generations, 3);
	assert_int_equal(s->m->now.n, 4);
	assert_int_equal(hvd_machine_restarts(s->m), 1);
	end(s);
}

/* ---- random histories ---- */

static void one_event(struct sim *s)
{
	uint32_t any = s->n_procs ? s->n_procs - 1 - rnd(s, s->n_procs < 12 ? s->n_procs : 12) : 0;
	uint32_t host = s->m->n_hosts ? rnd(s, s->m->n_hosts) : 0;

	switch (rnd(s, 14)) {
	case 0:
		random_list(s);
		break;
	case 1:
	case 2:
		hvd_machine_network(s->m, host, rnd(s, 2) ? "core.s1" : "core.s2", rnd(s, 1000));
		if (s->m->n_hosts && s->agent[host])
			hvd_machine_host_here(s->m, host, s->now);
		break;
	case 3:
		if (s->m->n_hosts && rnd(s, 4) == 0)
			lose(s, host, rnd(s, 9) ? HVD_HOST_LOST : HVD_HOST_UNFIT);
		break;
	case 4:
		if (s->n_procs && rnd(s, 2))
			die(s, any, rnd(s, 12) == 0 ? 0 : rnd(s, 2) ? FAILED : SIGKILL);
		break;
	case 5:
		if (s->n_procs && s->procs[any].told)
			die(s, any, rnd(s, 2) ? SIGTERM : 0);
		break;
	case 6:
		obey(s);
		break;
	case 12:
		if (s->n_procs && rnd(s, 9) == 0)
			hvd_machine_unkillable(s->m, any, s->now);
		break;
	case 13:
		hvd_machine_checked(s->m, host, s->now);
		break;
	case 7: /* what has no meaning here */
		hvd_machine_arrived(s->m, any, s->now);
		hvd_machine_connected(s->m, s->now);
		hvd_machine_notified(s->m, true, s->now);
		hvd_machine_kill_failed(s->m, s->now);
		break;
	default:
		pass(s, rnd(s, 100) / 20.0);
	}
}

/* Nothing bad happens any more: it must come to rest, running or over, and then end well. */
static void calm(struct sim *s)
{
	if (!s->over)
		list(s, "h0:2,h1:2,h2:2,h3:2,h4:2,h5:2,new1:2,new2:2,new3:2");
	for (int i = 0; i < 60 && !s->over; i++) {
		come(s);
		obey(s);
		pass(s, 1);
	}
	if (!s->over && (s->m->phase != HVD_RUNNING || s->m->gen.died || s->m->gen.ended_all))
		fail_msg("after calm: phase %d generation %d died %d size %d", s->m->phase, s->m->generation,
			 s->m->gen.died, s->m->now.n);
	if (s->over)
		return;
	for (uint32_t p = 0; p < s->n_procs; p++)
		die(s, p, 0);
	assert_true(s->over);
	assert_int_equal(s->status, 0);
}

static void random_histories(void **state)
{
	long generations = 0, failures = 0, finished = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 3000; seed++) {
		struct sim *s = begin((struct hvd_machine_opts){.np = 2 + (int)(seed % 3),
								.min_np = 1 + (int)(seed % 4),
								.max_np = seed % 5 ? 0 : 6,
								.spares = seed % 8 ? 0 : 1,
								.max_restarts = seed % 7 ? 1000 : 3,
								.hosts_stay = seed % 11 == 0,
								.hosts_end = seed % 6 == 0,
								.elastic_timeout = 60,
								.check_wait = seed % 3 ? 0 : 2,
								.cooldown_min = seed % 2 ? 0 : 3,
								.cooldown_max = 10},
				      seed);

		for (int i = 0; i < 300 && !s->over; i++)
			one_event(s);
		generations += s->generations;
		failures += s->failures;
		finished += s->over;
		calm(s);
		end(s);
	}
	printf("%ld generations, %ld restarts, %ld over\n", generations, failures, finished);
	/* The histories must not all be over before anything has happened, and not every restart be for a failure. */
	assert_true(generations > 10000);
	assert_true(finished < 1500);
	assert_true(failures > 5000 && failures < generations - 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_end_well),
		cmocka_unit_test(failure_restarts_all),
		cmocka_unit_test(restarts_are_limited),
		cmocka_unit_test_prestate(restarts_are_limited, (void *)"none"),
		cmocka_unit_test(hosts_that_come),
		cmocka_unit_test(hosts_that_go),
		cmocka_unit_test(host_is_replaced),
		cmocka_unit_test(spare_host),
		cmocka_unit_test(spares),
		cmocka_unit_test(slowest_is_the_spare),
		cmocka_unit_test(spare_that_does_not_come),
		cmocka_unit_test(small_spare),
		cmocka_unit_test(too_few_hosts_for_spares),
		cmocka_unit_test(hosts_without_slots),
		cmocka_unit_test(only_hosts_without_slots_are_left),
		cmocka_unit_test(spares_that_come),
		cmocka_unit_test(no_progress),
		cmocka_unit_test_prestate(no_progress, (void *)"by file"),
		cmocka_unit_test(repeats),
		cmocka_unit_test(lost_host),
		cmocka_unit_test(lost_while_ending),
		cmocka_unit_test(lost_host_comes_back),
		cmocka_unit_test(first_generation_without_a_lost_host),
		cmocka_unit_test(rank_that_does_not_end),
		cmocka_unit_test(rank_that_cannot_be_killed),
		cmocka_unit_test(rank_that_cannot_be_killed_and_no_spare),
		cmocka_unit_test(hosts_are_checked_again),
		cmocka_unit_test(a_host_that_is_needed),
		cmocka_unit_test(pauses_of_a_bad_host_grow),
		cmocka_unit_test(nearest_spare),
		cmocka_unit_test(slots_that_never_come),
		cmocka_unit_test(hosts_that_stay),
		cmocka_unit_test(all_hosts_go),
		cmocka_unit_test_prestate(all_hosts_go, (void *)"for good"),
		cmocka_unit_test(host_that_fails_again),
		cmocka_unit_test(cooldown),
		cmocka_unit_test(random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
