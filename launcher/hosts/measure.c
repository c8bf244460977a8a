/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - how fast the network between neighbouring hosts is, for --preflight=full.
 *
 * The hosts are a ring. In each step disjoint pairs of neighbours measure at the same time, first one direction and
 * then the other, so that no two pairs share a link. The figure of a pair is that of its slower direction. The figure
 * of a host is that of its best pair: a slow host is slow with both neighbours, but its neighbour is fast with its
 * other one. A host that seems slow is measured once more with a host that does not, because both of its neighbours may
 * be the slow ones.
 *
 * Messages: agent/probe.h, "measure" and "measured".
 */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "preflight.h"

#include <stdlib.h>

#define STREAM_MS 300
/* From the order until the answer must be there. */
#define STEP_MS 3000
/* What nothing came from has this rate, in Mbit/s, so that it is the slowest and not unknown. */
#define NOTHING 0.001
/* A host below this part of the median is measured once more. */
#define SUSPECT 0.5

/* Two hosts, by their places in the ring. */
struct pair {
	uint32_t a, b;
	double mbps; /* of the slower way so far; 0 = not measured */
	uint32_t rtt_us;
	int step;     /* in which it is measured, one way; in the next one, the other way */
	int answered; /* how many of these steps have their answer */
};

struct hvd_measure {
	struct hvd_agent_registry *agents;
	void (*done)(struct hvd_agent_registry *agents);
	struct hvd_timer *timer;
	uint32_t *host; /* by place */
	uint32_t n;
	struct pair *pairs;
	uint32_t n_pairs, awaited;
	int step, steps; /* two for each set of pairs: one for each way */
	bool again;      /* the last pairs are those of hosts that seemed slow */
};

static void on_timer(void *arg);

static struct pair *add_pair(struct hvd_measure *m, uint32_t a, uint32_t b, int step)
{
	m->pairs[m->n_pairs] = (struct pair){.a = a, .b = b, .step = step};
	return &m->pairs[m->n_pairs++];
}

/* Neighbours of the ring, in disjoint sets. */
static void pair_neighbours(struct hvd_measure *m)
{
	for (uint32_t i = 0; i + 1 < m->n; i++)
		add_pair(m, i, i + 1, (int)(i % 2) * 2);
	m->steps = m->n > 2 ? 4 : 2;
	if (m->n > 2)
		add_pair(m, m->n - 1, 0, m->n % 2 ? 4 : 2);
	if (m->n > 2 && m->n % 2)
		m->steps = 6;
}

struct hvd_measure *hvd_measure_begin(struct hvd_agent_registry *agents,
				      void (*done)(struct hvd_agent_registry *agents))
{
	struct hvd_measure *m = hvd_xcalloc(1, sizeof(*m));

	m->agents = agents;
	m->done = done;
	m->host = hvd_host_table_list(&agents->table, HVD_STAGE_REPORTED, &m->n);
	m->pairs = hvd_xcalloc((size_t)m->n * 2 + 1, sizeof(*m->pairs));
	m->timer = hvd_timer_new(agents->base, on_timer, m);
	m->step = -1;
	pair_neighbours(m);
	hvd_timer_soon(m->timer);
	return m;
}

void hvd_measure_destroy(struct hvd_measure *m)
{
	if (!m)
		return;
	hvd_timer_free(m->timer);
	free(m->host);
	free(m->pairs);
	free(m);
}

/* Have the host at place `from` measure how fast bytes come from place `to`. */
static void order(struct hvd_measure *m, uint32_t from, uint32_t to)
{
	const struct hvd_host_table *table = &m->agents->table;
	const struct hvd_host_entry *asks = &table->hosts[m->host[from]], *serves = &table->hosts[m->host[to]];
	struct hvd_addr addr;
	char text[HVD_ADDR_TEXT];

	if (asks->stage < HVD_STAGE_REPORTED || serves->stage < HVD_STAGE_REPORTED || !asks->client)
		return;
	addr = hvd_network_plan_addr(&m->agents->plan, table, m->host[to]);
	hvd_conn_send(asks->client->conn,
		      json_pack("{s:s, s:I, s:s, s:i, s:i}", "t", "measure", "n", (json_int_t)m->host[to], "a",
				hvd_addr_text(&addr, text), "p", (int)serves->node.port, "ms", STREAM_MS));
	m->awaited++;
}

