/* SPDX-License-Identifier: Apache-2.0 */
#include "status_table.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/xalloc.h"
#include "status_figures.h"
#include "status_odd.h"

#include <stdlib.h>
#include <string.h>

#define MOST_HOST 16
/* The column of keys of the store has at least so many characters. */
#define LEAST_KEY 8

struct row {
	const json_t *of;
	enum hvd_odd odd;
	char *why; /* it is odd, or NULL */
	double by; /* what it is sorted by: the largest first */
	size_t at; /* its place in the list */
};

struct table {
	const json_t *list;
	const struct hvd_status_look *look;
	bool shown[HVD_STATUS_COLUMNS]; /* a row has it */
	bool figures;                   /* any is shown */
	bool waits;                     /* a row waits in the store */
	int host, role;                 /* widths; role: 0 = there is no such column */
	struct row *rows;
	size_t n, n_odd;
};

static bool has_figures(const struct table *table, const json_t *of)
{
	return table->look->hosts ? strcmp(hvd_json_text(of, "stage"), "here") == 0
				  : strcmp(hvd_json_text(of, "state"), "running") == 0;
}

static double sort_by(const struct table *table, const struct row *row)
{
	static const char *const keys[] = {
		[HVD_STATUS_BY_CPU] = "cpu", [HVD_STATUS_BY_MEMORY] = "memory", [HVD_STATUS_BY_AWAITED] = "awaited"};
	const json_t *value;

	if (table->look->order == HVD_STATUS_BY_ODD)
		return row->why != NULL;
	if (table->look->order == HVD_STATUS_BY_RANK)
		return 0;
	value = json_object_get(row->of, keys[table->look->order]);
	return json_is_number(value) ? json_number_value(value) : -1;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->by != y->by ? (x->by < y->by) - (x->by > y->by) : (x->at > y->at) - (x->at < y->at);
}

static int role_width(int width, const char *role)
{
	const int len = (int)strnlen(role, MOST_HOST);

	return len > width ? len : width < 4 ? 4 : width;
}

static void make_table(struct table *table, const json_t *list, const struct hvd_status_look *look)
{
	const struct hvd_odd_list odd = hvd_status_odd_list(list, look->hosts);
	json_t *of;
	size_t i;

	*table = (struct table){.list = list, .look = look, .host = 4, .n = json_array_size(list)};
	if (table->n > look->rows)
		table->host = 7; /* of groups */
	table->rows = hvd_xcalloc(table->n + 1, sizeof(*table->rows));
	json_array_foreach(list, i, of)
	{
		const int len = (int)strnlen(hvd_json_text(of, "host"), MOST_HOST);

		table->host = len > table->host ? len : table->host;
		if (table->n <= look->rows && *hvd_json_text(of, "role"))
			table->role = role_width(table->role, hvd_json_text(of, "role"));
		table->waits |= *hvd_json_text(of, "waits") != '\0';
		for (size_t c = 0; c < HVD_STATUS_COLUMNS; c++) {
			table->shown[c] |= json_is_number(json_object_get(of, hvd_status_columns[c].key));
			table->figures |= table->shown[c];
		}
	}
	json_array_foreach(list, i, of)
	{
		struct row *row = &table->rows[i];

		*row = (struct row){.of = of, .at = i};
		row->odd = hvd_status_odd(&odd, of, &row->why);
		row->by = sort_by(table, row);
		table->n_odd += row->why != NULL;
	}
	qsort(table->rows, table->n, sizeof(*table->rows), compare_rows);
}

static void clear_table(struct table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->rows[i].why);
	free(table->rows);
}

char *hvd_status_first_rank(const json_t *ranks, enum hvd_status_order order)
{
	const struct hvd_status_look look = {.order = order};
	char rank[HVD_RANK_NAME] = "0";
	struct table table;

	make_table(&table, ranks, &look);
	if (table.n)
		hvd_status_rank(table.rows[0].of, rank);
	clear_table(&table);
	return hvd_xstrdup(rank);
}

/* How many characters are left for a key of the store; 0: too few. */
static int key_room(const struct table *table)
{
	int used = 5 + 1 + (table->role ? table->role + 1 : 0) + table->host + 1;

	for (size_t c = 0; c < HVD_STATUS_COLUMNS; c++)
		used += table->shown[c] ? 1 + hvd_status_columns[c].width : 0;
	return table->waits && used + LEAST_KEY <= (int)table->look->width ? (int)table->look->width - used : 0;
}

