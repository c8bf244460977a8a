/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_text.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a label's value before it is escaped. */
#define VALUE_SIZE 256
#define RANK_SIZE  32
#define LABEL_SIZE (2 * VALUE_SIZE + 64 + RANK_SIZE)

enum type {
	GAUGE,
	COUNTER,
	INFO
};

struct family {
	const char *name; /* without the suffix of a counter's or the info's samples */
	enum type type;
	const char *unit; /* NULL = none; else the name ends in it */
	const char *help;
};

struct out {
	FILE *file;
	enum hvd_metrics_form form;
	char launch[LABEL_SIZE];     /* the label that all samples have */
	const struct family *family; /* whose head was written last */
};

/* ---- families and samples ---- */

/* A label's value: a backslash, a quote or a newline in it is escaped; what is not UTF-8 was before. */
static const char *label(const char *name, const char *value, char text[LABEL_SIZE])
{
	char clean[VALUE_SIZE];
	size_t at = (size_t)snprintf(text, LABEL_SIZE, "%.32s=\"", name);

	hvd_printable(value ? value : "", clean, sizeof(clean));
	for (const char *s = clean; *s; s++) {
		if (*s == '\\' || *s == '"' || *s == '\n')
			text[at++] = '\\';
		text[at++] = *s == '\n' ? 'n' : *s;
	}
	text[at++] = '"';
	text[at] = '\0';
	return text;
}

static const char *suffix(enum type type)
{
	static const char *const suffixes[] = {[GAUGE] = "", [COUNTER] = "_total", [INFO] = "_info"};

	return suffixes[type];
}

static void head(struct out *out, const struct family *family)
{
	const bool open = out->form == HVD_METRICS_OPENMETRICS;
	const char *end = open ? "" : suffix(family->type);
	const char *type = family->type == COUNTER ? "counter" : family->type == INFO && open ? "info" : "gauge";

	out->family = family;
	fprintf(out->file, "# TYPE %s%s %s\n", family->name, end, type);
	if (open && family->unit)
		fprintf(out->file, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out->file, "# HELP %s%s %s\n", family->name, end, family->help);
}

/* `labels` follow that of the launch; NULL = none. The samples of a family follow each other. */
static void sample_text(struct out *out, const struct family *family, const char *labels, const char *value)
{
	const char *const parts[] = {family->name,
				     suffix(family->type),
				     "{",
				     out->launch,
				     labels ? "," : "",
				     labels ? labels : "",
				     "} ",
				     value,
				     "\n"};

	if (out->family != family)
		head(out, family);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fputs_unlocked(parts[i], out->file);
}

static void sample(struct out *out, const struct family *family, const char *labels, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", value);
	sample_text(out, family, labels, text);
}

/* ---- the launch ---- */

static void put_info(struct out *out, const struct hvd_figures *figures)
{
	static const struct family info = {"hvd_launch", INFO, NULL, "The launch."};
	char version[LABEL_SIZE], backend[LABEL_SIZE], job[32] = "";
	hvd_cleanup_free char *labels = NULL;

	if (figures->job)
		snprintf(job, sizeof(job), "%" PRId64, figures->job);
	labels = hvd_xasprintf("%s,%s,job=\"%s\"", label("version", figures->version, version),
			       label("backend", figures->backend, backend), job);
	sample(out, &info, labels, 1);
}

static void put_state(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_launch_state", GAUGE, NULL, "1 for the state that the launch is in."};
	static const char *const states[] = {"starting", "running", "ending", "ended"};
	char text[LABEL_SIZE];

	for (int i = 0; i < HVD_METRICS_STATES; i++)
		sample(out, &family, label("state", states[i], text), figures->state == (enum hvd_metrics_state)i);
}

static void put_hosts_in_stages(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_launch_hosts", GAUGE, NULL,
					     "Hosts of the launch by how far their agents are; here: part of the job."};
	static const char *const stages[HVD_N_STAGES] = {
		[HVD_STAGE_COMING] = "coming",   [HVD_STAGE_REGISTERED] = "registered",
		[HVD_STAGE_PROBING] = "probing", [HVD_STAGE_REPORTED] = "reported",
		[HVD_STAGE_HERE] = "here",       [HVD_STAGE_LEAVING] = "leaving"};
	char text[LABEL_SIZE];

	for (int i = 0; i < HVD_N_STAGES; i++)
		if (stages[i])
			sample(out, &family, label("stage", stages[i], text), figures->in_stage[i]);
}

static void put_phases(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_launch_phase_seconds", GAUGE, "seconds",
					     "Where the time of the launch has gone so far."};
	const struct {
		const char *name;
		double seconds;
	} phases[] = {
		{"start", figures->phases.start},       {"init", figures->phases.init},
		{"training", figures->phases.training}, {"ending", figures->phases.ending},
		{"waiting", figures->phases.waiting},
	};
	char text[LABEL_SIZE];

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		sample(out, &family, label("phase", phases[i].name, text), phases[i].seconds);
}

