/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_uses.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <inttypes.h>
#include <string.h>

enum owner {
	RANK,
	HOST,
	ALL,
	OWNERS
};

/* For each field of struct hvd_rank_usage a family of ranks, one of hosts, and one of all ranks' least, median and largest
 * figures. Values are divided by `per`. */
#define USES(ROW)                                                                                                      \
	ROW(cpu, "cpu_ratio", "ratio", 1000, "Processors in use.", "Processors in use by the ranks of the host.")      \
	ROW(delay, "cpu_delay_ratio", "ratio", 1000, "Processors that threads were ready for, and had to wait for.",   \
	    "Processors that threads of the host's ranks were ready for, and had to wait for.")                        \
	ROW(memory, "memory_bytes", "bytes", 1, "Resident memory.", "Resident memory of the ranks of the host.")       \
	ROW(read, "read_bytes_per_second", "bytes_per_second", 1, "Reads by system calls.",                            \
	    "Reads by system calls of the ranks of the host.")                                                         \
	ROW(written, "written_bytes_per_second", "bytes_per_second", 1, "Writes by system calls.",                     \
	    "Writes by system calls of the ranks of the host.")                                                        \
	ROW(output, "output_age_seconds", "seconds", 1, "Time since the last output, or the start.",                   \
	    "Time since the last output of any rank of the host.")                                                     \
	ROW(awaited, "awaited_ratio", "ratio", 1000, "Share of the last minute in which peers waited for the rank.",   \
	    "The largest share of the last minute in which peers waited for a rank of the host.")                      \
	ROW(gpu, "gpu_ratio", "ratio", 1000, "GPUs in use.", "GPUs in use by the ranks of the host.")                  \
	ROW(gpu_memory, "gpu_memory_bytes", "bytes", 1, "GPU memory in use.",                                          \
	    "GPU memory in use by the ranks of the host.")

struct use {
	struct hvd_metrics_family families[OWNERS];
	int64_t per;
	size_t offset; /* of the field */
};

#define USE(field, name, unit, per, of_rank, of_host)                                                                  \
	{{{"hvd_rank_" name, HVD_METRICS_GAUGE, unit, of_rank},                                                        \
	  {"hvd_host_" name, HVD_METRICS_GAUGE, unit, of_host},                                                        \
	  {"hvd_ranks_" name, HVD_METRICS_GAUGE, unit, "The same over all ranks of the launch: " of_rank}},            \
	 per,                                                                                                          \
	 offsetof(struct hvd_rank_usage, field)},
static const struct use uses_of[] = {USES(USE)};
#undef USE

static int64_t figure(const struct hvd_rank_usage *uses, const struct use *use)
{
	return *(const int64_t *)(const void *)((const char *)uses + use->offset);
}

/* There may be thousands of them. */
static void put(struct hvd_metrics_out *out, const struct use *use, enum owner owner, const char *labels, int64_t value)
{
	char text[48];

	if (value == HVD_USAGE_UNKNOWN)
		return;
	if (value % use->per == 0)
		snprintf(text, sizeof(text), "%" PRId64, value / use->per);
	else
		snprintf(text, sizeof(text), "%" PRId64 ".%03d", value / use->per, (int)(value % use->per));
	hvd_metrics_sample_text(out, &use->families[owner], labels, text);
}

static void rank_label(const struct hvd_metrics_rank *rank, char text[HVD_METRICS_LABEL])
{
	hvd_metrics_label("host", rank->host, text);
	snprintf(text + strlen(text), HVD_METRICS_LABEL - strlen(text), ",rank=\"%u\"", (unsigned)rank->uses.rank);
	if (rank->role)
		snprintf(text + strlen(text), HVD_METRICS_LABEL - strlen(text), ",role=\"%.64s\"", rank->role);
}

/* The value with index `k` in the order of the values, which are moved (Hoare's FIND). */
static int64_t select_value(int64_t *values, size_t n, size_t k)
{
	size_t first = 0, last = n - 1;

	while (first < last) {
		const int64_t pivot = values[k];
		size_t i = first, j = last;

		while (i <= j) {
			int64_t left, right;

			while ((left = values[i]) < pivot)
				i++;
			while ((right = values[j]) > pivot)
				j--;
			if (i > j)
				break;
			values[i++] = right;
			values[j] = left;
			if (j == 0)
				break;
			j--;
		}
		if (j < k)
			first = i;
		if (k < i)
			last = j;
	}
	return values[k];
}

