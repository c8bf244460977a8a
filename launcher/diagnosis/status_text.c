/* SPDX-License-Identifier: Apache-2.0 */
#include "status_text.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH     80
#define MOST_HOST 16
/* Memory that grows by so much in an hour is worth a sentence, if that is half of the rank's. */
#define MUCH_GROWTH (256.0 * 1024 * 1024)
#define MOST_WAITS  5

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

/* ---- sentences ---- */

/* Append a text, which is broken at spaces, and indented by two more from its second line on. */
static void put_wrapped(char **out, size_t indent, const char *text)
{
	size_t column = 0, left = indent;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (column > 0 && column + 1 + word > WIDTH) {
			hvd_xappendf(out, "\n");
			column = 0;
			left = indent + 2;
		}
		if (column == 0)
			hvd_xappendf(out, "%*s", (int)left, "");
		hvd_xappendf(out, "%s%.*s", column ? " " : "", (int)word, text);
		column = (column ? column + 1 : left) + word;
		text += word;
		text += strspn(text, " ");
	}
	hvd_xappendf(out, "\n");
}

__attribute__((format(printf, 2, 3))) static void put_line(char **out, const char *format, ...)
{
	hvd_cleanup_free char *line = NULL;
	va_list ap;

	va_start(ap, format);
	line = hvd_xvasprintf(format, ap);
	va_end(ap);
	put_wrapped(out, 2, line);
}

static void put_time(char *out, size_t size, double s)
{
	const long all = s > 0 && s < 1e12 ? (long)s : 0;

	if (s < 60)
		snprintf(out, size, "%.0f s", s);
	else if (s < 3600)
		snprintf(out, size, "%ld min %ld s", all / 60, all % 60);
	else if (s < 2 * 86400)
		snprintf(out, size, "%ld h %ld min", all / 3600, all % 3600 / 60);
	else
		snprintf(out, size, "%ld days %ld h", all / 86400, all % 86400 / 3600);
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

/* "4 here, 1 lost (n7)": how many of the objects have each value, those of values that are not in `plain` by name. */
static char *count_values(const json_t *list, const char *key, const char *name, const char *plain)
{
	struct {
		const char *value;
		unsigned n;
		char *names;
	} seen[16] = {0};
	size_t n = 0, i, s;
	char *text = hvd_xstrdup("");
	json_t *one;

	json_array_foreach(list, i, one)
	{
		const char *value = text_of(one, key);

		for (s = 0; s < n && strcmp(seen[s].value, value) != 0; s++)
			;
		if (s == sizeof(seen) / sizeof(seen[0]))
			continue;
		if (s == n) {
			seen[n++].value = value;
			seen[s].names = hvd_xstrdup("");
		}
		if (seen[s].n++ < 4 && !strstr(plain, value)) {
			json_t *of = json_object_get(one, name);

			if (json_is_string(of))
				hvd_xappendf(&seen[s].names, "%s%s", *seen[s].names ? ", " : "", json_string_value(of));
			else
				hvd_xappendf(&seen[s].names, "%s%.0f", *seen[s].names ? ", " : "",
					     json_number_value(of));
		}
	}
	for (s = 0; s < 2 * n; s++) { /* those that are plain, then the others */
		const size_t v = s % n;

		if ((strstr(plain, seen[v].value) == NULL) != (s >= n))
			continue;
		hvd_xappendf(&text, "%s%u %s", *text ? ", " : "", seen[v].n, seen[v].value);
		if (*seen[v].names)
			hvd_xappendf(&text, " (%s%s)", seen[v].names, seen[v].n > 4 ? ", …" : "");
	}
	for (s = 0; s < n; s++)
		free(seen[s].names);
	return text;
}

static void put_goodput(char **out, const json_t *launch)
{
	static const char *const parts[] = {"start", "init", "training", "ending", "waiting"};
	const json_t *goodput = json_object_get(launch, "goodput");
	hvd_cleanup_free char *text = NULL;
	char time[32];

	if (!goodput || number_of(launch, "generation") < 1)
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		put_time(time, sizeof(time), number_of(goodput, parts[i]));
		hvd_xappendf(&text, "%s%s %s", i ? ", " : "", parts[i], time);
	}
	put_line(out, "goodput: %.1f %% (%s)", number_of(goodput, "goodput") * 100, text);
}

