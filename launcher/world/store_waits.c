/* SPDX-License-Identifier: Apache-2.0 */
/* store_waits.c - a question has two steps: the store answers with lines, then agents say whose the processes are. */
#include "store_waits.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/rendezvous/wait_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_SECONDS 1.0

struct wait {
	char *line;
	const char *key; /* at the end of the line */
	struct hvd_addr addr;
	uint32_t pid;    /* 0: not known */
	json_int_t rank; /* -1: not known */
};

struct hvd_store_waits {
	const struct hvd_host_table *table;
	struct hvd_rv_service *service;
	struct hvd_host_questions *questions;
	hvd_store_waits_fn *done; /* NULL: nobody asks */
	void *arg;
	bool awaits_lines;
	struct wait *v;
	size_t n;
	json_t *asked; /* by host: the indices of the waits that it was asked about */
};

static void clear(struct hvd_store_waits *waits)
{
	for (size_t i = 0; i < waits->n; i++)
		free(waits->v[i].line);
	free(waits->v);
	waits->v = NULL;
	waits->n = 0;
	json_decref(waits->asked);
	waits->asked = NULL;
	waits->done = NULL;
	waits->awaits_lines = false;
}

/* ---- lines ---- */

static void add_line(struct hvd_store_waits *waits, const struct hvd_wait_line *line)
{
	struct wait wait = {
		.line = hvd_xstrndup(line->line.p, line->line.n), .addr = line->addr, .pid = line->pid, .rank = -1};

	wait.key = wait.line + line->line.n - line->key.n;
	waits->v = hvd_xrealloc(waits->v, waits->n + 1, sizeof(*waits->v));
	waits->v[waits->n++] = wait;
}

/* Those of which no pid is known come last. */
static int by_addr(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	if (!x->pid || !y->pid)
		return (x->pid == 0) - (y->pid == 0);
	return hvd_addr_compare(&x->addr, &y->addr);
}

/* ---- whose they are ---- */

static void ask_owner(struct hvd_store_waits *waits, uint32_t host, size_t i, json_t *questions)
{
	char name[16];
	json_t *question;

	snprintf(name, sizeof(name), "%u", (unsigned)host);
	question = json_object_get(questions, name);
	if (!question) {
		question = json_pack("{s:s, s:[]}", "t", "owners", "pids");
		json_object_set_new(questions, name, question);
		json_object_set_new(waits->asked, name, json_array());
	}
	json_array_append_new(json_object_get(question, "pids"), json_integer(waits->v[i].pid));
	json_array_append_new(json_object_get(waits->asked, name), json_integer((json_int_t)i));
}

/* Ask the host about the waits from this address, of which there are known pids. */
static void ask_about(struct hvd_store_waits *waits, uint32_t host, const struct hvd_addr *addr, json_t *questions)
{
	const struct wait key = {.addr = *addr, .pid = 1};
	const struct wait *found = waits->n ? bsearch(&key, waits->v, waits->n, sizeof(*waits->v), by_addr) : NULL;
	size_t i = found ? (size_t)(found - waits->v) : 0;

	if (!found)
		return;
	while (i > 0 && by_addr(&waits->v[i - 1], &key) == 0)
		i--;
	for (; i < waits->n && by_addr(&waits->v[i], &key) == 0; i++)
		ask_owner(waits, host, i, questions);
}

/* What relays say of a job on one machine has a loopback address, and so has each of its hosts. */
static void ask_loopback(struct hvd_store_waits *waits, uint32_t host, json_t *questions)
{
	for (size_t i = 0; i < waits->n; i++)
		if (waits->v[i].pid && hvd_addr_loopback(&waits->v[i].addr))
			ask_owner(waits, host, i, questions);
}

