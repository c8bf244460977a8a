/* SPDX-License-Identifier: Apache-2.0 */
#include "status_odd.h"

#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/json_text.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_list.h"
#include "status_figures.h"

#include <stdlib.h>
#include <string.h>

/* Memory that grows by so much in an hour is worth a sentence, if that is half of the rank's. */
#define MUCH_GROWTH (256.0 * 1024 * 1024)
/* Hosts in a sentence, by the characters of their list. */
#define MOST_HOSTS 60
/* Keys of the store that are looked at, and those with a sentence. */
#define MOST_KEYS  64
#define SHOWN_KEYS 5

/* ---- one ---- */

const char *hvd_status_rank(const json_t *of, char text[HVD_RANK_NAME])
{
	return hvd_rank_name_text(hvd_json_text(of, "role"), json_integer_value(json_object_get(of, "rank")), text);
}

struct hvd_odd_list hvd_status_odd_list(const json_t *list, bool hosts)
{
	struct hvd_odd_list of_list = {.hosts = hosts};
	size_t waiting = 0, i;
	json_t *of;

	json_array_foreach(list, i, of)
	{
		of_list.figures |= json_is_number(json_object_get(of, "cpu"));
		waiting += *hvd_json_text(of, "waits") != '\0';
	}
	of_list.few_wait = waiting < json_array_size(list) - waiting;
	return of_list;
}

static enum hvd_odd odd_host(const char *stage, char **why)
{
	if (strcmp(stage, "lost") != 0 && strcmp(stage, "left-out") != 0)
		return HVD_ODD_NOT;
	*why = hvd_xstrdup(stage);
	return HVD_ODD_LOST;
}

enum hvd_odd hvd_status_odd(const struct hvd_odd_list *list, const json_t *of, char **why)
{
	const double growth = hvd_status_number_of(of, "growth") * 3600, memory = hvd_status_number_of(of, "memory");
	const char *state = hvd_json_text(of, "state"), *waits = hvd_json_text(of, "waits");
	char bytes[16];

	*why = NULL;
	if (list->hosts)
		return odd_host(hvd_json_text(of, "stage"), why);
	if (*hvd_json_text(of, "slow")) {
		*why = hvd_xasprintf("is slow: %s", hvd_json_text(of, "slow"));
		return HVD_ODD_SLOW;
	}
	if (strcmp(state, "failed") == 0) {
		*why = hvd_xasprintf("has failed with status %.0f", hvd_status_number_of(of, "status"));
		return HVD_ODD_FAILED;
	}
	if (growth >= MUCH_GROWTH && growth >= memory / 2) {
		hvd_status_figure(bytes, HVD_STATUS_BYTES, growth);
		*why = hvd_xasprintf("uses ever more memory: by %s an hour", bytes);
		return HVD_ODD_GROWS;
	}
	if (*waits && list->few_wait) {
		*why = hvd_xasprintf("waits in the store: for %s", waits);
		return HVD_ODD_WAITS;
	}
	if (list->figures && strcmp(state, "running") == 0 && !json_object_get(of, "cpu")) {
		*why = hvd_xstrdup("reports nothing: its agent has not looked at it yet, or is silent");
		return HVD_ODD_SILENT;
	}
	return HVD_ODD_NOT;
}

/* ---- several ---- */

static void add_host(struct hvd_strv *hosts, const char *host)
{
	if (*host && (hosts->n == 0 || strcmp(hosts->v[hosts->n - 1], host) != 0) && !hvd_strv_has(hosts, host))
		hvd_strv_add(hosts, host);
}

/* "ranks 3, 17-20", or "trainer ranks 3, 17-20, rollout/1 rank 0". Takes no more than the names of each. */
static char *rank_list(const json_t *const *ranks, size_t n)
{
	hvd_cleanup_free int *numbers = hvd_xcalloc(n + 1, sizeof(*numbers));
	char *all = hvd_xstrdup("");

	for (size_t i = 0, k; i < n; i = k) {
		const char *role = hvd_json_text(ranks[i], "role");
		hvd_cleanup_free char *list = NULL;

		for (k = i; k < n && strcmp(hvd_json_text(ranks[k], "role"), role) == 0; k++)
			numbers[k - i] = (int)json_integer_value(json_object_get(ranks[k], "rank"));
		list = hvd_rank_list(numbers, k - i);
		hvd_xappendf(&all, "%s%s%s%s", i ? ", " : "", role, *role ? " " : "", list);
	}
	return all;
}