static void put_state(char **out, const json_t *launch)
{
	const double generation = number_of(launch, "generation"), restarts = number_of(launch, "restarts");
	const json_t *hosts = json_object_get(launch, "hosts"), *ranks = json_object_get(launch, "ranks"),
		     *store = json_object_get(launch, "store");
	hvd_cleanup_free char *head = NULL, *host_counts = NULL, *rank_counts = NULL;
	char time[32];
	json_t *line;
	size_t i;

	put_time(time, sizeof(time), number_of(launch, "seconds"));
	if (number_of(launch, "job") > 0)
		hvd_xappendf(&head, "job %.0f, ", number_of(launch, "job"));
	hvd_xappendf(&head, "process %.0f on %s: %s, begun %s ago", number_of(launch, "pid"), text_of(launch, "host"),
		     text_of(launch, "state"), time);
	put_wrapped(out, 0, head);
	if (*text_of(launch, "command"))
		put_line(out, "command: %s", text_of(launch, "command"));
	if (generation > 1 || restarts > 0) {
		put_time(time, sizeof(time), number_of(launch, "generation_seconds"));
		put_line(out, "generation: %.0f, for %s, after %.0f restart%s%s%s", generation, time, restarts,
			 restarts == 1 ? "" : "s", *text_of(launch, "ended_by") ? "; the last one: " : "",
			 text_of(launch, "ended_by"));
	}
	put_goodput(out, launch);
	host_counts = count_values(hosts, "stage", "host", "here");
	if (*host_counts)
		put_line(out, "hosts: %s", host_counts);
	rank_counts = count_values(ranks, "state", "rank", "running ended");
	if (*rank_counts)
		put_line(out, "ranks: %s", rank_counts);
	if (*text_of(launch, "missing"))
		put_line(out, "waits for: %s", text_of(launch, "missing"));
	json_array_foreach(store, i, line)
	{
		if (i == MOST_WAITS)
			put_line(out, "store: and %zu more", json_array_size(store) - i);
		if (i < MOST_WAITS && json_is_string(line))
			put_line(out, "store: %s", json_string_value(line));
	}
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

struct table {
	const json_t *ranks;
	bool shown[N_COLUMNS]; /* a rank has it */
	bool figures;          /* any is shown */
	int host;              /* width */
	char **odd;            /* by index: why, or NULL */
	size_t n, n_odd;
};

static void make_table(struct table *table, const json_t *ranks)
{
	json_t *rank;
	size_t i;

	*table = (struct table){.ranks = ranks, .host = 4, .n = json_array_size(ranks)};
	table->odd = hvd_xcalloc(table->n + 1, sizeof(*table->odd));
	json_array_foreach(ranks, i, rank)
	{
		const int len = (int)strnlen(text_of(rank, "host"), MOST_HOST);

		table->host = len > table->host ? len : table->host;
		for (size_t c = 0; c < N_COLUMNS; c++) {
			table->shown[c] |= json_is_number(json_object_get(rank, columns[c].key));
			table->figures |= table->shown[c];
		}
		table->odd[i] = hvd_job_status_odd(rank);
	}
	json_array_foreach(ranks, i, rank)
	{
		if (!table->odd[i] && table->shown[0] && strcmp(text_of(rank, "state"), "running") == 0 &&
		    !json_object_get(rank, "cpu"))
			table->odd[i] =
				hvd_xstrdup("reports nothing: its agent has not looked at it yet, or is silent");
		table->n_odd += table->odd[i] != NULL;
	}
}

static void put_titles(char **out, const struct table *table)
{
	hvd_xappendf(out, "%5s %-*s", "RANK", table->host, "HOST");
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (table->shown[c])
			hvd_xappendf(out, " %*s", columns[c].width, columns[c].title);
	hvd_xappendf(out, "\n");
}

static void put_row(char **out, const struct table *table, const json_t *rank)
{
	const bool runs = strcmp(text_of(rank, "state"), "running") == 0;
	char figure[16];

	hvd_xappendf(out, "%5.0f %-*.*s", number_of(rank, "rank"), table->host, table->host, text_of(rank, "host"));
	if (!runs) {
		hvd_xappendf(out, " %s\n", text_of(rank, "state"));
		return;
	}
	for (size_t c = 0; c < N_COLUMNS; c++) {
		const json_t *value = json_object_get(rank, columns[c].key);

		if (!table->shown[c])
			continue;
		snprintf(figure, sizeof(figure), "-");
		if (json_is_number(value))
			put_figure(figure, sizeof(figure), columns[c].unit, json_number_value(value));
		hvd_xappendf(out, " %*s", columns[c].width, figure);
	}
	hvd_xappendf(out, "\n");
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void put_quantiles(char **out, const struct table *table)
{
	static const struct {
		const char *name;
		double at;
	} quantiles[] = {{"least", 0}, {"25 %", 0.25}, {"half", 0.5}, {"75 %", 0.75}, {"most", 1}};
	double *values = hvd_xcalloc(table->n + 1, sizeof(*values));
	char cells[sizeof(quantiles) / sizeof(quantiles[0])][N_COLUMNS][16];
	json_t *rank;
	size_t i;

	for (size_t c = 0; c < N_COLUMNS; c++) {
		size_t known = 0;

		json_array_foreach(table->ranks, i, rank)
		{
			const json_t *value = json_object_get(rank, columns[c].key);

			if (json_is_number(value))
				values[known++] = json_number_value(value);
		}
		qsort(values, known, sizeof(*values), by_value);
		for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++)
			if (known)
				put_figure(cells[q][c], sizeof(cells[q][c]), columns[c].unit,
					   values[(size_t)(quantiles[q].at * (double)(known - 1) + 0.5)]);
	}
	for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
		hvd_xappendf(out, "%5s %-*s", quantiles[q].name, table->host, q ? "" : "of all");
		for (size_t c = 0; c < N_COLUMNS; c++)
			if (table->shown[c])
				hvd_xappendf(out, " %*s", columns[c].width, cells[q][c]);
		hvd_xappendf(out, "\n");
	}
	free(values);
}