static json_t *make_questions(struct hvd_store_waits *waits)
{
	const bool one_machine = hvd_host_table_one_machine(waits->table, HVD_STAGE_HERE);
	json_t *questions = json_object();
	const struct hvd_addr *addr;
	uint8_t iface;

	waits->asked = json_object();
	for (uint32_t h = 0; waits->n && h < waits->table->n; h++) {
		if (waits->table->hosts[h].stage != HVD_STAGE_HERE)
			continue;
		for (size_t i = 0; (addr = hvd_host_table_addr(&waits->table->hosts[h].node, i, &iface)); i++)
			if (!hvd_addr_loopback(addr))
				ask_about(waits, h, addr, questions);
		if (one_machine)
			ask_loopback(waits, h, questions);
	}
	return questions;
}

static void take_owners(struct hvd_store_waits *waits, const json_t *which, const json_t *ranks)
{
	json_t *index;
	size_t i;

	json_array_foreach(which, i, index)
	{
		struct wait *wait = &waits->v[json_integer_value(index)];
		const json_t *rank = json_array_get(ranks, i);

		if (json_is_integer(rank) && json_integer_value(rank) >= 0)
			wait->rank = json_integer_value(rank);
	}
}

/* A text of a client need not be UTF-8. */
static json_t *make_answer(const struct hvd_store_waits *waits)
{
	json_t *ranks = json_object(), *lines = json_array(), *text;
	char number[24];

	for (size_t i = 0; i < waits->n; i++) {
		const struct wait *wait = &waits->v[i];

		snprintf(number, sizeof(number), "%lld", (long long)wait->rank);
		text = json_string(wait->rank >= 0 ? wait->key : wait->line);
		if (!text)
			text = json_string(wait->rank >= 0 ? "?" : "a process waits");
		if (wait->rank >= 0)
			json_object_set_new(ranks, number, text);
		else
			json_array_append_new(lines, text);
	}
	return json_pack("{s:o, s:o}", "ranks", ranks, "lines", lines);
}

static void on_owners(const json_t *answers, void *arg)
{
	struct hvd_store_waits *waits = arg;
	hvd_store_waits_fn *done = waits->done;
	json_auto_t *answer = NULL;
	const char *host;
	json_t *which;

	json_object_foreach(waits->asked, host, which)
	{
		take_owners(waits, which, json_object_get(json_object_get(answers, host), "ranks"));
	}
	answer = make_answer(waits);
	clear(waits);
	done(answer, waits->arg);
}

/* ---- the question ---- */

static void on_lines(char *text, void *arg)
{
	hvd_cleanup_free char *lines = text;
	struct hvd_store_waits *waits = arg;
	const char *next = lines;
	struct hvd_wait_line line;
	json_auto_t *questions = NULL;

	if (!waits->awaits_lines)
		return;
	waits->awaits_lines = false;
	while (hvd_wait_line_next(&next, &line))
		add_line(waits, &line);
	if (waits->n)
		qsort(waits->v, waits->n, sizeof(*waits->v), by_addr);
	questions = make_questions(waits);
	hvd_host_questions_ask(waits->questions, questions, false, OWNER_SECONDS, on_owners, waits);
}

bool hvd_store_waits_ask(struct hvd_store_waits *waits, hvd_store_waits_fn *done, void *arg)
{
	if (!waits)
		return false;
	clear(waits);
	waits->done = done;
	waits->arg = arg;
	waits->awaits_lines = hvd_rv_service_ask_waits(waits->service, HVD_RV_WAITS_MOST, on_lines, waits);
	return waits->awaits_lines;
}

void hvd_store_waits_forget(struct hvd_store_waits *waits)
{
	if (!waits)
		return;
	if (waits->asked)
		hvd_host_questions_forget(waits->questions);
	clear(waits);
}

struct hvd_store_waits *hvd_store_waits_create(const struct hvd_host_table *table, struct hvd_rv_service *service,
					       struct hvd_host_questions *questions)
{
	struct hvd_store_waits *waits = hvd_xcalloc(1, sizeof(*waits));

	*waits = (struct hvd_store_waits){.table = table, .service = service, .questions = questions};
	return waits;
}

void hvd_store_waits_destroy(struct hvd_store_waits *waits)
{
	if (!waits)
		return;
	clear(waits);
	free(waits);
}
