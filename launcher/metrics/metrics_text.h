/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_text.h - the figures of a launch as text for Prometheus. Knows nothing of where they come from.
 *
 * Two forms have the same samples. OpenMetrics 1.0 is what Prometheus asks for; the older text format (0.0.4) is what the
 * node exporter's textfile collector and promtool read. They differ in the names of types, and in that OpenMetrics names a
 * counter without "_total" and the info metric without "_info" in its head.
 *
 * The number of series is bounded. Up to HVD_METRICS_RANKS ranks each have their own, and up to HVD_METRICS_HOSTS hosts.
 * In a larger job the least, the median, the 95th percentile and the largest of each figure remain, which are always there,
 * and the first HVD_METRICS_SLOW slow ranks by name. No text of a user, such as an error or a command, becomes a label.
 */
#ifndef HVD_METRICS_TEXT_H
#define HVD_METRICS_TEXT_H

#include "launcher/events/goodput.h"
#include "lib/host/rank_usage.h"
#include "lib/host/stage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_METRICS_RANKS 1024
#define HVD_METRICS_HOSTS 1024
#define HVD_METRICS_SLOW  64

enum hvd_metrics_form {
	HVD_METRICS_TEXT,
	HVD_METRICS_OPENMETRICS
};

enum hvd_metrics_state {
	HVD_METRICS_STARTING, /* hosts are awaited, or the ranks of the first or the next generation */
	HVD_METRICS_RUNNING,
	HVD_METRICS_ENDING, /* ranks have failed, or are being ended */
	HVD_METRICS_ENDED,
	HVD_METRICS_STATES
};

/* How ranks have ended. */
/* clang-format off */
#define HVD_METRICS_ENDS_ROWS(ROW) \
	ROW(OK, "ok") ROW(EXIT, "exit") ROW(SIGNAL, "signal") ROW(OOM, "oom") ROW(HOST_OOM, "host-oom") \
	ROW(NOT_STARTED, "not-started") ROW(WITH_ALL, "with-all")
/* clang-format on */
enum hvd_metrics_end {
#define HVD_METRICS_END_ID(id, name) HVD_METRICS_END_##id,
	HVD_METRICS_ENDS_ROWS(HVD_METRICS_END_ID)
#undef HVD_METRICS_END_ID
	HVD_METRICS_ENDS
};

struct hvd_metrics_rank {
	const char *role; /* NULL: the launch has none */
	const char *host;
	bool slow;
	struct hvd_rank_usage uses; /* with the rank's number */
};

struct hvd_metrics_host {
	const char *name;
	uint32_t ranks;             /* of which `uses` are known */
	struct hvd_rank_usage uses; /* of all of them: sums, but the least `output` and the largest `awaited` */
};

/* Nothing is owned. */
struct hvd_figures {
	const char *launch, *version, *backend; /* `backend`: NULL = not known */
	int64_t job;                            /* of the scheduler; 0 = none */
	enum hvd_metrics_state state;
	double began, ended; /* seconds since 1970; `ended` 0 = has not */
	int64_t status;      /* with which it has ended */
	double start;        /* seconds until the first ranks started; below 0 = they have not */
	int64_t generation, ranks;
	int64_t generations, failures, restarts, hosts_lost, found_slow, hangs, requeues;
	int64_t ends[HVD_METRICS_ENDS];
	uint32_t in_stage[HVD_N_STAGES]; /* how many hosts are in each stage */
	struct hvd_phases phases;
	double goodput;
	const struct hvd_metrics_rank *uses; /* the ranks of which it is known what they use */
	size_t n_uses;
	const struct hvd_metrics_host *hosts; /* the hosts of those */
	size_t n_hosts;
};

/* The text, with a zero byte behind it that *len does not count. The caller frees it. */
char *hvd_metrics_text(const struct hvd_figures *figures, enum hvd_metrics_form form, size_t *len);

/* The media type of a form. */
const char *hvd_metrics_type(enum hvd_metrics_form form);

#endif
