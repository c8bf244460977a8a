/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include "launcher/events/goodput.h"
#include "launcher/options/metrics_target.h"
#include "launcher/world/usage.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "metrics_file.h"
#include "metrics_http.h"
#include "metrics_text.h"
#include "metrics_token.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The file is written as often as ranks are sampled, but not more often than each second; and so often if they are not. */
#define FILE_SECONDS 15

struct hvd_metrics {
	struct hvd_metrics_target target;
	char *token;
	double sample;
	const struct hvd_log *log;
	/* What events have said; the texts are owned. */
	struct hvd_figures figures;
	char *launch, *version, *backend;
	struct hvd_goodput goodput;
	hvd_time ended;
	/* While it is open. */
	struct hvd_agent_registry *agents;
	struct hvd_world *const *worlds;
	unsigned n_worlds;
	struct hvd_metrics_http *http;
	struct hvd_timer *timer;
	struct hvd_metrics_file *file; /* until the end */
};

/* Seconds since 1970, to a millisecond. */
static double wall_at(hvd_time at)
{
	return (double)(hvd_wall_at(at) / 1000000) / 1e3;
}

/* ---- events ---- */

static void launch_began(struct hvd_metrics *metrics, const struct hvd_event *event)
{
	free(metrics->version);
	free(metrics->backend);
	metrics->version = hvd_xstrdup(event->version ? event->version : "");
	metrics->backend = hvd_xstrdup(event->backend ? event->backend : "");
	metrics->figures.job = event->job;
}

static void generation_began(struct hvd_figures *figures, const struct hvd_event *event, hvd_time began)
{
	if (figures->start < 0)
		figures->start = hvd_goodput_seconds(began, event->at);
	figures->generation = event->generation;
	figures->ranks = event->ranks;
	figures->generations++;
	figures->state = HVD_METRICS_RUNNING;
}

static enum hvd_metrics_end end_of(const struct hvd_event *event)
{
#define END_NAME(id, name) name,
	static const char *const names[] = {HVD_METRICS_ENDS_ROWS(END_NAME)};
#undef END_NAME

	for (int i = HVD_METRICS_END_OOM; event->cause && i < HVD_METRICS_ENDS; i++)
		if (strcmp(event->cause, names[i]) == 0)
			return (enum hvd_metrics_end)i;
	if (event->status == 0)
		return HVD_METRICS_END_OK;
	return event->status > 128 ? HVD_METRICS_END_SIGNAL : HVD_METRICS_END_EXIT;
}

static void count(struct hvd_figures *figures, const struct hvd_event *event)
{
	switch (event->name) {
	case HVD_EV_RANK_ENDED:
		figures->ends[end_of(event)]++;
		break;
	case HVD_EV_GENERATION_FAILED:
		figures->failures++;
		break;
	case HVD_EV_RESTART:
		figures->restarts++;
		break;
	case HVD_EV_HOST_LOST:
		figures->hosts_lost++;
		break;
	case HVD_EV_RANK_SLOW:
		figures->found_slow++;
		break;
	case HVD_EV_HANG:
		figures->hangs++;
		break;
	case HVD_EV_REQUEUE:
		figures->requeues++;
		break;
	default:
		break;
	}
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_metrics *metrics = arg;
	struct hvd_figures *figures = &metrics->figures;

	count(figures, event);
	/* Its state and generation are those of the first world. */
	if (event->world > 0)
		return;
	hvd_goodput_event(&metrics->goodput, event);
	switch (event->name) {
	case HVD_EV_LAUNCH_BEGAN:
		launch_began(metrics, event);
		break;
	case HVD_EV_GENERATION_BEGAN:
		generation_began(figures, event, metrics->goodput.began);
		break;
	case HVD_EV_GENERATION_FAILED:
	case HVD_EV_GENERATION_ENDING:
	case HVD_EV_LAUNCH_ENDING:
		figures->state = HVD_METRICS_ENDING;
		break;
	case HVD_EV_GENERATION_ENDED:
		figures->state = HVD_METRICS_STARTING;
		break;
	case HVD_EV_LAUNCH_ENDED:
		figures->state = HVD_METRICS_ENDED;
		figures->status = event->status;
		figures->ended = wall_at(event->at);
		metrics->ended = event->at;
		break;
	default:
		break;
	}
}

