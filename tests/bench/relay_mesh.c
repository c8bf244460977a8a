/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_mesh direct|relays RANKS BYTES LIMIT [RANKS_PER_HOST [FAN_OUT]] - what a full mesh of Gloo contexts costs the
 * rendezvous, with all ranks connected to it, or with a relay on each host.
 *
 * The root is a process of its own. With relays so are the relay of the last host, whose ranks are clients as Horovod's
 * are (mesh.h), and above FAN_OUT hosts the inner relay that it is below. All other relays are simulated in one
 * process (relay_sim.h). BYTES 0 means the real size, 136 * (RANKS - 1), with Gloo's bytes. Stops after LIMIT seconds,
 * and says what part of the requests were made then.
 *
 * Prints a line for the mesh and one for each of those processes: processor time, connections, bytes, memory.
 */
#include "mesh.h"
#include "relay_servers.h"
#include "relay_sim.h"

struct plan {
	int ranks, per_host, hosts;
	int top, below; /* relays that are connected to the root; relays below the real inner one, 0 = none */
};

/* As launcher/world/relays.h has it. */
static struct plan make_plan(int ranks, int per_host, int fan_out)
{
	struct plan p = {.ranks = ranks, .per_host = per_host, .hosts = (ranks + per_host - 1) / per_host};

	if (p.hosts > fan_out)
		p.below = p.hosts - fan_out < fan_out ? p.hosts - fan_out : fan_out;
	p.top = p.hosts > fan_out ? fan_out : p.hosts;
	return p;
}

/* The relays that are not real. The real ones are those of the last host and, where there is an inner relay, of the one
 * above it, which has the last hosts below it. All other hosts are below the root in even parts: those of one part say
 * what they say over the connection of the first of them. */
static void add_relays(struct sim *sim, const struct plan *p, in_port_t root, in_port_t inner)
{
	int hosts = p->hosts - (p->below > 0 ? p->below + 1 : 1), part = 0;

	for (int host = 0, next; part < p->top - 1; part++, host = next) {
		next = hosts * (part + 1) / (p->top - 1);
		if (next > host)
			sim_add(sim, root, host * p->per_host, (next - host) * p->per_host);
	}
	for (int host = hosts; host < p->hosts - 1; host++)
		sim_add(sim, inner, host * p->per_host, p->per_host);
}

static bool turn_until(struct sim *sim, struct mesh *m, double end,
		       bool (*is_over)(const struct sim *, const struct mesh *))
{
	while (!is_over(sim, m)) {
		if (rv_now() > end)
			return false;
		event_base_loop(sim->base, EVLOOP_NONBLOCK);
		mesh_turn(m, 1);
	}
	return true;
}

static bool all_met(const struct sim *sim, const struct mesh *m)
{
	return sim->complete == sim->n && m->at_barrier == m->n;
}

static bool all_gone(const struct sim *sim, const struct mesh *m)
{
	return m->done == m->n && sim_all_answered(sim);
}

static int with_relays(const struct plan *p, size_t body_len, double limit)
{
	int last = (p->hosts - 1) * p->per_host;
	struct mesh m = {.total = p->ranks, .first = last, .n = p->ranks - last, .body_len = body_len};
	struct sim sim = {.base = event_base_new(), .total = p->ranks, .per_host = p->per_host, .body_len = body_len};
	struct server root = {0}, inner = {0}, leaf = {0};
	double begun = rv_now();
	bool met;

	start_server(&root, 0, 0, p->ranks);
	if (p->below > 0)
		start_server(&inner, (uint32_t)p->hosts + 1, root.report->relay_port, p->ranks);
	start_server(&leaf, (uint32_t)p->hosts, (p->below > 0 ? inner : root).report->relay_port, p->ranks);
	sim_start(&sim, (size_t)p->hosts);
	add_relays(&sim, p, root.report->relay_port, p->below > 0 ? inner.report->relay_port : 0);
	m.port = leaf.report->port;
	mesh_start(&m);
	met = turn_until(&sim, &m, begun + limit, all_met);
	if (met) {
		sim_delete(&sim);
		mesh_delete(&m);
		met = turn_until(&sim, &m, begun + limit, all_gone);
	}
	printf("relays: %d ranks on %d hosts, %d connected to the root, %zu bytes each: %.2f s, %s\n", p->ranks,
	       p->hosts, p->top, m.body_len, rv_now() - begun, met ? "complete" : "NOT COMPLETE");
	if (!met)
		printf("  %zu of %zu relays have all values, %d of %d ranks\n", sim.complete, sim.n, m.at_barrier, m.n);
	show_server(&root, "the root:");
	show_server(&inner, "inner relay:");
	show_server(&leaf, "last host:");
	end_server(&leaf);
	end_server(&inner);
	end_server(&root);
	sim_end(&sim);
	mesh_end(&m);
	event_base_free(sim.base);
	return met ? 0 : 1;
}

static int without(int ranks, size_t body_len, double limit)
{
	struct mesh m = {.total = ranks, .n = ranks, .body_len = body_len};
	struct server root = {0};
	double begun = rv_now(), part;

	start_server(&root, 0, 0, ranks);
	m.port = root.report->port;
	mesh_start(&m);
	part = mesh_run(&m, limit);
	printf("direct: %d ranks, %zu bytes each: %.2f s for %.1f %% of it\n", ranks, m.body_len, rv_now() - begun,
	       part);
	show_server(&root, "the root:");
	end_server(&root);
	mesh_end(&m);
	return 0;
}

int main(int argc, char **argv)
{
	int ranks = argc > 2 ? atoi(argv[2]) : 0;
	struct plan p;

	if (argc < 5 || argc > 7 || ranks < 2) {
		fputs("usage: relay_mesh direct|relays RANKS BYTES LIMIT [RANKS_PER_HOST [FAN_OUT]]\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	hvd_raise_nofile();
	if (strcmp(argv[1], "direct") == 0)
		return without(ranks, strtoull(argv[3], NULL, 10), atof(argv[4]));
	p = make_plan(ranks, argc > 5 ? atoi(argv[5]) : 8, argc > 6 ? atoi(argv[6]) : 32);
	return with_relays(&p, strtoull(argv[3], NULL, 10), atof(argv[4]));
}