static void put_titles(struct hvd_status_lines *out, const struct table *table, const char *first, const char *second)
{
	char *line = hvd_xasprintf("%5s ", first);

	if (table->role)
		hvd_xappendf(&line, "%-*s ", table->role, "ROLE");
	hvd_xappendf(&line, "%-*s", table->host, second);
	for (size_t c = 0; c < HVD_STATUS_COLUMNS; c++)
		if (table->shown[c])
			hvd_xappendf(&line, " %*s", hvd_status_columns[c].width, hvd_status_columns[c].title);
	if (key_room(table))
		hvd_xappendf(&line, " STORE");
	hvd_status_add(out, HVD_STATUS_TITLES, line);
}

/* Append a figure of the column; NULL: it is not known. */
static void put_figure(char **line, const struct hvd_status_column *column, const double *value)
{
	char figure[16] = "-";

	if (value)
		hvd_status_figure(figure, column->unit, *value);
	hvd_xappendf(line, " %*s", column->width, figure);
}

static void put_row(struct hvd_status_lines *out, const struct table *table, const struct row *row)
{
	const bool hosts = table->look->hosts;
	char *line = hvd_xasprintf("%5.0f ", hvd_status_number_of(row->of, hosts ? "ranks" : "rank"));

	if (table->role)
		hvd_xappendf(&line, "%-*.*s ", table->role, table->role, hvd_json_text(row->of, "role"));
	hvd_xappendf(&line, "%-*.*s", table->host, table->host, hvd_json_text(row->of, "host"));
	if (!has_figures(table, row->of))
		hvd_xappendf(&line, " %s", hvd_json_text(row->of, hosts ? "stage" : "state"));
	for (size_t c = 0; c < HVD_STATUS_COLUMNS && has_figures(table, row->of); c++) {
		const json_t *of = json_object_get(row->of, hvd_status_columns[c].key);
		const double value = json_number_value(of);

		if (table->shown[c])
			put_figure(&line, &hvd_status_columns[c], json_is_number(of) ? &value : NULL);
	}
	if (key_room(table) && *hvd_json_text(row->of, "waits"))
		hvd_xappendf(&line, " %.*s", key_room(table), hvd_json_text(row->of, "waits"));
	hvd_status_add(out, row->why ? HVD_STATUS_ODD_ROW : HVD_STATUS_ROW, line);
}

/* ---- many ---- */

/* A row of a group or of all: each column's quantile, 0 the least and 1 the largest. */
struct quantile {
	double at;
	char *line; /* its begin, and then all of it */
};

/* Complete these rows about n members. */
static void put_quantiles(struct hvd_status_lines *out, enum hvd_status_kind kind, const struct table *table,
			  const json_t *const *of, size_t n, struct quantile *rows, size_t n_rows)
{
	for (size_t c = 0; c < HVD_STATUS_COLUMNS; c++) {
		hvd_cleanup_free double *values = NULL;
		size_t known;

		if (!table->shown[c])
			continue;
		values = hvd_status_sorted(of, n, hvd_status_columns[c].key, &known);
		for (size_t r = 0; r < n_rows; r++)
			put_figure(&rows[r].line, &hvd_status_columns[c],
				   known ? &values[(size_t)(rows[r].at * (double)(known - 1) + 0.5)] : NULL);
	}
	for (size_t r = 0; r < n_rows; r++)
		hvd_status_add(out, kind, rows[r].line);
}

/* The group of a row: why it is odd, or in which state it is. */
static const char *group_of(const struct table *table, const struct row *row)
{
	static const char *const names[HVD_ODD_NOT] = {
		[HVD_ODD_SLOW] = "slow",   [HVD_ODD_FAILED] = "failed", [HVD_ODD_GROWS] = "growing",
		[HVD_ODD_WAITS] = "store", [HVD_ODD_SILENT] = "silent", [HVD_ODD_LOST] = "lost"};

	if (row->odd != HVD_ODD_NOT)
		return names[row->odd];
	if (!table->look->hosts && *hvd_json_text(row->of, "waits"))
		return "store";
	return hvd_json_text(row->of, table->look->hosts ? "stage" : "state");
}

/* The members of the group of rows[first]. Returns how many. */
static size_t members(const struct table *table, size_t first, const json_t **of)
{
	const struct row *row = &table->rows[first];
	const char *group = group_of(table, row);
	size_t n = 0;

	for (size_t i = first; i < table->n; i++)
		if (table->rows[i].odd == row->odd && strcmp(group_of(table, &table->rows[i]), group) == 0)
			of[n++] = table->rows[i].of;
	return n;
}

#define MOST_GROUPS 16