/* ---- the figures ---- */

/* The hosts of the known ranks, by number. */
static struct hvd_metrics_host *hosts_of(const struct hvd_metrics *metrics, size_t *n)
{
	struct hvd_metrics_host *hosts;
	uint32_t n_hosts = 0;

	for (unsigned w = 0; w < metrics->n_worlds; w++)
		if (hvd_usage_hosts(hvd_world_usage(metrics->worlds[w])) > n_hosts)
			n_hosts = hvd_usage_hosts(hvd_world_usage(metrics->worlds[w]));
	hosts = hvd_xcalloc((size_t)n_hosts + 1, sizeof(*hosts));
	*n = 0;
	for (uint32_t h = 0; h < n_hosts; h++) {
		struct hvd_usage_host sum = {0};

		for (unsigned w = 0; w < metrics->n_worlds; w++)
			hvd_usage_host_add(hvd_world_usage(metrics->worlds[w]), h, &sum);
		if (sum.ranks)
			hosts[(*n)++] = (struct hvd_metrics_host){sum.name, sum.ranks, sum.uses};
	}
	return hosts;
}

static struct hvd_metrics_rank *ranks_of(const struct hvd_metrics *metrics, hvd_time now, size_t *n)
{
	struct hvd_metrics_rank *ranks;
	size_t most = 0;

	for (unsigned w = 0; w < metrics->n_worlds; w++)
		most += hvd_usage_size(hvd_world_usage(metrics->worlds[w]));
	ranks = hvd_xcalloc(most + 1, sizeof(*ranks));
	*n = 0;
	for (unsigned w = 0; w < metrics->n_worlds; w++) {
		const struct hvd_usage *usage = hvd_world_usage(metrics->worlds[w]);

		for (const struct hvd_usage_rank *r = NULL; (r = hvd_usage_next(usage, r)); (*n)++) {
			ranks[*n] = (struct hvd_metrics_rank){
				.role = hvd_world_role(metrics->worlds[w]),
				.host = r->host_name,
				.slow = hvd_world_straggler(metrics->worlds[w], r->uses.rank) != NULL,
				.uses = r->uses};
			ranks[*n].uses.output = hvd_usage_output(r, now);
		}
	}
	return ranks;
}

static char *make_text(enum hvd_metrics_form form, size_t *len, void *arg)
{
	const struct hvd_metrics *metrics = arg;
	const hvd_time now = metrics->ended ? metrics->ended : hvd_now();
	hvd_cleanup_free struct hvd_metrics_rank *ranks = NULL;
	hvd_cleanup_free struct hvd_metrics_host *hosts = NULL;
	struct hvd_figures figures = metrics->figures;

	figures.launch = metrics->launch;
	figures.version = metrics->version;
	figures.backend = metrics->backend;
	figures.phases = hvd_goodput_phases(&metrics->goodput, now);
	figures.goodput = hvd_goodput_share(&metrics->goodput, now);
	if (metrics->agents)
		memcpy(figures.in_stage, hvd_agent_registry_table(metrics->agents)->in_stage, sizeof(figures.in_stage));
	figures.uses = ranks = ranks_of(metrics, now, &figures.n_uses);
	figures.hosts = hosts = hosts_of(metrics, &figures.n_hosts);
	return hvd_metrics_text(&figures, form, len);
}

/* ---- where they go ---- */

static void write_file(void *arg)
{
	struct hvd_metrics *metrics = arg;
	size_t len;
	char *text = make_text(HVD_METRICS_TEXT, &len, metrics);

	hvd_metrics_file_put(metrics->file, text, len);
}

static void open_file(struct hvd_metrics *metrics, struct event_base *base)
{
	const double seconds = metrics->sample <= 0 ? FILE_SECONDS : metrics->sample < 1 ? 1 : metrics->sample;

	hvd_metrics_file_attach(metrics->file, base);
	metrics->timer = hvd_timer_new(base, write_file, metrics);
	hvd_timer_every_ms(metrics->timer, (int64_t)(seconds * 1000));
	write_file(metrics);
}

