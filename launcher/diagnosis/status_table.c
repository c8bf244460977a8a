/* SPDX-License-Identifier: Apache-2.0 */
#include "status_table.h"

#include "lib/base/median.h"
#include "lib/base/xalloc.h"
#include "status_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_HOST 16
/* Memory that grows by so much in an hour is worth a sentence, if that is half of the rank's. */
#define MUCH_GROWTH (256.0 * 1024 * 1024)

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* ---- figures ---- */

enum unit {
	SHARE, /* 0.98 is 98% */
	BYTES,
	HOURLY, /* bytes a second as bytes an hour, with a sign */
	SECONDS,
};

static void put_bytes(char *out, size_t size, double bytes, const char *sign)
{
	static const char units[] = "BKMGTP";
	size_t u = 0;

	while (bytes >= 1000 && u + 1 < sizeof(units) - 1) {
		bytes /= 1024;
		u++;
	}
	if (u == 0)
		snprintf(out, size, "%s%.0f", bytes > 0 ? sign : "", bytes);
	else
		snprintf(out, size, bytes < 9.95 ? "%s%.1f%c" : "%s%.0f%c", sign, bytes, units[u]);
}

static void put_seconds(char *out, size_t size, double s)
{
	if (s < 100)
		snprintf(out, size, "%.0fs", s);
	else if (s < 100 * 60)
		snprintf(out, size, "%.0fm", s / 60);
	else if (s < 100 * 3600.0)
		snprintf(out, size, "%.0fh", s / 3600);
	else
		snprintf(out, size, "%.0fd", s / 86400);
}

static void put_figure(char *out, size_t size, enum unit unit, double value)
{
	switch (unit) {
	case SHARE:
		snprintf(out, size, "%.0f%%", value * 100);
		break;
	case BYTES:
		put_bytes(out, size, value < 0 ? 0 : value, "");
		break;
	case HOURLY:
		put_bytes(out, size, (value < 0 ? -value : value) * 3600, value < 0 ? "-" : "+");
		break;
	case SECONDS:
		put_seconds(out, size, value);
		break;
	}
}

char *hvd_job_status_odd(const json_t *rank)
{
	const double growth = number_of(rank, "growth"), memory = number_of(rank, "memory");
	const char *state = text_of(rank, "state");
	char bytes[16];

	if (*text_of(rank, "slow"))
		return hvd_xasprintf("is slow: %s", text_of(rank, "slow"));
	if (strcmp(state, "failed") == 0)
		return hvd_xasprintf("has failed with status %.0f", number_of(rank, "status"));
	if (growth * 3600 >= MUCH_GROWTH && growth * 3600 >= memory / 2) {
		put_bytes(bytes, sizeof(bytes), growth * 3600, "");
		return hvd_xasprintf("uses ever more memory: by %s an hour", bytes);
	}
	return NULL;
}

/* ---- the table ---- */

