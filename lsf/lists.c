/* SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"

#include "slurm.h" /* HVD_MAX_RANKS */
#include "xalloc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than a machine has, with room for sparse numbering. */
#define MAX_CPU 65535

struct words {
	const char *p, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next word; NULL at the end. It is not terminated: *len says how long it is. */
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

/* All of it as a number up to max, else -1. */
static int number(const char *text, size_t len, int max)
{
	int n = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
		if (n > max)
			return -1;
	}
	return len ? n : -1;
}

/* Names come in runs: as long as the last host is named, it gets the slot. hvd_alloc_merge() does the rest. */
static int add(struct hvd_alloc *out, const char *word, size_t len, int slots, struct hvd_err *err)
{
	struct hvd_alloc_host *last = out->n_hosts ? &out->hosts[out->n_hosts - 1] : NULL;
	char *name;
	int rc;

	if (memchr(word, '\0', len))
		return hvd_err_set(err, HVD_E_PROTO, "a host name contains a zero byte");
	if (last && slots <= HVD_MAX_RANKS - out->slots && strlen(last->name) == len &&
	    memcmp(last->name, word, len) == 0) {
		last->slots += slots;
		out->slots += slots;
		return 0;
	}
	name = hvd_xstrndup(word, len);
	rc = hvd_alloc_add(out, name, slots, err);
	free(name);
	return rc;
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
		slots = count ? number(count, count_len, HVD_MAX_RANKS) : -1;
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