/* The best pair of each host. */
static void set_figures(struct hvd_measure *m)
{
	struct hvd_host_table *table = &m->agents->table;

	for (uint32_t i = 0; i < m->n; i++) {
		struct hvd_host_entry *host = &table->hosts[m->host[i]];

		if (host->stage < HVD_STAGE_REPORTED)
			continue;
		host->mbps = NOTHING;
		host->rtt_us = 0;
		for (uint32_t p = 0; p < m->n_pairs; p++) {
			const struct pair *pair = &m->pairs[p];

			if (pair->a != i && pair->b != i)
				continue;
			if (pair->mbps > host->mbps)
				host->mbps = pair->mbps;
			if (pair->rtt_us && (!host->rtt_us || pair->rtt_us < host->rtt_us))
				host->rtt_us = pair->rtt_us;
		}
	}
}

static bool slow(const struct hvd_measure *m, uint32_t place, double median)
{
	return m->agents->table.hosts[m->host[place]].mbps < median * SUSPECT;
}

/* Pair each host that seems slow with one that does not. False: there is none to be paired. */
static bool pair_suspects(struct hvd_measure *m)
{
	double median = hvd_preflight_median(&m->agents->table);
	uint32_t good = 0, before = m->n_pairs;

	for (uint32_t i = 0; i < m->n; i++) {
		if (m->agents->table.hosts[m->host[i]].stage < HVD_STAGE_REPORTED || !slow(m, i, median))
			continue;
		while (good < m->n &&
		       (slow(m, good, median) || m->agents->table.hosts[m->host[good]].stage < HVD_STAGE_REPORTED))
			good++;
		if (good == m->n)
			break;
		add_pair(m, i, good++, m->steps);
	}
	m->steps += m->n_pairs > before ? 2 : 0;
	return m->n_pairs > before;
}

static void next_step(struct hvd_measure *m)
{
	do {
		if (++m->step == m->steps) {
			set_figures(m);
			if (m->again || !pair_suspects(m)) {
				hvd_timer_stop(m->timer);
				m->done(m->agents);
				return;
			}
			m->again = true;
		}
		m->awaited = 0;
		for (uint32_t p = 0; p < m->n_pairs; p++) {
			const struct pair *pair = &m->pairs[p];

			if (pair->step == m->step)
				order(m, pair->a, pair->b);
			else if (pair->step + 1 == m->step)
				order(m, pair->b, pair->a);
		}
	} while (m->awaited == 0);
	hvd_timer_in_ms(m->timer, STEP_MS);
}

static void note(struct hvd_measure *m, uint32_t asks, uint32_t serves, double mbps, uint32_t rtt_us)
{
	for (uint32_t p = 0; p < m->n_pairs; p++) {
		struct pair *pair = &m->pairs[p];
		bool there = pair->step == m->step && m->host[pair->a] == asks && m->host[pair->b] == serves;
		bool back = pair->step + 1 == m->step && m->host[pair->b] == asks && m->host[pair->a] == serves;

		if (!there && !back)
			continue;
		pair->mbps = pair->mbps <= 0 || mbps < pair->mbps ? mbps : pair->mbps;
		if (rtt_us && (!pair->rtt_us || rtt_us < pair->rtt_us))
			pair->rtt_us = rtt_us;
		pair->answered = m->step - pair->step + 1;
		return;
	}
}

void hvd_measure_message(struct hvd_measure *m, uint32_t host, const json_t *msg)
{
	int64_t from, kbps, rtt;

	if (!m || hvd_get_int(msg, "n", 0, UINT32_MAX, &from, NULL) != 0 ||
	    hvd_get_int(msg, "kbps", 0, INT64_C(1) << 40, &kbps, NULL) != 0 ||
	    hvd_get_int(msg, "rtt", 0, UINT32_MAX, &rtt, NULL) != 0 || m->awaited == 0)
		return;
	note(m, host, (uint32_t)from, kbps > 0 ? (double)kbps / 1000 : NOTHING, (uint32_t)rtt);
	if (--m->awaited == 0)
		hvd_timer_soon(m->timer);
}

char *hvd_measure_missing(const struct hvd_measure *m)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv hosts = {0};
	hvd_cleanup_free char *list = NULL;
	char buf[32];

	for (uint32_t p = 0; p < m->n_pairs; p++) {
		const struct pair *pair = &m->pairs[p];
		int way = m->step - pair->step;

		if (way < 0 || way > 1 || pair->answered > way)
			continue;
		hvd_strv_add(&hosts, hvd_host_table_name(&m->agents->table, m->host[pair->a], buf));
		hvd_strv_add(&hosts, hvd_host_table_name(&m->agents->table, m->host[pair->b], buf));
	}
	if (hosts.n)
		list = hvd_hostlist_compress(hosts.v, hosts.n);
	return hvd_xasprintf("%s%s", list ? "no measurement of the network between " : "", list ? list : "");
}

/* All answers are there, or time is over for the others: these pairs have nothing to tell. */
static void on_timer(void *arg)
{
	next_step(arg);
}