char *hvd_status_odd_ranks(enum hvd_odd odd, const json_t *const *ranks, size_t n, const char *first)
{
	static const char *const words[] = {[HVD_ODD_SLOW] = "are slow",
					    [HVD_ODD_FAILED] = "have failed",
					    [HVD_ODD_GROWS] = "use ever more memory",
					    [HVD_ODD_WAITS] = "wait in the store",
					    [HVD_ODD_SILENT] = "report nothing",
					    [HVD_ODD_LOST] = "are lost",
					    [HVD_ODD_NOT] = "run"};
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv hosts = {0};
	hvd_cleanup_free char *list = rank_list(ranks, n), *names = NULL;
	const char *more = strstr(first, ": ");
	char *text, rank[HVD_RANK_NAME];

	for (size_t i = 0; i < n; i++)
		add_host(&hosts, hvd_json_text(ranks[i], "host"));
	names = hvd_hostlist_compress(hosts.v, hosts.n);
	if (strlen(names) > MOST_HOSTS) {
		free(names);
		names = hvd_xasprintf("%zu hosts", hosts.n);
	}
	text = hvd_xasprintf("%s on %s %s", list, names, words[odd]);
	if (more)
		hvd_xappendf(&text, "; rank %s%s", hvd_status_rank(ranks[0], rank), more);
	return text;
}

/* ---- the store ---- */

struct waiting {
	const char *key;
	const json_t **ranks;
	size_t n;
};

static int by_number(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	return (x->n < y->n) - (x->n > y->n);
}

/* Returns how many keys; each has room for all ranks. */
static size_t find_waiting(const json_t *list, struct waiting waiting[MOST_KEYS], size_t *ranks)
{
	size_t n = 0, i, k;
	json_t *of;

	*ranks = 0;
	json_array_foreach(list, i, of)
	{
		const char *key = hvd_json_text(of, "waits");

		for (k = 0; k < n && strcmp(waiting[k].key, key) != 0; k++)
			;
		if (!*key || k == MOST_KEYS)
			continue;
		if (k == n)
			waiting[n++] = (struct waiting){key, hvd_xcalloc(json_array_size(list), sizeof(json_t *)), 0};
		waiting[k].ranks[waiting[k].n++] = of;
		++*ranks;
	}
	return n;
}

/* Lines are as the store has them: they name processes, which may be none of a rank that is known. */
static void put_lines(struct hvd_status_lines *out, size_t width, const json_t *store)
{
	json_t *line;
	size_t i;

	json_array_foreach(store, i, line)
	{
		if (i == SHOWN_KEYS)
			hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "store: and %zu more",
					json_array_size(store) - i);
		if (i < SHOWN_KEYS && json_is_string(line))
			hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "store: %s", json_string_value(line));
	}
}

void hvd_status_waits(struct hvd_status_lines *out, size_t width, const json_t *launch)
{
	const json_t *store = json_object_get(launch, "store");
	struct waiting waiting[MOST_KEYS];
	size_t ranks, n = find_waiting(json_object_get(launch, "ranks"), waiting, &ranks);

	if (n)
		qsort(waiting, n, sizeof(*waiting), by_number);
	for (size_t k = 0; k < n && k < SHOWN_KEYS; k++) {
		hvd_cleanup_free char *list = rank_list(waiting[k].ranks, waiting[k].n);

		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "store: %s %s for %s", list,
				waiting[k].n == 1 ? "waits" : "wait", waiting[k].key);
	}
	if (n > SHOWN_KEYS)
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "store: others wait for %zu more keys",
				n - SHOWN_KEYS);
	for (size_t k = 0; k < n; k++)
		free(waiting[k].ranks);
	put_lines(out, width, store);
}
