/* SPDX-License-Identifier: Apache-2.0 */
#include "role_env.h"

#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* Text that grows at its end, in time that is linear in its length. */
struct list {
	char *text;
	size_t n, room;
};

static void add(struct list *list, const char *text)
{
	for (; *text; text++) {
		list->text = hvd_xgrow(list->text, list->n + 1, &list->room, 1);
		list->text[list->n++] = *text;
		list->text[list->n] = '\0';
	}
}

/* The texts of a world, behind those of the other replicas. Clears *known if an address is not. */
static void add_world(const struct hvd_role_world *world, const struct hvd_alloc *alloc, const struct hvd_addr *addrs,
		      struct list *names, struct list *addresses, bool *known)
{
	char text[HVD_ADDR_TEXT];

	for (int i = 0; i < world->n_places; i++) {
		const int host = world->places[i].host;
		const char *between = i ? "," : world->replica ? ";" : "";

		add(names, between);
		add(names, alloc->hosts[host].name);
		add(addresses, between);
		add(addresses, hvd_addr_text(&addrs[host], text));
		*known = *known && addrs[host].family != AF_UNSPEC;
	}
}

/* Where the ports of ranks come from. */
struct port_source {
	unsigned each;
	hvd_role_port_fn *fn;
	void *arg;
};

/* The ports of all ranks of a world, as add_world(). */
static void add_ports(const struct hvd_role_hosts *hosts, int world, const struct port_source *from, struct list *ports,
		      bool *known)
{
	const struct hvd_role_world *w = &hosts->worlds[world];
	const char *between = w->replica ? ";" : "";
	char text[16];

	for (int p = 0; p < w->n_places; p++)
		for (unsigned i = 0; i < (unsigned)w->places[p].slots * from->each; i++) {
			const in_port_t port =
				from->fn(world, w->places[p].host, (int)(i / from->each), i % from->each, from->arg);

			snprintf(text, sizeof(text), "%s%u", between, port);
			add(ports, text);
			between = ",";
			*known = *known && port;
		}
}

/* The text of a list, of which all must be known. */
static char *take(struct list *list, bool known)
{
	if (known)
		return list->text;
	free(list->text);
	return NULL;
}

void hvd_role_env_make(struct hvd_role_env *env, const struct hvd_role_specs *specs, const struct hvd_role_hosts *hosts,
		       const struct hvd_alloc *alloc, const struct hvd_addr *addrs, hvd_role_port_fn *port, void *arg)
{
	*env = (struct hvd_role_env){.roles = hvd_xcalloc(specs->n + 1, sizeof(*env->roles)), .n = (int)specs->n};
	for (int role = 0; role < env->n; role++) {
		struct hvd_emit_role *to = &env->roles[role];
		const struct port_source from = {specs->v[role].ports_each, port, arg};
		struct list names = {0}, addresses = {0}, ports = {0};
		bool known = true, ports_known = true;

		to->name = specs->v[role].name;
		for (int i = 0; i < hosts->n_worlds; i++) {
			const struct hvd_role_world *world = &hosts->worlds[i];

			if (world->role != role)
				continue;
			add_world(world, alloc, addrs, &names, &addresses, &known);
			add_ports(hosts, i, &from, &ports, &ports_known);
			hvd_xappendf(&to->size, "%s%d", world->replica ? ";" : "", world->ranks);
		}
		to->hosts = names.text;
		to->addrs = take(&addresses, known);
		to->ports = take(&ports, ports_known);
		to->common_ports = specs->v[role].n_ports > 0;
		for (size_t i = 0; i < specs->v[role].n_ports; i++)
			hvd_xappendf(&to->ports, "%s%u", i ? "," : "", specs->v[role].ports[i]);
	}
}

void hvd_role_env_clear(struct hvd_role_env *env)
{
	for (int i = 0; i < env->n; i++) {
		free(env->roles[i].hosts);
		free(env->roles[i].addrs);
		free(env->roles[i].size);
		free(env->roles[i].ports);
	}
	free(env->roles);
	*env = (struct hvd_role_env){0};
}

void hvd_role_env_emit(const struct hvd_role_env *env, const struct hvd_role_hosts *hosts, int world,
		       struct hvd_strv *to)
{
	const struct hvd_role_world *w = &hosts->worlds[world];

	hvd_emit_roles(&(struct hvd_emit_roles){env->roles, env->n, w->role, w->replica}, to);
}
