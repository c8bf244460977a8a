/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight.h"

#include "lib/base/cleanup.h"
#include "lib/base/median.h"
#include "lib/base/xalloc.h"
#include "lib/host/spare_choice.h"

#include <stdio.h>
#include <stdlib.h>

/* A host is slow with less than this part of the median of all, or with so many times its latency; differences of
 * latency below LEAST_RTT_US are none. */
#define SLOW_PART    0.5
#define SLOW_RTT     5.0
#define LEAST_RTT_US 1000.0
/* Seconds that a host's clock may differ from the driver's. */
#define MOST_SKEW 1.0

static double magnitude(double v)
{
	return v < 0 ? -v : v;
}

/* By how many seconds, at least, the host's clock is ahead of the driver's; negative: behind it; 0 = not known. */
static double skew_of(const struct hvd_host_entry *host)
{
	return (double)hvd_clock_skew(&host->clock) / 1e9;
}

json_t *hvd_preflight_order(const struct hvd_launch_spec *spec, int most_ms)
{
	int ms = (int)(HVD_PREFLIGHT_SECONDS * 1000);
	json_t *order = json_pack("{s:i}", "ms", ms > most_ms ? most_ms : ms);

	if (spec->preflight_hook)
		json_object_set_new(order, "hook", json_string(spec->preflight_hook));
	return order;
}

/* ---- medians ---- */

enum figure {
	GPUS,
	MEMLOCK,
	NOFILE,
	RATE,
	RTT,
};

/* Below 0: not known. */
static double figure_of(const struct hvd_host_entry *host, enum figure figure)
{
	const struct hvd_host_check *check = &host->check;

	switch (figure) {
	case GPUS:
		return !check->known ? -1 : check->gpus < 0 ? 0 : check->gpus;
	case MEMLOCK:
		return check->known ? (double)check->memlock : -1;
	case NOFILE:
		return check->known ? (double)check->nofile : -1;
	case RATE:
		return host->mbps > 0 ? host->mbps : -1;
	case RTT:
		return host->rtt_us > 0 ? (double)host->rtt_us : -1;
	}
	return -1;
}

/* The median of what the hosts have; below 0 does not count. -1 = none has any. */
static double median(const struct hvd_host_table *table, enum figure figure)
{
	hvd_cleanup_free double *v = hvd_xcalloc(table->n, sizeof(*v));
	uint32_t n = 0;

	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].stage >= HVD_STAGE_REPORTED && figure_of(&table->hosts[h], figure) >= 0)
			v[n++] = figure_of(&table->hosts[h], figure);
	return n ? hvd_median(v, n) : -1;
}

double hvd_preflight_median(const struct hvd_host_table *table)
{
	double m = median(table, RATE);

	return m > 0 ? m : 0;
}

/* ---- figures as text ---- */

static const char *bytes_text(int64_t bytes, char text[32])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	size_t u = 0;

	if (bytes == INT64_MAX)
		return "unlimited";
	if (bytes < 0)
		return "unknown";
	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(text, 32, v < 10 && u ? "%.1f %s" : "%.0f %s", v, units[u]);
	return text;
}

char *hvd_preflight_figures(const struct hvd_host_entry *host)
{
	const struct hvd_host_check *check = &host->check;
	char a[32], b[32], c[32];
	char *text = hvd_xasprintf("clock off by %.3f s at least", magnitude(skew_of(host)));

	if (check->known)
		hvd_xappendf(&text, ", /tmp %s free, /dev/shm %s free, locked memory %s, open files %lld",
			     bytes_text(check->tmp, a), bytes_text(check->shm, b), bytes_text(check->memlock, c),
			     (long long)check->nofile);
	if (check->gpus >= 0)
		hvd_xappendf(&text, ", %d GPUs", check->gpus);
	if (host->mbps > 0)
		hvd_xappendf(&text, ", %s and %u us to its neighbours", hvd_rate_text(host->mbps, a),
			     (unsigned)host->rtt_us);
	return text;
}

/* ---- one host ---- */

