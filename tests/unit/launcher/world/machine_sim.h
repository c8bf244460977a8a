/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_sim.h - a simulated job for tests of the state machine of elastic jobs (machine.h): hosts, processes and a
 * clock that are made up. A test has its own ops and its own way for a process to end, die().
 */
#ifndef HVD_TESTS_MACHINE_SIM_H
#define HVD_TESTS_MACHINE_SIM_H

#include "launcher/world/machine_internal.h"

#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

#include <signal.h>

#define SECOND    1000000000LL
#define MAX_PROCS 8192

struct proc {
	bool alive, told; /* told: to end */
	uint32_t host;
	int slot;
	bool silent, arrived, trains, member; /* Horovod's policy only */
};

struct sim {
	struct hvd_machine *m;
	struct hvd_machine_opts opts;
	hvd_time now;
	unsigned seed;
	bool agent[64]; /* of the host with this number */
	struct proc procs[MAX_PROCS];
	uint32_t n_procs;
	int generations, given_up;
	bool lost_first; /* a host was lost before the first generation */
	bool prepared, over;
	struct hvd_err why;
	int status;
	struct hvd_alloc list;

	/* Horovod's policy only: */
	bool listed[64], in_generation, gentle;
	int answers, notifies, notify_due, finishes, beside, cuts;
	hvd_time silent_since; /* the machine knows of a death, somebody is ready, nobody has moved */

	/* PyTorch's policy only: */
	int failures; /* generations in which a rank failed or was lost before it was told to end */
	bool failed;
	int checks[64]; /* of the host with this number, that were asked for */
	char bad[64];   /* the last host that was judged bad */
};

static unsigned rnd(struct sim *s, unsigned n)
{
	s->seed = s->seed * 1664525u + 1013904223u;
	return (s->seed >> 8) % n;
}

static void on_host_end(uint32_t host, void *arg)
{
	struct sim *s = arg;

	assert_true(s->agent[host]);
	for (uint32_t i = 0; i < s->n_procs; i++)
		assert_false(s->procs[i].alive && s->procs[i].host == host);
	s->agent[host] = false;
}

/* Only where one that was told to end does not. */
static void on_give_up(uint32_t host, void *arg)
{
	struct sim *s = arg;
	bool late = false;

	assert_true(s->agent[host]);
	for (uint32_t i = 0; i < s->n_procs; i++)
		if (s->procs[i].alive && s->procs[i].host == host) {
			late |= s->procs[i].told;
			s->procs[i].alive = s->procs[i].told = false;
		}
	assert_true(late);
	s->agent[host] = false;
	s->given_up++;
}

static void on_finish(const struct hvd_err *why, int status, void *arg)
{
	struct sim *s = arg;

	assert_false(s->over);
	s->over = true;
	s->why = *why;
	s->status = status;
}

static void end(struct sim *s)
{
	hvd_machine_destroy(s->m);
	hvd_alloc_clear(&s->list);
	free(s);
}

static void list(struct sim *s, const char *text)
{
	hvd_alloc_clear(&s->list);
	for (size_t len; *text; text += len + (text[len] == ',')) {
		char *name;
		int slots;

		len = strcspn(text, ",");
		assert_int_equal(hvd_alloc_parse_host(text, len, 1, &name, &slots, NULL), 0);
		assert_int_equal(hvd_alloc_add(&s->list, name, slots, NULL), 0);
		free(name);
	}
	hvd_machine_hosts(s->m, &s->list, s->now);
}

/* Some of six hosts, with two slots each mostly. */
static void random_list(struct sim *s)
{
	char text[256] = "", one[16];

	for (unsigned i = 0; i < 6; i++)
		if (rnd(s, 3)) {
			snprintf(one, sizeof(one), "%sh%u:%u", *text ? "," : "", i, rnd(s, 8) ? 2 : 1 + rnd(s, 3));
			strcat(text, one);
		}
	list(s, text);
}

static void come(struct sim *s)
{
	for (uint32_t h = 0; h < s->m->n_hosts && !s->over; h++)
		if (s->agent[h])
			hvd_machine_host_here(s->m, h, s->now);
}

static void die(struct sim *s, uint32_t id, int status);

/* Those that were told to end do. */
static void obey(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_procs; i++)
		if (s->procs[i].told)
			die(s, i, SIGTERM);
}

static void pass(struct sim *s, double seconds)
{
	hvd_time until = s->now + (hvd_time)(seconds * 1e9);

	while (!s->over && hvd_machine_due(s->m) && hvd_machine_due(s->m) <= until) {
		if (hvd_machine_due(s->m) > s->now)
			s->now = hvd_machine_due(s->m);
		hvd_machine_tick(s->m, s->now);
		/* A timer that is due again and again at the same time would never let the job go on. */
		assert_true(s->over || !hvd_machine_due(s->m) || hvd_machine_due(s->m) > s->now);
	}
	s->now = until;
	if (!s->over)
		hvd_machine_tick(s->m, s->now);
}

#endif