static void put_ends(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_rank_ends", COUNTER, NULL,
					     "Ranks that have ended, by how; with-all: ended with all others."};
#define END_NAME(id, name) name,
	static const char *const names[] = {HVD_METRICS_ENDS_ROWS(END_NAME)};
#undef END_NAME
	char text[LABEL_SIZE];

	for (int i = 0; i < HVD_METRICS_ENDS; i++)
		sample(out, &family, label("how", names[i], text), (double)figures->ends[i]);
}

static void put_times(struct out *out, const struct hvd_figures *figures)
{
	static const struct family began = {"hvd_launch_start_time_seconds", GAUGE, "seconds",
					    "When the launch began, since 1970."},
				   ended = {"hvd_launch_end_time_seconds", GAUGE, "seconds",
					    "When the launch ended, since 1970."},
				   status = {"hvd_launch_exit_status", GAUGE, NULL,
					     "The exit status of the launch, which has ended."},
				   start = {"hvd_launch_start_duration_seconds", GAUGE, "seconds",
					    "How long it took until the first ranks started."};

	sample(out, &began, NULL, figures->began);
	if (figures->start >= 0)
		sample(out, &start, NULL, figures->start);
	if (figures->ended > 0) {
		sample(out, &ended, NULL, figures->ended);
		sample(out, &status, NULL, (double)figures->status);
	}
}

static void put_counts(struct out *out, const struct hvd_figures *figures)
{
	static const struct family families[] = {
		{"hvd_generation", GAUGE, NULL, "The number of the current generation; 0 before the first one."},
		{"hvd_launch_ranks", GAUGE, NULL, "Ranks of the current generation."},
		{"hvd_launch_ranks_sampled", GAUGE, NULL, "Ranks of which it is known what they use."},
		{"hvd_generations", COUNTER, NULL, "Generations of ranks that have begun."},
		{"hvd_failures", COUNTER, NULL, "Generations that a rank has failed in."},
		{"hvd_restarts", COUNTER, NULL, "Restarts of all ranks."},
		{"hvd_hosts_lost", COUNTER, NULL, "Hosts that were lost, or were bad."},
		{"hvd_ranks_found_slow", COUNTER, NULL, "Times that a rank was found to hold up the others."},
		{"hvd_hangs", COUNTER, NULL, "Times that no rank made progress for --hang-timeout."},
		{"hvd_requeues", COUNTER, NULL, "Times that the batch job was requeued."},
	};
	const int64_t values[] = {
		figures->generation, figures->ranks,    (int64_t)figures->n_uses, figures->generations,
		figures->failures,   figures->restarts, figures->hosts_lost,      figures->found_slow,
		figures->hangs,      figures->requeues,
	};
	_Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(families) / sizeof(families[0]), "one for each");

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		sample(out, &families[i], NULL, (double)values[i]);
}

static void put_goodput(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_goodput_ratio", GAUGE, "ratio",
					     "The share of training in the time of the launch so far."};

	sample(out, &family, NULL, figures->goodput);
}

/* ---- what ranks use ---- */

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
	struct family families[OWNERS];
	int64_t per;
	size_t offset; /* of the field */
};

#define USE(field, name, unit, per, of_rank, of_host)                                                                  \
	{{{"hvd_rank_" name, GAUGE, unit, of_rank},                                                                    \
	  {"hvd_host_" name, GAUGE, unit, of_host},                                                                    \
	  {"hvd_ranks_" name, GAUGE, unit, "The same over all ranks of the launch: " of_rank}},                        \
	 per,                                                                                                          \
	 offsetof(struct hvd_rank_usage, field)},
static const struct use uses_of[] = {USES(USE)};
#undef USE

static int64_t figure(const struct hvd_rank_usage *uses, const struct use *use)
{
	return *(const int64_t *)(const void *)((const char *)uses + use->offset);
}

/* There may be thousands of them. */
static void put(struct out *out, const struct use *use, enum owner owner, const char *labels, int64_t value)
{
	char text[48];

	if (value == HVD_USAGE_UNKNOWN)
		return;
	if (value % use->per == 0)
		snprintf(text, sizeof(text), "%" PRId64, value / use->per);
	else
		snprintf(text, sizeof(text), "%" PRId64 ".%03d", value / use->per, (int)(value % use->per));
	sample_text(out, &use->families[owner], labels, text);
}

