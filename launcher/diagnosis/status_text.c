/* SPDX-License-Identifier: Apache-2.0 */
#include "status_text.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/xalloc.h"
#include "status_figures.h"
#include "status_odd.h"
#include "status_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* "4 here, 1 lost (n7)": how many of the objects have each value, those of values that are not in `plain` by name. */
static char *count_values(const json_t *list, const char *key, const char *name, const char *plain)
{
	struct {
		const char *value;
		unsigned n;
		char *names;
	} seen[16] = {0};
	size_t n = 0, i, s;
	char *text = hvd_xstrdup(""), rank[HVD_RANK_NAME];
	json_t *one;

	json_array_foreach(list, i, one)
	{
		const char *value = hvd_json_text(one, key);

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
				hvd_xappendf(&seen[s].names, "%s%s", *seen[s].names ? ", " : "",
					     hvd_status_rank(one, rank));
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

static void put_goodput(struct hvd_status_lines *out, size_t width, const json_t *launch)
{
	static const char *const parts[] = {"start", "init", "training", "ending", "waiting"};
	const json_t *goodput = json_object_get(launch, "goodput");
	hvd_cleanup_free char *text = NULL;
	char time[32];

	if (!goodput || hvd_status_number_of(launch, "generation") < 1)
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		put_time(time, sizeof(time), hvd_status_number_of(goodput, parts[i]));
		hvd_xappendf(&text, "%s%s %s", i ? ", " : "", parts[i], time);
	}
	hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "goodput: %.1f %% (%s)",
			hvd_status_number_of(goodput, "goodput") * 100, text);
}

/* Of a launch, or in one with several roles of a part about one. */
static void put_generation(struct hvd_status_lines *out, size_t width, const json_t *part)
{
	const double generation = hvd_status_number_of(part, "generation"),
		     restarts = hvd_status_number_of(part, "restarts");
	const char *role = hvd_json_text(part, "role"), *ended_by = hvd_json_text(part, "ended_by");
	char time[32];

	if (generation <= 1 && restarts <= 0)
		return;
	put_time(time, sizeof(time), hvd_status_number_of(part, "generation_seconds"));
	hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "%s%sgeneration: %.0f, for %s, after %.0f restart%s%s%s", role,
			*role ? ", " : "", generation, time, restarts, restarts == 1 ? "" : "s",
			*ended_by ? "; the last one: " : "", ended_by);
}

static void put_generations(struct hvd_status_lines *out, size_t width, const json_t *launch)
{
	json_t *part;
	size_t i;

	put_generation(out, width, launch);
	json_array_foreach(json_object_get(launch, "worlds"), i, part)
	{
		put_generation(out, width, part);
		if (*hvd_json_text(part, "missing"))
			hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "%s waits for: %s",
					hvd_json_text(part, "role"), hvd_json_text(part, "missing"));
	}
}

static void put_state(struct hvd_status_lines *out, size_t width, const json_t *launch)
{
	const json_t *hosts = json_object_get(launch, "hosts"), *ranks = json_object_get(launch, "ranks");
	hvd_cleanup_free char *head = NULL, *host_counts = NULL, *rank_counts = NULL;
	char time[32];

	put_time(time, sizeof(time), hvd_status_number_of(launch, "seconds"));
	if (hvd_status_number_of(launch, "job") > 0)
		hvd_xappendf(&head, "job %.0f, ", hvd_status_number_of(launch, "job"));
	hvd_xappendf(&head, "process %.0f on %s: %s, begun %s ago", hvd_status_number_of(launch, "pid"),
		     hvd_json_text(launch, "host"), hvd_json_text(launch, "state"), time);
	hvd_status_wrap(out, HVD_STATUS_HEAD, 0, width, "%s", head);
	if (*hvd_json_text(launch, "command"))
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "command: %s", hvd_json_text(launch, "command"));
	put_generations(out, width, launch);
	put_goodput(out, width, launch);
	host_counts = count_values(hosts, "stage", "host", "here");
	if (*host_counts)
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "hosts: %s", host_counts);
	rank_counts = count_values(ranks, "state", "rank", "running ended");
	if (*rank_counts)
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "ranks: %s", rank_counts);
	if (*hvd_json_text(launch, "missing"))
		hvd_status_wrap(out, HVD_STATUS_STATE, 2, width, "waits for: %s", hvd_json_text(launch, "missing"));
	hvd_status_waits(out, width, launch);
}

/* The last lines of a rank that was asked for. */
static void put_last_lines(struct hvd_status_lines *out, const json_t *ranks)
{
	const json_t *rank = json_array_get(ranks, 0);
	const char *text = hvd_json_text(rank, "last_lines");

	if (!json_object_get(rank, "last_lines"))
		return;
	hvd_status_add(out, HVD_STATUS_NOTE, hvd_xstrdup(""));
	hvd_status_add(out, HVD_STATUS_STATE,
		       hvd_xasprintf("its last lines (%s):", hvd_json_text(rank, "last_lines_of")));
	while (*text) {
		const size_t len = strcspn(text, "\n");

		hvd_status_add(out, HVD_STATUS_NOTE, hvd_xstrndup(text, len));
		text += len + (text[len] == '\n');
	}
}

void hvd_job_status_lines(const json_t *status, const struct hvd_status_look *look, struct hvd_status_lines *out)
{
	json_t *launch;
	size_t i;

	json_array_foreach(json_object_get(status, "launches"), i, launch)
	{
		if (i)
			hvd_status_add(out, HVD_STATUS_NOTE, hvd_xstrdup(""));
		put_state(out, look->width, launch);
		hvd_status_table(out, json_object_get(launch, look->hosts ? "hosts" : "ranks"), look);
		put_last_lines(out, json_object_get(launch, "ranks"));
	}
}

char *hvd_job_status_text(const json_t *status)
{
	static const struct hvd_status_look look = {
		.width = 80, .rows = HVD_STATUS_RANKS, .first = HVD_STATUS_ODD, .reasons = HVD_STATUS_ODD};
	struct hvd_status_lines lines = {0};
	char *text = hvd_xstrdup("");

	hvd_job_status_lines(status, &look, &lines);
	for (size_t i = 0; i < lines.n; i++)
		hvd_xappendf(&text, "%s\n", lines.v[i].text);
	hvd_status_lines_clear(&lines);
	return text;
}
