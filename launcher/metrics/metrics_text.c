/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_text.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "metrics_samples.h"
#include "metrics_uses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void put_info(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family info = {"hvd_launch", HVD_METRICS_INFO, NULL, "The launch."};
	char version[HVD_METRICS_LABEL], backend[HVD_METRICS_LABEL], job[32] = "";
	hvd_cleanup_free char *labels = NULL;

	if (figures->job)
		snprintf(job, sizeof(job), "%" PRId64, figures->job);
	labels = hvd_xasprintf("%s,%s,job=\"%s\"", hvd_metrics_label("version", figures->version, version),
			       hvd_metrics_label("backend", figures->backend, backend), job);
	hvd_metrics_sample(out, &info, labels, 1);
}

static void put_state(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {"hvd_launch_state", HVD_METRICS_GAUGE, NULL,
							 "1 for the state that the launch is in."};
	static const char *const states[] = {"starting", "running", "ending", "ended"};
	char text[HVD_METRICS_LABEL];

	for (int i = 0; i < HVD_METRICS_STATES; i++)
		hvd_metrics_sample(out, &family, hvd_metrics_label("state", states[i], text),
				   figures->state == (enum hvd_metrics_state)i);
}

static void put_hosts_in_stages(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {
		"hvd_launch_hosts", HVD_METRICS_GAUGE, NULL,
		"Hosts of the launch by how far their agents are; here: part of the job."};
	static const char *const stages[HVD_N_STAGES] = {
		[HVD_STAGE_COMING] = "coming",   [HVD_STAGE_REGISTERED] = "registered",
		[HVD_STAGE_PROBING] = "probing", [HVD_STAGE_REPORTED] = "reported",
		[HVD_STAGE_HERE] = "here",       [HVD_STAGE_LEAVING] = "leaving"};
	char text[HVD_METRICS_LABEL];

	for (int i = 0; i < HVD_N_STAGES; i++)
		if (stages[i])
			hvd_metrics_sample(out, &family, hvd_metrics_label("stage", stages[i], text),
					   figures->in_stage[i]);
}

static void put_phases(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {"hvd_launch_phase_seconds", HVD_METRICS_GAUGE, "seconds",
							 "Where the time of the launch has gone so far."};
	const struct {
		const char *name;
		double seconds;
	} phases[] = {
		{"start", figures->phases.start},       {"init", figures->phases.init},
		{"training", figures->phases.training}, {"ending", figures->phases.ending},
		{"waiting", figures->phases.waiting},
	};
	char text[HVD_METRICS_LABEL];

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		hvd_metrics_sample(out, &family, hvd_metrics_label("phase", phases[i].name, text), phases[i].seconds);
}

static void put_ends(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {
		"hvd_rank_ends", HVD_METRICS_COUNTER, NULL,
		"Ranks that have ended, by how; with-all: ended with all others."};
#define END_NAME(id, name) name,
	static const char *const names[] = {HVD_METRICS_ENDS_ROWS(END_NAME)};
#undef END_NAME
	char text[HVD_METRICS_LABEL];

	for (int i = 0; i < HVD_METRICS_ENDS; i++)
		hvd_metrics_sample(out, &family, hvd_metrics_label("how", names[i], text), (double)figures->ends[i]);
}

static void put_times(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family began = {"hvd_launch_start_time_seconds", HVD_METRICS_GAUGE, "seconds",
							"When the launch began, since 1970."},
					       ended = {"hvd_launch_end_time_seconds", HVD_METRICS_GAUGE, "seconds",
							"When the launch ended, since 1970."},
					       status = {"hvd_launch_exit_status", HVD_METRICS_GAUGE, NULL,
							 "The exit status of the launch, which has ended."},
					       start = {"hvd_launch_start_duration_seconds", HVD_METRICS_GAUGE,
							"seconds", "How long it took until the first ranks started."};

	hvd_metrics_sample(out, &began, NULL, figures->began);
	if (figures->start >= 0)
		hvd_metrics_sample(out, &start, NULL, figures->start);
	if (figures->ended > 0) {
		hvd_metrics_sample(out, &ended, NULL, figures->ended);
		hvd_metrics_sample(out, &status, NULL, (double)figures->status);
	}
}

static void put_counts(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family families[] = {
		{"hvd_generation", HVD_METRICS_GAUGE, NULL,
		 "The number of the current generation; 0 before the first one."},
		{"hvd_launch_ranks", HVD_METRICS_GAUGE, NULL, "Ranks of the current generation."},
		{"hvd_launch_ranks_sampled", HVD_METRICS_GAUGE, NULL, "Ranks of which it is known what they use."},
		{"hvd_generations", HVD_METRICS_COUNTER, NULL, "Generations of ranks that have begun."},
		{"hvd_failures", HVD_METRICS_COUNTER, NULL, "Generations that a rank has failed in."},
		{"hvd_restarts", HVD_METRICS_COUNTER, NULL, "Restarts of all ranks."},
		{"hvd_hosts_lost", HVD_METRICS_COUNTER, NULL, "Hosts that were lost, or were bad."},
		{"hvd_ranks_found_slow", HVD_METRICS_COUNTER, NULL,
		 "Times that a rank was found to hold up the others."},
		{"hvd_hangs", HVD_METRICS_COUNTER, NULL, "Times that no rank made progress for --hang-timeout."},
		{"hvd_requeues", HVD_METRICS_COUNTER, NULL, "Times that the batch job was requeued."},
	};
	const int64_t values[] = {
		figures->generation, figures->ranks,    (int64_t)figures->n_uses, figures->generations,
		figures->failures,   figures->restarts, figures->hosts_lost,      figures->found_slow,
		figures->hangs,      figures->requeues,
	};
	_Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(families) / sizeof(families[0]), "one for each");

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		hvd_metrics_sample(out, &families[i], NULL, (double)values[i]);
}

static void put_goodput(struct hvd_metrics_out *out, const struct hvd_figures *figures)
{
	static const struct hvd_metrics_family family = {"hvd_goodput_ratio", HVD_METRICS_GAUGE, "ratio",
							 "The share of training in the time of the launch so far."};

	hvd_metrics_sample(out, &family, NULL, figures->goodput);
}

char *hvd_metrics_text(const struct hvd_figures *figures, enum hvd_metrics_form form, size_t *len)
{
	struct hvd_metrics_out out = {.form = form};
	char *text = NULL;

	out.file = open_memstream(&text, len);
	if (!out.file)
		abort(); /* as without memory (xalloc.h) */
	hvd_metrics_label("launch", figures->launch, out.launch);
	put_info(&out, figures);
	put_state(&out, figures);
	put_times(&out, figures);
	put_counts(&out, figures);
	put_goodput(&out, figures);
	put_phases(&out, figures);
	put_ends(&out, figures);
	put_hosts_in_stages(&out, figures);
	hvd_metrics_put_uses(&out, figures);
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