static void serve(struct hvd_metrics *metrics, struct event_base *base)
{
	const struct hvd_metrics_http_opts opts = {.base = base,
						   .addr = &metrics->target.addr,
						   .token = metrics->token,
						   .page = make_text,
						   .arg = metrics,
						   .log = metrics->log};
	char text[HVD_ADDR_TEXT];
	struct hvd_err err = {0};
	struct hvd_addr addr;
	in_port_t wanted, port;

	metrics->http = hvd_metrics_http_create(&opts, &err);
	if (!metrics->http) {
		hvd_warn(metrics->log, "no metrics are served (--metrics): %s", err.msg);
		return;
	}
	hvd_addr_from_sockaddr((const struct sockaddr *)&metrics->target.addr, &addr, &wanted);
	port = hvd_metrics_http_port(metrics->http);
	hvd_log(metrics->log, wanted ? HVD_LOG_VERBOSE : HVD_LOG_INFO,
		addr.family == AF_INET6 ? "metrics: http://[%s]:%u/metrics" : "metrics: http://%s:%u/metrics",
		hvd_addr_text(&addr, text), (unsigned)port);
}

/* ---- life ---- */

void hvd_metrics_open(struct hvd_metrics *metrics, struct event_base *base, struct hvd_agent_registry *agents,
		      struct hvd_world *const *worlds, unsigned n_worlds)
{
	if (!metrics)
		return;
	metrics->agents = agents;
	metrics->worlds = worlds;
	metrics->n_worlds = n_worlds;
	if (metrics->file)
		open_file(metrics, base);
	else if (!metrics->target.file)
		serve(metrics, base);
}

void hvd_metrics_close(struct hvd_metrics *metrics)
{
	if (!metrics)
		return;
	hvd_metrics_http_destroy(metrics->http);
	hvd_timer_free(metrics->timer);
	if (metrics->file)
		hvd_metrics_file_detach(metrics->file);
	metrics->http = NULL;
	metrics->timer = NULL;
	metrics->agents = NULL;
	metrics->worlds = NULL;
	metrics->n_worlds = 0;
}

void hvd_metrics_destroy(struct hvd_metrics *metrics)
{
	size_t len;
	char *text;

	if (!metrics)
		return;
	hvd_metrics_close(metrics);
	if (metrics->file) {
		text = make_text(HVD_METRICS_TEXT, &len, metrics);
		hvd_metrics_file_close(metrics->file, text, len);
	}
	if (metrics->token)
		explicit_bzero(metrics->token, strlen(metrics->token));
	free(metrics->token);
	free(metrics->launch);
	free(metrics->version);
	free(metrics->backend);
	free(metrics);
}

/* -1 with err set. */
static int prepare(struct hvd_metrics *metrics, const struct hvd_launch_spec *spec, struct hvd_err *err)
{
	struct hvd_err why = {0};

	if (hvd_metrics_target_parse(spec->metrics, &metrics->target, err) != 0)
		return -1;
	if (!metrics->target.file && spec->metrics_token_file) {
		metrics->token = hvd_metrics_token_read(spec->metrics_token_file, err);
		return metrics->token ? 0 : -1;
	}
	if (metrics->target.file) {
		metrics->file = hvd_metrics_file_open(metrics->target.file, metrics->log, &why);
		if (!metrics->file)
			hvd_warn(metrics->log, "no metrics are written (--metrics): %s", why.msg);
	}
	return 0;
}

struct hvd_metrics *hvd_metrics_create(const struct hvd_launch_spec *spec, struct hvd_event_log *events,
				       const struct hvd_log *log, struct hvd_err *err)
{
	const hvd_time now = hvd_now();
	struct hvd_metrics *metrics;

	if (!spec->metrics)
		return NULL;
	metrics = hvd_xcalloc(1, sizeof(*metrics));
	*metrics = (struct hvd_metrics){.sample = spec->sample,
					.log = log,
					.figures = {.began = wall_at(now), .start = -1},
					.launch = hvd_xstrdup(hvd_event_log_launch(events)),
					.version = hvd_xstrdup(HVD_VERSION),
					.goodput = {.began = now}};
	if (prepare(metrics, spec, err) == 0) {
		hvd_event_log_listen(events, on_event, metrics);
		return metrics;
	}
	hvd_metrics_destroy(metrics);
	return NULL;
}