/* The first row of each group, odd ones first. */
static size_t find_groups(const struct table *table, size_t firsts[MOST_GROUPS])
{
	size_t n = 0;

	for (int odd = 0; odd <= HVD_ODD_NOT; odd++)
		for (size_t i = 0; i < table->n && n < MOST_GROUPS; i++) {
			bool known = table->rows[i].odd != (enum hvd_odd)odd;

			for (size_t k = 0; k < n && !known; k++)
				known = table->rows[firsts[k]].odd == (enum hvd_odd)odd &&
					strcmp(group_of(table, &table->rows[firsts[k]]),
					       group_of(table, &table->rows[i])) == 0;
			if (!known)
				firsts[n++] = i;
		}
	return n;
}

/* A row for each group, with the medians of its columns; then the quantiles of all. */
static void put_groups(struct hvd_status_lines *out, const struct table *table)
{
	static const struct {
		const char *name;
		double at;
	} quantiles[] = {{"least", 0}, {"25 %", 0.25}, {"half", 0.5}, {"75 %", 0.75}, {"most", 1}};
	struct quantile all[sizeof(quantiles) / sizeof(quantiles[0])];
	const json_t **of = hvd_xcalloc(table->n + 1, sizeof(*of));
	size_t firsts[MOST_GROUPS], n = find_groups(table, firsts);

	put_titles(out, table, table->look->hosts ? "HOSTS" : "RANKS", "GROUP");
	for (size_t k = 0; k < n; k++) {
		const struct row *row = &table->rows[firsts[k]];
		const size_t many = members(table, firsts[k], of);
		struct quantile median = {
			0.5, hvd_xasprintf("%5zu %-*.*s", many, table->host, table->host, group_of(table, row))};

		put_quantiles(out, row->why ? HVD_STATUS_ODD_ROW : HVD_STATUS_ROW, table, of, many, &median, 1);
	}
	for (size_t i = 0; i < table->n; i++)
		of[i] = table->rows[i].of;
	for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++)
		all[q] = (struct quantile){
			quantiles[q].at, hvd_xasprintf("%5s %-*s", quantiles[q].name, table->host, q ? "" : "of all")};
	put_quantiles(out, HVD_STATUS_ROW, table, of, table->n, all, sizeof(all) / sizeof(all[0]));
	free(of);
}

/* ---- reasons ---- */

static void put_reason(struct hvd_status_lines *out, const struct table *table, const struct row *row)
{
	char rank[HVD_RANK_NAME];

	hvd_status_wrap(out, HVD_STATUS_REASON, 2, table->look->width, "rank %s on %s %s",
			hvd_status_rank(row->of, rank), hvd_json_text(row->of, "host"), row->why);
}

/* A sentence for each reason. */
static void put_common_reasons(struct hvd_status_lines *out, const struct table *table)
{
	const json_t **of = hvd_xcalloc(table->n + 1, sizeof(*of));
	size_t firsts[MOST_GROUPS], n = find_groups(table, firsts);

	for (size_t k = 0; k < n && table->rows[firsts[k]].why; k++) {
		const struct row *row = &table->rows[firsts[k]];
		const size_t many = members(table, firsts[k], of);
		hvd_cleanup_free char *text = NULL;

		if (many == 1) {
			put_reason(out, table, row);
			continue;
		}
		text = hvd_status_odd_ranks(row->odd, of, many, row->why);
		hvd_status_wrap(out, HVD_STATUS_REASON, 2, table->look->width, "%s", text);
	}
	free(of);
}

static void put_reasons(struct hvd_status_lines *out, const struct table *table)
{
	if (table->n_odd > table->look->reasons) {
		put_common_reasons(out, table);
		return;
	}
	for (size_t at = 0; at < table->n; at++)
		if (table->rows[at].why)
			put_reason(out, table, &table->rows[at]);
}

void hvd_status_table(struct hvd_status_lines *out, const json_t *list, const struct hvd_status_look *look)
{
	struct table table;
	size_t shown = 0;

	make_table(&table, list, look);
	if (!look->hosts)
		put_reasons(out, &table);
	if (table.n && !look->hosts && !table.figures)
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, look->width, "what its ranks use is not known");
	else if (table.n) {
		const bool all = table.n <= look->rows, odd = look->order == HVD_STATUS_BY_ODD;

		hvd_status_add(out, HVD_STATUS_NOTE, hvd_xstrdup(""));
		if (!all)
			put_groups(out, &table);
		if (all || !odd || table.n_odd)
			put_titles(out, &table, look->hosts ? "RANKS" : "RANK", "HOST");
		for (size_t i = 0; i < table.n && (all || shown < look->first); i++)
			if (all || table.rows[i].why || !odd) {
				put_row(out, &table, &table.rows[i]);
				shown++;
			}
		if (!all)
			hvd_status_add(out, HVD_STATUS_NOTE,
				       hvd_xasprintf("%zu %s are left out; --json shows all", table.n - shown,
						     look->hosts ? "hosts" : "ranks"));
	}
	clear_table(&table);
}
