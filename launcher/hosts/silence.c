/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c - notices soon that a host has gone: by silence and witnesses.
 *
 * The kernels of a host and of this one exchange something every second (hvd_conn_watch_host()). If nothing came from a
 * host for HVD_SILENT_MS, two other hosts are asked to try it. A host that one of them reaches is only busy, or the
 * network between it and this host is disturbed: it keeps its time (HVD_CONN_WATCH_SECONDS). A host that none of them
 * reaches is lost. Where all hosts are silent, it is this host that is cut off, and nobody can be asked.
 *
 * Messages: to a witness {"t":"try", "n":HOST, "p":PORT, "a":[ADDR,…], "ms":N}, with the host's addresses in the networks
 * of the plan, of which it tries the first HVD_HOST_TRY_ADDRS; from it {"t":"tried", "n":HOST, "answered":B}. A witness
 * tries one host at a time, and drops further orders.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

/* From one look at all hosts to the next: the kernel knows how long a peer has been silent, but has no event for it. */
#define LOOK_MS 500
/* How long a witness tries. The kernel repeats a lost SYN after a second. */
#define TRY_MS    1500
#define WITNESSES 2
/* Witnesses that do not answer, or reach the host, are not asked again before this. */
#define AGAIN_SECONDS 4.0
/* Others are asked about so many hosts at a time, at most: if more are silent, it is rather this host that is cut off. */
#define MOST 64

struct asked {
	uint32_t host, witness[WITNESSES];
	int n;           /* witnesses */
	unsigned silent; /* bits, by witness: it has not reached the host */
	uint32_t next;   /* where to look for witnesses: others than before */
	hvd_time again;
};

struct hvd_silence {
	const struct hvd_agent_registry *agents;
	struct hvd_timer *look;
	struct asked asked[MOST];
	size_t n;
};

static unsigned silent_ms(const struct hvd_host_entry *host)
{
	return host->client ? hvd_conn_silent_ms(host->client->conn) : 0;
}

static struct asked *find(struct hvd_silence *silence, uint32_t host)
{
	for (size_t i = 0; i < silence->n; i++)
		if (silence->asked[i].host == host)
			return &silence->asked[i];
	return NULL;
}

static void forget(struct hvd_silence *silence, struct asked *asked)
{
	*asked = silence->asked[--silence->n];
}

/* Does the host speak, so that it can be asked? */
static bool is_witness(const struct hvd_silence *silence, uint32_t host)
{
	const struct hvd_host_entry *entry = &silence->agents->table.hosts[host];

	return entry->stage == HVD_STAGE_HERE && entry->client && silent_ms(entry) < HVD_SILENT_MS;
}

static void ask(struct hvd_silence *silence, struct asked *asked)
{
	const struct hvd_host_table *table = &silence->agents->table;
	json_t *addrs = hvd_network_plan_addrs(&silence->agents->plan, table, asked->host);
	json_t *order = json_pack("{s:s, s:I, s:i, s:o, s:i}", "t", "try", "n", (json_int_t)asked->host, "p",
				  (int)table->hosts[asked->host].node.port, "a", addrs, "ms", TRY_MS);

	asked->n = 0;
	asked->silent = 0;
	asked->again = hvd_deadline_in(AGAIN_SECONDS);
	for (uint32_t i = 1; json_array_size(addrs) > 0 && i <= table->n && asked->n < WITNESSES; i++) {
		uint32_t w = (asked->host + asked->next + i) % table->n;

		if (w == asked->host || !is_witness(silence, w))
			continue;
		asked->witness[asked->n++] = w;
		hvd_conn_send(table->hosts[w].client->conn, json_incref(order));
	}
	json_decref(order);
	asked->next += WITNESSES;
	if (asked->n > 0)
		hvd_verbose(silence->agents->log, "%s is silent: asking %d other host%s whether it answers",
			    table->hosts[asked->host].node.name, asked->n, asked->n == 1 ? "" : "s");
}

static void on_look(void *arg)
{
	struct hvd_silence *silence = arg;
	const struct hvd_host_table *table = &silence->agents->table;

	for (uint32_t h = 0; h < table->n; h++) {
		struct asked *asked = find(silence, h);

		if (table->hosts[h].stage != HVD_STAGE_HERE || silent_ms(&table->hosts[h]) < HVD_SILENT_MS) {
			if (asked)
				forget(silence, asked);
			continue;
		}
		if (!asked && silence->n == MOST)
			continue;
		if (!asked) {
			asked = &silence->asked[silence->n++];
			*asked = (struct asked){.host = h};
		}
		if (asked->again <= hvd_now())
			ask(silence, asked);
	}
}

static void lose(struct hvd_silence *silence, const struct asked *asked)
{
	const struct hvd_host_table *table = &silence->agents->table;
	struct hvd_client *cl = table->hosts[asked->host].client;
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "it has not answered for %.1f seconds, and does not answer %s%s%s either",
		    silent_ms(&table->hosts[asked->host]) / 1000.0, table->hosts[asked->witness[0]].node.name,
		    asked->n > 1 ? " and " : "", asked->n > 1 ? table->hosts[asked->witness[1]].node.name : "");
	if (cl)
		hvd_client_lose(cl, &why);
}

void hvd_silence_message(struct hvd_silence *silence, uint32_t witness, const json_t *msg)
{
	struct asked *asked, lost;
	int64_t host;

	if (!silence || hvd_get_int(msg, "n", 0, UINT32_MAX, &host, NULL) != 0)
		return;
	asked = find(silence, (uint32_t)host);
	if (!asked || silent_ms(&silence->agents->table.hosts[host]) < HVD_SILENT_MS)
		return;
	for (int i = 0; i < asked->n; i++) {
		if (asked->witness[i] != witness)
			continue;
		if (json_is_true(json_object_get(msg, "answered"))) {
			hvd_verbose(silence->agents->log, "%s is silent, but answers %s",
				    silence->agents->table.hosts[host].node.name,
				    silence->agents->table.hosts[witness].node.name);
			asked->n = 0;
			return;
		}
		asked->silent |= 1u << i;
		if (asked->silent == (1u << asked->n) - 1) {
			lost = *asked;
			forget(silence, asked);
			lose(silence, &lost);
		}
		return;
	}
}

struct hvd_silence *hvd_silence_watch(const struct hvd_agent_registry *agents)
{
	struct hvd_silence *silence = hvd_xcalloc(1, sizeof(*silence));

	silence->agents = agents;
	silence->look = hvd_timer_new(agents->base, on_look, silence);
	hvd_timer_every_ms(silence->look, LOOK_MS);
	return silence;
}

void hvd_silence_destroy(struct hvd_silence *silence)
{
	if (!silence)
		return;
	hvd_timer_free(silence->look);
	free(silence);
}
