/* SPDX-License-Identifier: Apache-2.0 */
#include "erf.h"

#include <stdio.h>
#include <stdlib.h>

bool hvd_erf_bound(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts)
{
	for (int h = 0; h < ranks->n_hosts; h++)
		if (!hosts[h].cpus || hosts[h].cpus->n < (size_t)ranks->hosts[h].slots)
			return false;
	return ranks->n_hosts > 0;
}

/* Divide `whole` into n parts, of which the first ones are larger by one when it does not divide evenly: where does
 * part i begin, and how large is it? */
static void part(int whole, int n, int i, int *first, int *count)
{
	int less = whole / n, more = whole % n;

	*count = less + (i < more);
	*first = less * i + (i < more ? i : more);
}

/* Which hardware threads of its host does local rank `local` get, of `ranks`? */
static void share(const struct hvd_erf_host *host, int ranks, int local, int *first, int *count)
{
	int sockets =
		host->sockets > 1 && host->cores % host->sockets == 0 && ranks % host->sockets == 0 ? host->sockets : 1;
	int cores = host->cores / sockets, each = ranks / sockets, socket = local / each;

	if (ranks > host->cores) {
		part(host->cores * host->threads, ranks, local, first, count);
		return;
	}
	part(cores, each, local % each, first, count);
	*first = (*first + socket * cores) * host->threads;
	*count *= host->threads;
}

/* Write the CPUs that LSF has bound the rank's tasks to. */
static void print_bound(FILE *out, const struct hvd_strv *cpus, int ranks, int local)
{
	int first, count;

	part((int)cpus->n, ranks, local, &first, &count);
	for (int i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? "," : "", cpus->v[first + i]);
}

static void print_rank(FILE *out, const struct hvd_alloc_host *host, const struct hvd_erf_host *has, bool bound,
		       int rank, int local)
{
	int first, count;

	fprintf(out, "rank: %d: { hostname: %s; cpu: {", rank, host->name);
	if (bound) {
		print_bound(out, has->cpus, host->slots, local);
	} else {
		share(has, host->slots, local, &first, &count);
		fprintf(out, count > 1 ? "%d-%d" : "%d", first, first + count - 1);
	}
	fprintf(out, "} ;%s mem: * }\n", has->gpus == 0 ? "" : " gpu: * ;");
}

static int check(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts, struct hvd_err *err)
{
	for (int h = 0; h < ranks->n_hosts; h++) {
		const struct hvd_erf_host *has = &hosts[h];

		if (has->cores > 0 && has->threads > 0 && has->cores <= HVD_ERF_MAX_CPUS / has->threads &&
		    ranks->hosts[h].slots <= has->cores * has->threads)
			continue;
		if (has->cores < 1 || has->threads < 1 || has->cores > HVD_ERF_MAX_CPUS / has->threads)
			hvd_err_set(err, HVD_E_USAGE, "its number of cores is not known");
		else
			hvd_err_set(err, HVD_E_USAGE,
				    "it has %d cores with %d hardware threads each, too few for %d ranks", has->cores,
				    has->threads, ranks->hosts[h].slots);
		hvd_err_hint(err, "--slots-per-host and --hosts set the ranks of a host; --binding-args tells jsrun "
				  "where ranks go");
		return hvd_err_host(err, ranks->hosts[h].name);
	}
	return 0;
}

char *hvd_erf_format(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts, struct hvd_err *err)
{
	bool bound = hvd_erf_bound(ranks, hosts), unsure = false;
	char *text = NULL;
	size_t len;
	FILE *out;
	int rank = 0;

	if (!bound && check(ranks, hosts, err) != 0)
		return NULL;
	out = open_memstream(&text, &len);
	if (!out) {
		hvd_err_sys(err, "cannot write the resource file");
		return NULL;
	}
	for (int h = 0; h < ranks->n_hosts; h++)
		unsure |= hosts[h].gpus < 0;
	fprintf(out, "overlapping_rs: allow\ncpu_index_using: %s\n", bound ? "physical" : "logical");
	if (unsure)
		fprintf(out, "skip_missing_gpu: allow\n");
	for (int h = 0; h < ranks->n_hosts; h++)
		for (int i = 0; i < ranks->hosts[h].slots; i++)
			print_rank(out, &ranks->hosts[h], &hosts[h], bound, rank++, i);
	if (fclose(out) != 0) {
		free(text);
		hvd_err_set(err, HVD_E_SYS, "out of memory");
		return NULL;
	}
	return text;
}
