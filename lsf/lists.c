/* SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest CPU id: more than any machine has, since ids may have gaps. */
#define MAX_CPU 65535
/* Bytes of all lists of CPUs in an affinity file, with ranges written out: enough for 65,536 tasks of 256 CPUs. */
#define MAX_CPUS_TEXT (64u << 20)

struct words {
	const char *p, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next word, of *len bytes, without a terminating zero byte; NULL at the end. */
static const char *next(struct words *w, size_t *len)
{
	const char *word;

	while (w->p < w->end && is_blank(*w->p))
		w->p++;
	word = w->p;
	while (w->p < w->end && !is_blank(*w->p))
		w->p++;
	*len = (size_t)(w->p - word);
	return *len ? word : NULL;
}

/* Add slots on a host. Lists name a host several times in a row, so it is compared with the last one; hvd_alloc_merge()
 * joins what is left. */
static int add(struct hvd_alloc *out, const char *word, size_t len, int slots, struct hvd_err *err)
{
	struct hvd_alloc_host *last = out->n_hosts ? &out->hosts[out->n_hosts - 1] : NULL;
	hvd_cleanup_free char *name = NULL;

	if (memchr(word, '\0', len))
		return hvd_err_set(err, HVD_E_PROTO, "a host name contains a zero byte");
	if (last && slots <= HVD_MAX_RANKS - out->slots && strlen(last->name) == len &&
	    memcmp(last->name, word, len) == 0) {
		last->slots += slots;
		out->slots += slots;
		return 0;
	}
	name = hvd_xstrndup(word, len);
	return hvd_alloc_add(out, name, slots, err);
}

static int done(struct hvd_alloc *out, int rc, struct hvd_err *err)
{
	if (rc == 0 && out->n_hosts == 0)
		rc = hvd_err_set(err, HVD_E_NOENT, "it names no host");
	if (rc != 0)
		hvd_alloc_clear(out);
	else
		hvd_alloc_merge(out);
	return rc;
}

int hvd_lsf_parse_mcpu(struct hvd_alloc *out, const char *text, struct hvd_err *err)
{
	struct words w = {text, text + strlen(text)};
	const char *name, *count;
	size_t name_len, count_len;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	while (rc == 0 && (name = next(&w, &name_len))) {
		int slots;

		count = next(&w, &count_len);
		slots = count ? (int)hvd_digits(count, count_len, HVD_MAX_RANKS) : -1;
		if (slots < 1)
			rc = hvd_err_set(err, HVD_E_PROTO, "%.*s is not followed by its number of slots",
					 name_len < 80 ? (int)name_len : 80, name);
		else
			rc = add(out, name, name_len, slots, err);
	}
	return done(out, rc, err);
}

int hvd_lsf_parse_names(struct hvd_alloc *out, const char *text, size_t len, struct hvd_err *err)
{
	struct words w = {text, text + len};
	const char *name;
	size_t name_len;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	while (rc == 0 && (name = next(&w, &name_len)))
		rc = add(out, name, name_len, 1, err);
	return done(out, rc, err);
}

/* Write the list "0,1,4-6" as "0,1,4,5,6". The caller frees it; NULL when it is no list of CPUs. */
static char *cpu_list(const char *text, size_t len)
{
	char *out = NULL;
	size_t out_len = 0;
	FILE *f = open_memstream(&out, &out_len);
	bool fine = f && len > 0;

	while (fine) {
		const char *comma = memchr(text, ',', len), *dash;
		size_t item = comma ? (size_t)(comma - text) : len;
		int from, to;

		dash = memchr(text, '-', item);
		from = (int)hvd_digits(text, dash ? (size_t)(dash - text) : item, MAX_CPU);
		to = dash ? (int)hvd_digits(dash + 1, item - (size_t)(dash + 1 - text), MAX_CPU) : from;
		fine = from >= 0 && to >= from;
		for (int cpu = from; fine && cpu <= to; cpu++)
			fine = fprintf(f, "%s%d", ftell(f) > 0 ? "," : "", cpu) > 0;
		if (!comma)
			break;
		text += item + 1;
		len -= item + 1;
	}
	if (f && fclose(f) != 0)
		fine = false;
	if (fine)
		return out;
	free(out);
	return NULL;
}

static int affinity_line(struct hvd_lsf_host *facts, const struct hvd_alloc *a, const char *line, size_t len,
			 size_t *room, struct hvd_err *err)
{
	struct words w = {line, line + len};
	size_t name_len, list_len;
	const char *word = next(&w, &name_len), *list = next(&w, &list_len);
	hvd_cleanup_free char *name = NULL, *text = NULL;
	int host;

	if (!word)
		return 0;
	text = list ? cpu_list(list, list_len) : NULL;
	if (!text)
		return hvd_err_set(err, HVD_E_PROTO, "%.*s is not followed by a list of CPUs",
				   name_len < 80 ? (int)name_len : 80, word);
	if (strlen(text) >= *room)
		return hvd_err_set(err, HVD_E_LIMIT, "it lists too many CPUs");
	*room -= strlen(text);
	name = hvd_xstrndup(word, name_len);
	host = strlen(name) == name_len ? hvd_alloc_find(a, name) : -1;
	if (host >= 0)
		hvd_strv_add(&facts[host].cpus, text);
	return 0;
}

int hvd_lsf_parse_affinity(struct hvd_lsf_host *facts, const struct hvd_alloc *a, const char *text, size_t len,
			   struct hvd_err *err)
{
	size_t room = MAX_CPUS_TEXT;
	int line = 1, rc = 0;

	for (; len > 0 && rc == 0; line++) {
		const char *eol = memchr(text, '\n', len);
		size_t n = eol ? (size_t)(eol - text) : len;

		rc = affinity_line(facts, a, text, n, &room, err);
		n += eol ? 1 : 0;
		text += n;
		len -= n;
	}
	if (rc != 0) {
		for (int i = 0; i < a->n_hosts; i++)
			hvd_strv_free(&facts[i].cpus);
		return hvd_err_prefix(err, "line %d", line - 1);
	}
	return 0;
}

double hvd_lsf_time_left(const char *text)
{
	char hours[8], minutes[4], after;
	int n = sscanf(text, " %5[0-9]:%2[0-9]%c", hours, minutes, &after);

	if (n < 2 || atoi(minutes) > 59 || (n == 3 && after != ' ' && after != '\n'))
		return -1;
	return atoi(hours) * 3600.0 + atoi(minutes) * 60.0;
}