static const struct column {
	const char *title, *key;
	int width;
	enum unit unit;
} columns[] = {
	{"CPU", "cpu", 4, SHARE},         {"AWAIT", "awaited", 5, SHARE}, {"DELAY", "delay", 5, SHARE},
	{"MEM", "memory", 5, BYTES},      {"MEM/h", "growth", 6, HOURLY}, {"READ", "read", 5, BYTES},
	{"WRITE", "written", 5, BYTES},   {"OUT", "output", 4, SECONDS},  {"GPU", "gpu", 4, SHARE},
	{"GMEM", "gpu_memory", 5, BYTES},
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

struct row {
	const json_t *of;
	char *odd; /* why it is odd, or NULL */
	double by; /* what it is sorted by: the largest first */
	size_t at; /* its place in the list */
};

struct table {
	const json_t *list;
	const struct hvd_status_look *look;
	bool shown[N_COLUMNS]; /* a row has it */
	bool figures;          /* any is shown */
	int host;              /* width */
	struct row *rows;
	size_t n, n_odd;
};

static bool has_figures(const struct table *table, const json_t *of)
{
	return table->look->hosts ? strcmp(text_of(of, "stage"), "here") == 0
				  : strcmp(text_of(of, "state"), "running") == 0;
}

static char *why_odd(const struct table *table, const json_t *of)
{
	const char *stage = text_of(of, "stage");
	char *odd;

	if (table->look->hosts)
		return strcmp(stage, "lost") == 0 || strcmp(stage, "left-out") == 0 ? hvd_xstrdup(stage) : NULL;
	odd = hvd_job_status_odd(of);
	if (!odd && table->shown[0] && has_figures(table, of) && !json_object_get(of, "cpu"))
		odd = hvd_xstrdup("reports nothing: its agent has not looked at it yet, or is silent");
	return odd;
}

static double sort_by(const struct table *table, const struct row *row)
{
	static const char *const keys[] = {
		[HVD_STATUS_BY_CPU] = "cpu", [HVD_STATUS_BY_MEMORY] = "memory", [HVD_STATUS_BY_AWAITED] = "awaited"};
	const json_t *value;

	if (table->look->order == HVD_STATUS_BY_ODD)
		return row->odd != NULL;
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

static void make_table(struct table *table, const json_t *list, const struct hvd_status_look *look)
{
	json_t *of;
	size_t i;

	*table = (struct table){.list = list, .look = look, .host = 4, .n = json_array_size(list)};
	table->rows = hvd_xcalloc(table->n + 1, sizeof(*table->rows));
	json_array_foreach(list, i, of)
	{
		const int len = (int)strnlen(text_of(of, "host"), MOST_HOST);

		table->host = len > table->host ? len : table->host;
		for (size_t c = 0; c < N_COLUMNS; c++) {
			table->shown[c] |= json_is_number(json_object_get(of, columns[c].key));
			table->figures |= table->shown[c];
		}
	}
	json_array_foreach(list, i, of)
	{
		struct row *row = &table->rows[i];

		*row = (struct row){.of = of, .at = i, .odd = why_odd(table, of)};
		row->by = sort_by(table, row);
		table->n_odd += row->odd != NULL;
	}
	qsort(table->rows, table->n, sizeof(*table->rows), compare_rows);
}

static void put_titles(struct hvd_status_lines *out, const struct table *table)
{
	char *line = hvd_xasprintf("%5s %-*s", table->look->hosts ? "RANKS" : "RANK", table->host, "HOST");

	for (size_t c = 0; c < N_COLUMNS; c++)
		if (table->shown[c])
			hvd_xappendf(&line, " %*s", columns[c].width, columns[c].title);
	hvd_status_add(out, HVD_STATUS_TITLES, line);
}

static void put_row(struct hvd_status_lines *out, const struct table *table, const struct row *row)
{
	const bool hosts = table->look->hosts;
	char *line = hvd_xasprintf("%5.0f %-*.*s", number_of(row->of, hosts ? "ranks" : "rank"), table->host,
				   table->host, text_of(row->of, "host"));
	char figure[16];

	if (!has_figures(table, row->of))
		hvd_xappendf(&line, " %s", text_of(row->of, hosts ? "stage" : "state"));
	for (size_t c = 0; c < N_COLUMNS && has_figures(table, row->of); c++) {
		const json_t *value = json_object_get(row->of, columns[c].key);

		if (!table->shown[c])
			continue;
		snprintf(figure, sizeof(figure), "-");
		if (json_is_number(value))
			put_figure(figure, sizeof(figure), columns[c].unit, json_number_value(value));
		hvd_xappendf(&line, " %*s", columns[c].width, figure);
	}
	hvd_status_add(out, row->odd ? HVD_STATUS_ODD_ROW : HVD_STATUS_ROW, line);
}

static void put_quantiles(struct hvd_status_lines *out, const struct table *table)
{
	static const struct {
		const char *name;
		double at;
	} quantiles[] = {{"least", 0}, {"25 %", 0.25}, {"half", 0.5}, {"75 %", 0.75}, {"most", 1}};
	double *values = hvd_xcalloc(table->n + 1, sizeof(*values));
	char cells[sizeof(quantiles) / sizeof(quantiles[0])][N_COLUMNS][16];
	json_t *of;
	size_t i;

	for (size_t c = 0; c < N_COLUMNS; c++) {
		size_t known = 0;

		json_array_foreach(table->list, i, of)
		{
			const json_t *value = json_object_get(of, columns[c].key);

			if (json_is_number(value))
				values[known++] = json_number_value(value);
		}
		hvd_sort_figures(values, known);
		for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++)
			if (known)
				put_figure(cells[q][c], sizeof(cells[q][c]), columns[c].unit,
					   values[(size_t)(quantiles[q].at * (double)(known - 1) + 0.5)]);
	}
	for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
		char *line = hvd_xasprintf("%5s %-*s", quantiles[q].name, table->host, q ? "" : "of all");

		for (size_t c = 0; c < N_COLUMNS; c++)
			if (table->shown[c])
				hvd_xappendf(&line, " %*s", columns[c].width, cells[q][c]);
		hvd_status_add(out, HVD_STATUS_ROW, line);
	}
	free(values);
}

static void put_reasons(struct hvd_status_lines *out, const struct table *table)
{
	size_t shown = 0;

	for (size_t at = 0; at < table->n && !table->look->hosts; at++) {
		const struct row *row = &table->rows[at];

		if (!row->odd || shown == table->look->reasons)
			continue;
		shown++;
		hvd_status_wrap(out, HVD_STATUS_REASON, 2, table->look->width, "rank %.0f on %s %s",
				number_of(row->of, "rank"), text_of(row->of, "host"), row->odd);
	}
	if (table->n_odd > shown && !table->look->hosts)
		hvd_status_wrap(out, HVD_STATUS_REASON, 2, table->look->width, "and %zu more ranks are odd",
				table->n_odd - shown);
}

void hvd_status_table(struct hvd_status_lines *out, const json_t *list, const struct hvd_status_look *look)
{
	const char *what = look->hosts ? "hosts" : "ranks";
	struct table table;
	size_t shown = 0;

	make_table(&table, list, look);
	if (table.n && !look->hosts && !table.figures)
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, look->width, "what its ranks use is not known");
	else if (table.n) {
		const bool all = table.n <= look->rows;

		put_reasons(out, &table);
		hvd_status_add(out, HVD_STATUS_NOTE, hvd_xstrdup(""));
		put_titles(out, &table);
		for (size_t i = 0; i < table.n && (all || shown < look->first); i++)
			if (all || table.rows[i].odd || look->order != HVD_STATUS_BY_ODD) {
				put_row(out, &table, &table.rows[i]);
				shown++;
			}
		if (!all) {
			put_quantiles(out, &table);
			hvd_status_add(out, HVD_STATUS_NOTE,
				       hvd_xasprintf("%zu %s are left out; --json shows all", table.n - shown, what));
		}
	}
	for (size_t i = 0; i < table.n; i++)
		free(table.rows[i].odd);
	free(table.rows);
}
