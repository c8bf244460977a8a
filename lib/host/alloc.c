/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc.h"

#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 255

void hvd_alloc_clear(struct hvd_alloc *a)
{
	if (!a)
		return;
	for (int i = 0; i < a->n_hosts; i++)
		free(a->hosts[i].name);
	free(a->hosts);
	memset(a, 0, sizeof(*a));
}

static const char name_chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

/* Is this an address like "::1" or "fe80::1%eth0"? */
static int is_ipv6(const char *name)
{
	const char *zone = strchr(name, '%');
	size_t len = zone ? (size_t)(zone - name) : strlen(name);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	if (len >= sizeof(text))
		return 0;
	memcpy(text, name, len);
	text[len] = '\0';
	if (inet_pton(AF_INET6, text, &addr) != 1)
		return 0;
	if (!zone)
		return 1;
	len = strlen(++zone);
	return len > 0 && len < IF_NAMESIZE && zone[strspn(zone, name_chars)] == '\0';
}

/* Names get onto the command lines of ssh and other programs, so none may look like an option. */
static int is_name(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > MAX_NAME)
		return 0;
	if (strchr(name, ':'))
		return is_ipv6(name);
	return name[0] != '-' && name[0] != '.' && name[strspn(name, name_chars)] == '\0';
}

int hvd_alloc_add(struct hvd_alloc *a, const char *name, int slots, struct hvd_err *err)
{
	if (!is_name(name))
		return hvd_err_set(err, HVD_E_USAGE, "'%.80s' is neither a host name nor an address", name);
	if (slots < 0 || slots > HVD_MAX_RANKS - a->slots)
		return hvd_err_set(err, HVD_E_LIMIT, "%d slots on %s: more than %d slots in all are not possible",
				   slots, name, HVD_MAX_RANKS);
	if (a->n_hosts >= HVD_MAX_HOSTS)
		return hvd_err_set(err, HVD_E_LIMIT, "more than %d hosts are not possible", HVD_MAX_HOSTS);
	if ((a->n_hosts & (a->n_hosts - 1)) == 0) /* at 0, 1, 2, 4, 8 … hosts: double the room */
		a->hosts = hvd_xrealloc(a->hosts, a->n_hosts ? (size_t)a->n_hosts * 2 : 1, sizeof(*a->hosts));
	a->hosts[a->n_hosts].name = hvd_xstrdup(name);
	a->hosts[a->n_hosts].slots = slots;
	a->hosts[a->n_hosts].slurm_job = 0;
	a->hosts[a->n_hosts].component = 0;
	a->n_hosts++;
	a->slots += slots;
	return 0;
}

int hvd_alloc_append(struct hvd_alloc *a, const struct hvd_alloc_host *host, struct hvd_err *err)
{
	if (hvd_alloc_add(a, host->name, host->slots, err) != 0)
		return -1;
	a->hosts[a->n_hosts - 1].slurm_job = host->slurm_job;
	a->hosts[a->n_hosts - 1].component = host->component;
	return 0;
}

void hvd_alloc_copy(const struct hvd_alloc *from, struct hvd_alloc *to)
{
	for (int i = 0; i < from->n_hosts; i++)
		hvd_alloc_append(to, &from->hosts[i], NULL);
	memcpy(to->source, from->source, sizeof(to->source));
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct hvd_alloc_host *const *)a)->name, (*(struct hvd_alloc_host *const *)b)->name);
}

/* Sort pointers into one array by name; of equal names that with the lower address comes first. */
static int by_name_and_place(const void *a, const void *b)
{
	const struct hvd_alloc_host *x = *(struct hvd_alloc_host *const *)a, *y = *(struct hvd_alloc_host *const *)b;
	int c = by_name(a, b);

	return c ? c : x < y ? -1 : x > y;
}

/* The caller frees the list. */
static struct hvd_alloc_host **sorted_by_name(const struct hvd_alloc *a)
{
	struct hvd_alloc_host **sorted = hvd_xcalloc((size_t)a->n_hosts, sizeof(struct hvd_alloc_host *));

	for (int i = 0; i < a->n_hosts; i++)
		sorted[i] = &a->hosts[i];
	qsort(sorted, (size_t)a->n_hosts, sizeof(struct hvd_alloc_host *), by_name_and_place);
	return sorted;
}