/* By itself. */
static char *lacks(const struct hvd_host_entry *host, const char **hint)
{
	const struct hvd_host_check *check = &host->check;
	double skew = skew_of(host);
	char text[32], least[32];

	if (magnitude(skew) > MOST_SKEW) {
		*hint = "is its clock synchronized? (chronyc tracking, timedatectl)";
		return hvd_xasprintf("its clock is %.1f s %s the launcher's", magnitude(skew),
				     skew > 0 ? "ahead of" : "behind");
	}
	if (check->shm >= 0 && check->shm < HVD_PREFLIGHT_SHM) {
		*hint = "remove files from /dev/shm, or make it larger";
		return hvd_xasprintf("%s are free in /dev/shm, and %s are needed", bytes_text(check->shm, text),
				     bytes_text(HVD_PREFLIGHT_SHM, least));
	}
	if (check->tmp >= 0 && check->tmp < HVD_PREFLIGHT_TMP) {
		*hint = "remove files from /tmp";
		return hvd_xasprintf("%s are free in /tmp, and %s are needed", bytes_text(check->tmp, text),
				     bytes_text(HVD_PREFLIGHT_TMP, least));
	}
	if (check->failed) {
		*hint = "do its file systems answer? (df there, dmesg)";
		return hvd_xstrdup(check->failed);
	}
	*hint = "nvidia-smi there lists the processes that use the GPUs";
	if (check->held)
		return hvd_xstrdup(check->held);
	*hint = "run it there by hand; HVD_PREFLIGHT_HOOK names the program";
	return check->hook ? hvd_xasprintf("the site's program reports: %s", check->hook) : NULL;
}

/* Compared with the others. */
static char *behind(const struct hvd_host_table *table, const struct hvd_host_entry *host, const char **hint)
{
	const struct hvd_host_check *check = &host->check;
	double gpus = median(table, GPUS), rate = median(table, RATE);
	double rtt = median(table, RTT);
	char a[32], b[32];

	*hint = "nvidia-smi -q there shows more";
	if (check->known && figure_of(host, GPUS) < gpus)
		return hvd_xasprintf("it has %d GPUs, the others have %.0f", (int)figure_of(host, GPUS), gpus);
	if (check->gpu)
		return hvd_xstrdup(check->gpu);
	*hint = "is it set up like the others? (limits.conf, PropagateResourceLimits, LimitMEMLOCK= of its daemons)";
	if (check->memlock >= 0 && (double)check->memlock < median(table, MEMLOCK) / 2)
		return hvd_xasprintf("%s of memory may be locked there, but more on the others",
				     bytes_text(check->memlock, a));
	if (check->nofile >= 0 && (double)check->nofile < median(table, NOFILE) / 2)
		return hvd_xasprintf("a process may open %lld files there, but %.0f on the others",
				     (long long)check->nofile, median(table, NOFILE));
	*hint = "check its network interface, cable and switch port (ethtool, ibstat)";
	if (host->mbps > 0 && host->mbps < rate * SLOW_PART)
		return hvd_xasprintf("%s to its neighbours, median %s", hvd_rate_text(host->mbps, a),
				     hvd_rate_text(rate, b));
	if (host->rtt_us > 0 && host->rtt_us > rtt * SLOW_RTT && host->rtt_us > rtt + LEAST_RTT_US)
		return hvd_xasprintf("packets take %u us to its neighbours and back, median %.0f us",
				     (unsigned)host->rtt_us, rtt);
	return NULL;
}

char *hvd_preflight_bad(const struct hvd_host_table *table, uint32_t host, const char **hint)
{
	const char *ignored = NULL, **shown = hint ? hint : &ignored;
	char *why = lacks(&table->hosts[host], shown);

	return why ? why : behind(table, &table->hosts[host], shown);
}

char *hvd_preflight_worse(const struct hvd_host_entry *host, const struct hvd_host_check *first, const char **hint)
{
	char *why = lacks(host, hint);

	if (why)
		return why;
	*hint = "nvidia-smi -q there shows more";
	if (first->known && host->check.gpus < first->gpus)
		return hvd_xasprintf("it has %d GPUs, and had %d before", (int)figure_of(host, GPUS), first->gpus);
	return host->check.gpu ? hvd_xstrdup(host->check.gpu) : NULL;
}