/* `values` has room for all ranks. */
static void put_spread(struct hvd_metrics_out *out, const struct hvd_figures *figures, const struct use *use,
		       int64_t *values)
{
	static const struct {
		const char *name;
		size_t percent;
	} at[] = {{"min", 0}, {"median", 50}, {"p95", 95}, {"max", 100}};
	char text[HVD_METRICS_LABEL];
	size_t n = 0;

	for (size_t i = 0; i < figures->n_uses; i++)
		if ((values[n] = figure(&figures->uses[i].uses, use)) != HVD_USAGE_UNKNOWN)
			n++;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]) && n > 0; i++)
		put(out, use, ALL, hvd_metrics_label("at", at[i].name, text),
		    select_value(values, n, (n - 1) * at[i].percent / 100));
}

static void put_slow(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family of_all = {"hvd_launch_ranks_slow", HVD_METRICS_GAUGE, NULL,
							 "Ranks that hold up the others."},
					       of_rank = {"hvd_rank_slow", HVD_METRICS_GAUGE, NULL,
							  "1 for a rank that holds up the others."};
	const bool each = figures->n_uses <= HVD_METRICS_RANKS;
	char text[HVD_METRICS_LABEL];
	int64_t n = 0;

	for (size_t i = 0; i < figures->n_uses; i++)
		n += figures->uses[i].slow;
	hvd_metrics_sample(out, &of_all, NULL, (double)n);
	n = 0;
	for (size_t i = 0; i < figures->n_uses; i++) {
		if (!each && !(figures->uses[i].slow && n++ < HVD_METRICS_SLOW))
			continue;
		rank_label(&figures->uses[i], text);
		hvd_metrics_sample(out, &of_rank, text, figures->uses[i].slow);
	}
}

static void put_host_ranks(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {"hvd_host_ranks", HVD_METRICS_GAUGE, NULL,
							 "Ranks of the host of which it is known what they use."};
	char text[HVD_METRICS_LABEL];

	for (size_t i = 0; i < figures->n_hosts && figures->n_hosts <= HVD_METRICS_HOSTS; i++)
		hvd_metrics_sample(out, &family, hvd_metrics_label("host", figures->hosts[i].name, text),
				   figures->hosts[i].ranks);
}

/* The series of ranks, or of hosts, whose labels are made once. */
static void put_each(struct hvd_metrics_out *out, const struct hvd_figures *figures, const struct use *use,
		     enum owner owner, char **labels)
{
	for (size_t i = 0; labels[i]; i++)
		put(out, use, owner, labels[i],
		    figure(owner == RANK ? &figures->uses[i].uses : &figures->hosts[i].uses, use));
}

static void make_labels(const struct hvd_figures *figures, struct hvd_strv *ranks, struct hvd_strv *hosts)
{
	char text[HVD_METRICS_LABEL];

	for (size_t i = 0; i < figures->n_uses && figures->n_uses <= HVD_METRICS_RANKS; i++) {
		rank_label(&figures->uses[i], text);
		hvd_strv_add(ranks, text);
	}
	for (size_t i = 0; i < figures->n_hosts && figures->n_hosts <= HVD_METRICS_HOSTS; i++)
		hvd_strv_add(hosts, hvd_metrics_label("host", figures->hosts[i].name, text));
}

void hvd_metrics_put_uses(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	hvd_cleanup_free int64_t *values = hvd_xcalloc(figures->n_uses + 1, sizeof(*values));
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv ranks = {0}, hosts = {0};

	put_slow(out, figures);
	put_host_ranks(out, figures);
	make_labels(figures, &ranks, &hosts);
	for (size_t u = 0; u < sizeof(uses_of) / sizeof(uses_of[0]); u++) {
		if (ranks.n)
			put_each(out, figures, &uses_of[u], RANK, ranks.v);
		if (hosts.n)
			put_each(out, figures, &uses_of[u], HOST, hosts.v);
		put_spread(out, figures, &uses_of[u], values);
	}
}