void hvd_alloc_merge(struct hvd_alloc *a)
{
	struct hvd_alloc_host **sorted, *first = NULL;
	int kept = 0;

	if (a->n_hosts < 2)
		return;
	sorted = sorted_by_name(a);
	first = sorted[0];
	for (int i = 1; i < a->n_hosts; i++) {
		if (strcmp(sorted[i]->name, first->name) != 0) {
			first = sorted[i];
			continue;
		}
		first->slots += sorted[i]->slots;
		sorted[i]->slots = -1;
	}
	free(sorted);
	for (int i = 0; i < a->n_hosts; i++) {
		if (a->hosts[i].slots < 0)
			free(a->hosts[i].name);
		else
			a->hosts[kept++] = a->hosts[i];
	}
	/* hvd_alloc_add() takes the room for the power of two that is not less than the count: make it so. */
	if (kept < a->n_hosts) {
		size_t room = 1;

		while (room < (size_t)kept)
			room *= 2;
		a->hosts = hvd_xrealloc(a->hosts, room, sizeof(*a->hosts));
	}
	a->n_hosts = kept;
}

int hvd_alloc_from_local(struct hvd_alloc *out, int slots, struct hvd_err *err)
{
	memset(out, 0, sizeof(*out));
	if (slots < 1)
		return hvd_err_set(err, HVD_E_USAGE, "%d is not a valid number of slots", slots);
	if (hvd_alloc_add(out, "localhost", slots, err) < 0)
		return -1;
	snprintf(out->source, sizeof(out->source), "this machine");
	return 0;
}

bool hvd_alloc_same(const struct hvd_alloc *a, const struct hvd_alloc *b)
{
	if (a->n_hosts != b->n_hosts)
		return false;
	for (int i = 0; i < a->n_hosts; i++)
		if (a->hosts[i].slots != b->hosts[i].slots || a->hosts[i].slurm_job != b->hosts[i].slurm_job ||
		    strcmp(a->hosts[i].name, b->hosts[i].name) != 0)
			return false;
	return true;
}

int hvd_alloc_find(const struct hvd_alloc *a, const char *name)
{
	for (int i = 0; i < a->n_hosts; i++)
		if (strcmp(a->hosts[i].name, name) == 0)
			return i;
	return -1;
}

int *hvd_alloc_find_all(const struct hvd_alloc *a, const struct hvd_alloc *names)
{
	struct hvd_alloc_host **sorted = sorted_by_name(a);
	int *at = hvd_xcalloc((size_t)names->n_hosts, sizeof(*at));

	for (int i = 0; i < names->n_hosts; i++) {
		const struct hvd_alloc_host *host = &names->hosts[i];
		struct hvd_alloc_host **found =
			bsearch(&host, sorted, (size_t)a->n_hosts, sizeof(struct hvd_alloc_host *), by_name);

		at[i] = found ? (int)(*found - a->hosts) : -1;
	}
	free(sorted);
	return at;
}

char *hvd_alloc_table(const struct hvd_alloc *a, int max_hosts)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int shown = max_hosts > 0 && max_hosts < a->n_hosts ? max_hosts : a->n_hosts;
	int width = 4, rest = 0;

	if (!f)
		return hvd_xstrdup("");
	for (int i = 0; i < shown; i++) {
		size_t w = strlen(a->hosts[i].name);

		if (w > (size_t)width && w < 48)
			width = (int)w;
	}
	fprintf(f, "  %-*s  slots", width, "host");
	for (int i = 0; i < shown; i++)
		fprintf(f, "\n  %-*s  %5d", width, a->hosts[i].name, a->hosts[i].slots);
	for (int i = shown; i < a->n_hosts; i++)
		rest += a->hosts[i].slots;
	if (shown < a->n_hosts)
		fprintf(f, "\n  and %d more hosts with %d slots", a->n_hosts - shown, rest);
	if (fclose(f) != 0 || !text) {
		free(text);
		return hvd_xstrdup("");
	}
	return text;
}

int hvd_alloc_take(const struct hvd_alloc *a, int np, struct hvd_alloc *out, struct hvd_err *err)
{
	int left = np;

	memset(out, 0, sizeof(*out));
	if (np < 0)
		return hvd_err_set(err, HVD_E_USAGE, "%d is not a valid number of processes", np);
	if (np > a->slots || a->slots == 0) {
		hvd_cleanup_free char *table = hvd_alloc_table(a, 10);

		hvd_err_set(err, HVD_E_USAGE, "%d processes were asked for, but there %s %d slot%s%s%s%s:\n%.600s", np,
			    a->slots == 1 ? "is" : "are", a->slots, a->slots == 1 ? "" : "s", a->source[0] ? " (" : "",
			    a->source, a->source[0] ? ")" : "", table);
		return hvd_err_hint(err, "ask for fewer processes, or for more hosts or slots");
	}
	if (np == 0)
		left = a->slots;
	for (int i = 0; i < a->n_hosts && left > 0; i++) {
		int n = a->hosts[i].slots < left ? a->hosts[i].slots : left;

		if (n == 0)
			continue;
		if (hvd_alloc_add(out, a->hosts[i].name, n, err) < 0) {
			hvd_alloc_clear(out);
			return -1;
		}
		left -= n;
	}
	memcpy(out->source, a->source, sizeof(out->source));
	return 0;
}
