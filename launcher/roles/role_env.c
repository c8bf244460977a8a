/* SPDX-License-Identifier: Apache-2.0 */
#include "role_env.h"

#include "lib/base/xalloc.h"

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

void hvd_role_env_make(struct hvd_role_env *env, const struct hvd_role_specs *specs, const struct hvd_role_hosts *hosts,
		       const struct hvd_alloc *alloc, const struct hvd_addr *addrs)
{
	*env = (struct hvd_role_env){.roles = hvd_xcalloc(specs->n + 1, sizeof(*env->roles)), .n = (int)specs->n};
	for (int role = 0; role < env->n; role++) {
		struct hvd_emit_role *to = &env->roles[role];
		struct list names = {0}, addresses = {0};
		bool known = true;

		to->name = specs->v[role].name;
		for (int i = 0; i < hosts->n_worlds; i++) {
			const struct hvd_role_world *world = &hosts->worlds[i];

			if (world->role != role)
				continue;
			add_world(world, alloc, addrs, &names, &addresses, &known);
			hvd_xappendf(&to->size, "%s%d", world->replica ? ";" : "", world->ranks);
		}
		to->hosts = names.text;
		to->addrs = known ? addresses.text : NULL;
		if (!known)
			free(addresses.text);
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