static void put_odd(char **out, const struct table *table)
{
	size_t shown = 0;

	for (size_t i = 0; i < table->n && shown < HVD_STATUS_ODD; i++) {
		const json_t *rank = json_array_get(table->ranks, i);

		if (!table->odd[i])
			continue;
		shown++;
		put_line(out, "rank %.0f on %s %s", number_of(rank, "rank"), text_of(rank, "host"), table->odd[i]);
	}
	if (table->n_odd > shown)
		put_line(out, "and %zu more ranks are odd", table->n_odd - shown);
}

static void put_ranks(char **out, const json_t *ranks)
{
	struct table table;
	size_t shown = 0;
	bool all;

	make_table(&table, ranks);
	if (table.n && !table.figures)
		put_line(out, "what its ranks use is not known");
	else if (table.n) {
		all = table.n <= HVD_STATUS_RANKS;
		put_odd(out, &table);
		hvd_xappendf(out, "\n");
		put_titles(out, &table);
		for (size_t i = 0; i < table.n; i++)
			if (table.odd[i] && (all || shown < HVD_STATUS_ODD)) {
				put_row(out, &table, json_array_get(ranks, i));
				shown++;
			}
		for (size_t i = 0; i < table.n && all; i++)
			if (!table.odd[i])
				put_row(out, &table, json_array_get(ranks, i));
		if (!all) {
			put_quantiles(out, &table);
			hvd_xappendf(out, "%zu ranks are left out; --json shows all\n", table.n - shown);
		}
	}
	for (size_t i = 0; i < table.n; i++)
		free(table.odd[i]);
	free(table.odd);
}

char *hvd_job_status_text(const json_t *status)
{
	hvd_cleanup_free char *text = hvd_xstrdup("");
	char *shown;
	json_t *launch;
	size_t i, size;

	json_array_foreach(json_object_get(status, "launches"), i, launch)
	{
		if (i)
			hvd_xappendf(&text, "\n");
		put_state(&text, launch);
		put_ranks(&text, json_object_get(launch, "ranks"));
	}
	size = 4 * strlen(text) + 1;
	shown = hvd_xcalloc(1, size);
	hvd_printable(text, shown, size);
	return shown;
}