static void rank_label(const struct hvd_metrics_rank *rank, char text[LABEL_SIZE])
{
	label("host", rank->host, text);
	snprintf(text + strlen(text), RANK_SIZE, ",rank=\"%u\"", (unsigned)rank->uses.rank);
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
static void put_spread(struct out *out, const struct hvd_figures *figures, const struct use *use, int64_t *values)
{
	static const struct {
		const char *name;
		size_t percent;
	} at[] = {{"min", 0}, {"median", 50}, {"p95", 95}, {"max", 100}};
	char text[LABEL_SIZE];
	size_t n = 0;

	for (size_t i = 0; i < figures->n_uses; i++)
		if ((values[n] = figure(&figures->uses[i].uses, use)) != HVD_USAGE_UNKNOWN)
			n++;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]) && n > 0; i++)
		put(out, use, ALL, label("at", at[i].name, text),
		    select_value(values, n, (n - 1) * at[i].percent / 100));
}

static void put_slow(struct out *out, const struct hvd_figures *figures)
{
	static const struct family of_all = {"hvd_launch_ranks_slow", GAUGE, NULL, "Ranks that hold up the others."},
				   of_rank = {"hvd_rank_slow", GAUGE, NULL, "1 for a rank that holds up the others."};
	const bool each = figures->n_uses <= HVD_METRICS_RANKS;
	char text[LABEL_SIZE];
	int64_t n = 0;

	for (size_t i = 0; i < figures->n_uses; i++)
		n += figures->uses[i].slow;
	sample(out, &of_all, NULL, (double)n);
	n = 0;
	for (size_t i = 0; i < figures->n_uses; i++) {
		if (!each && !(figures->uses[i].slow && n++ < HVD_METRICS_SLOW))
			continue;
		rank_label(&figures->uses[i], text);
		sample(out, &of_rank, text, figures->uses[i].slow);
	}
}

static void put_host_ranks(struct out *out, const struct hvd_figures *figures)
{
	static const struct family family = {"hvd_host_ranks", GAUGE, NULL,
					     "Ranks of the host of which it is known what they use."};
	char text[LABEL_SIZE];

	for (size_t i = 0; i < figures->n_hosts && figures->n_hosts <= HVD_METRICS_HOSTS; i++)
		sample(out, &family, label("host", figures->hosts[i].name, text), figures->hosts[i].ranks);
}

/* The series of ranks, or of hosts, whose labels are made once. */
static void put_each(struct out *out, const struct hvd_figures *figures, const struct use *use, enum owner owner,
		     char **labels)
{
	for (size_t i = 0; labels[i]; i++)
		put(out, use, owner, labels[i],
		    figure(owner == RANK ? &figures->uses[i].uses : &figures->hosts[i].uses, use));
}

static void make_labels(const struct hvd_figures *figures, struct hvd_strv *ranks, struct hvd_strv *hosts)
{
	char text[LABEL_SIZE];

	for (size_t i = 0; i < figures->n_uses && figures->n_uses <= HVD_METRICS_RANKS; i++) {
		rank_label(&figures->uses[i], text);
		hvd_strv_add(ranks, text);
	}
	for (size_t i = 0; i < figures->n_hosts && figures->n_hosts <= HVD_METRICS_HOSTS; i++)
		hvd_strv_add(hosts, label("host", figures->hosts[i].name, text));
}

static void put_uses(struct out *out, const struct hvd_figures *figures)
{
	hvd_cleanup_free int64_t *values = hvd_xcalloc(figures->n_uses + 1, sizeof(*values));
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv ranks = {0}, hosts = {0};

	make_labels(figures, &ranks, &hosts);
	for (size_t u = 0; u < sizeof(uses_of) / sizeof(uses_of[0]); u++) {
		if (ranks.n)
			put_each(out, figures, &uses_of[u], RANK, ranks.v);
		if (hosts.n)
			put_each(out, figures, &uses_of[u], HOST, hosts.v);
		put_spread(out, figures, &uses_of[u], values);
	}
}

/* ---- all of it ---- */

char *hvd_metrics_text(const struct hvd_figures *figures, enum hvd_metrics_form form, size_t *len)
{
	struct out out = {.form = form};
	char *text = NULL;

	out.file = open_memstream(&text, len);
	if (!out.file)
		abort(); /* as without memory (xalloc.h) */
	label("launch", figures->launch, out.launch);
	put_info(&out, figures);
	put_state(&out, figures);
	put_times(&out, figures);
	put_counts(&out, figures);
	put_goodput(&out, figures);
	put_phases(&out, figures);
	put_ends(&out, figures);
	put_hosts_in_stages(&out, figures);
	put_slow(&out, figures);
	put_host_ranks(&out, figures);
	put_uses(&out, figures);
	if (form == HVD_METRICS_OPENMETRICS)
		fputs("# EOF\n", out.file);
	if (fclose(out.file) != 0)
		abort();
	return text;
}

const char *hvd_metrics_type(enum hvd_metrics_form form)
{
	return form == HVD_METRICS_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
					       : "text/plain; version=0.0.4; charset=utf-8";
}
