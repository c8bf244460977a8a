/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_roles.h"

#include "elastic_internal.h"
#include "launcher/hosts/planner.h"
#include "launcher/options/role_specs.h"
#include "launcher/roles/role_env.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "slurm/job_cpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct role_world {
	struct hvd_launch_spec spec; /* as the role's, for so many ranks as this world has; owns nothing */
	struct hvd_driver_opts opts; /* as the launch's, for this spec and with its own variables */
	bool released, ready;
	char name[HVD_ROLE_NAME]; /* for opts.role */
};

struct hvd_elastic_roles {
	struct elastic *el;
	const struct hvd_role_specs *specs;
	struct hvd_alloc alloc;  /* the hosts of the launch */
	struct hvd_alloc listed; /* those that are there now */
	int next_spare;          /* of `alloc`: it and those behind it are spare hosts */
	uint32_t *numbers;       /* by host of `alloc`: its number among those of the launch, once it was admitted; */
#define NO_NUMBER UINT32_MAX     /* before that */
	struct hvd_role_hosts hosts;
	struct role_world *worlds; /* as hosts.worlds */
	bool complete;             /* all of these hosts have been admitted */
};

static const struct hvd_role_world *world_of(const struct hvd_elastic_roles *roles, unsigned world)
{
	return &roles->hosts.worlds[world];
}

static const struct hvd_role_spec *spec_of(const struct hvd_elastic_roles *roles, unsigned world)
{
	return &roles->specs->v[world_of(roles, world)->role];
}

/* The place of a world on a host; NULL: it has none. */
static const struct hvd_role_place *place_on(const struct hvd_elastic_roles *roles, unsigned world, const char *host)
{
	const struct hvd_role_world *w = world_of(roles, world);

	for (int i = 0; i < w->n_places; i++)
		if (strcmp(roles->alloc.hosts[w->places[i].host].name, host) == 0)
			return &w->places[i];
	return NULL;
}

/* ---- hosts ---- */

static struct hvd_role_ground ground_of(const struct hvd_launch *launch, const struct hvd_alloc *alloc)
{
	return (struct hvd_role_ground){.alloc = alloc,
					.spares = launch->spec->spares,
					/* A job of Slurm has as many tasks as its user thought of. */
					.slots_bind = launch->spec->hosts.listed ||
						      hvd_scheduler_of(launch->envp) == &hvd_scheduler_lsf};
}

int hvd_elastic_roles_place(const struct hvd_launch *launch, const struct hvd_alloc *alloc, struct hvd_role_hosts *out,
			    struct hvd_err *err)
{
	struct hvd_role_ground ground = ground_of(launch, alloc);
	hvd_cleanup_free int *cpus = NULL, *gpus = NULL;

	hvd_slurm_job_counts(launch->envp, alloc, &cpus, &gpus);
	ground.cpus = cpus;
	ground.gpus = gpus;
	return hvd_role_hosts_assign(out, launch->roles, &ground, err);
}

static void tell_hosts(struct hvd_elastic_roles *roles, unsigned world)
{
	struct hvd_alloc own = {0};

	hvd_alloc_copy(&roles->listed, &own);
	own.slots = 0;
	for (int i = 0; i < own.n_hosts; i++) {
		const struct hvd_role_place *place = place_on(roles, world, own.hosts[i].name);

		own.hosts[i].slots = place ? place->slots : 0;
		own.slots += own.hosts[i].slots;
	}
	hvd_event_queue_add_hosts(roles->el->parts[world]->events, &own);
	hvd_alloc_clear(&own);
}

static void tell_all_hosts(struct hvd_elastic_roles *roles)
{
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds; i++)
		tell_hosts(roles, i);
}

void hvd_elastic_roles_listed(struct hvd_elastic_roles *roles, const struct hvd_alloc *hosts)
{
	hvd_alloc_clear(&roles->listed);
	hvd_alloc_copy(hosts, &roles->listed);
	tell_all_hosts(roles);
}

/* The next spare host that is still listed; -1: there is none. */
static int take_spare(struct hvd_elastic_roles *roles)
{
	while (roles->next_spare < roles->alloc.n_hosts) {
		const struct hvd_alloc_host *host = &roles->alloc.hosts[roles->next_spare++];

		if (host->slots > 0 && hvd_alloc_find(&roles->listed, host->name) >= 0)
			return roles->next_spare - 1;
	}
	return -1;
}

/* The first world on the host; -1: there is none. */
static int world_on(const struct hvd_elastic_roles *roles, const char *host)
{
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds; i++)
		if (place_on(roles, i, host))
			return (int)i;
	return -1;
}

static void move_places(struct hvd_elastic_roles *roles, const char *from, int to)
{
	hvd_info(roles->el->log, "%s takes the place of %s", roles->alloc.hosts[to].name, from);
	for (int i = 0; i < roles->hosts.n_worlds; i++) {
		struct hvd_role_world *w = &roles->hosts.worlds[i];

		for (int k = 0; k < w->n_places; k++)
			if (strcmp(roles->alloc.hosts[w->places[k].host].name, from) == 0)
				w->places[k].host = to;
	}
	tell_all_hosts(roles);
}

void hvd_elastic_roles_gone(struct hvd_elastic_roles *roles, const char *host)
{
	const int world = world_on(roles, host), spare = world < 0 ? -1 : take_spare(roles);
	struct hvd_err why = {0};

	if (spare >= 0) {
		move_places(roles, host, spare);
	} else if (world >= 0 && !roles->complete) {
		hvd_err_set(&why, HVD_E_FAILED, "%s cannot be used, and role %s needs it", host,
			    spec_of(roles, (unsigned)world)->name);
		hvd_err_hint(&why, "the message above gives the reason; --spares=1 has a host more ready");
		hvd_agent_registry_fail(roles->el->policy.job->agents, &why);
	}
}

void hvd_elastic_roles_host(const struct hvd_elastic_roles *roles, struct hvd_alloc_host *host)
{
	const int at = hvd_alloc_find(&roles->alloc, host->name);

	host->slots = 0;
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds; i++) {
		const struct hvd_role_place *place = place_on(roles, i, host->name);

		host->slots += place ? place->slots : 0;
	}
	host->slots = host->slots ? host->slots : 1;
	host->component = at < 0 ? 0 : roles->alloc.hosts[at].component;
}

const struct hvd_host_share *hvd_elastic_roles_share(const struct hvd_elastic_roles *roles, unsigned world,
						     const char *host)
{
	const struct hvd_role_place *place = place_on(roles, world, host);

	return place ? &place->share : NULL;
}

/* ---- the order ---- */

/* Are all replicas of the role ready? */
static bool role_ready(const struct hvd_elastic_roles *roles, int role)
{
	for (int i = 0; i < roles->hosts.n_worlds; i++)
		if (roles->hosts.worlds[i].role == role && !roles->worlds[i].ready)
			return false;
	return true;
}

static bool may_start(const struct hvd_elastic_roles *roles, unsigned world)
{
	const uint64_t after = spec_of(roles, world)->after;

	for (int role = 0; role < (int)roles->specs->n; role++)
		if ((after & UINT64_C(1) << role) && !role_ready(roles, role))
			return false;
	return true;
}

static void release(struct hvd_elastic_roles *roles)
{
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds && roles->complete; i++) {
		if (roles->worlds[i].released || !may_start(roles, i))
			continue;
		roles->worlds[i].released = true;
		hvd_event_queue_add(roles->el->parts[i]->events, HVD_EVENT_RELEASED, 0, 0);
	}
}

static bool is_complete(const struct hvd_elastic_roles *roles)
{
	const struct hvd_agent_registry *agents = roles->el->policy.job->agents;

	for (int i = 0; i < roles->hosts.n_worlds; i++) {
		const struct hvd_role_world *w = &roles->hosts.worlds[i];

		for (int k = 0; k < w->n_places; k++)
			if (!hvd_agent_registry_admitted(agents, roles->numbers[w->places[k].host]))
				return false;
	}
	return true;
}

void hvd_elastic_roles_admitted(struct hvd_elastic_roles *roles, uint32_t host)
{
	const int at = hvd_alloc_find(&roles->alloc, hvd_machine_host(hvd_elastic_hosts(roles->el), host));

	if (at >= 0)
		roles->numbers[at] = host;
	if (!roles->complete && is_complete(roles)) {
		roles->complete = true;
		release(roles);
	}
}

void hvd_elastic_roles_ready(struct elastic_part *part)
{
	struct hvd_elastic_roles *roles = part->el->roles;

	if (roles->worlds[part->number].ready)
		return;
	roles->worlds[part->number].ready = true;
	release(roles);
}

/* The first world that waits for this one; -1: none does. */
static int waiting_for(const struct hvd_elastic_roles *roles, unsigned world)
{
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds; i++)
		if (!roles->worlds[i].released &&
		    (spec_of(roles, i)->after & UINT64_C(1) << world_of(roles, world)->role))
			return (int)i;
	return -1;
}

int hvd_elastic_roles_over(const struct elastic_part *part, struct hvd_err *err)
{
	const struct hvd_elastic_roles *roles = part->el->roles;
	const int other = roles->worlds[part->number].ready ? -1 : waiting_for(roles, part->number);

	if (other < 0)
		return 0;
	hvd_err_set(err, HVD_E_FAILED, "role %s has ended before it was ready, and role %s waits for it",
		    spec_of(roles, part->number)->name, spec_of(roles, (unsigned)other)->name);
	return hvd_err_hint(err, "what --ready of %s asks for has not come; see its last lines",
			    spec_of(roles, part->number)->name);
}

/* ---- variables ---- */

static in_port_t port_of(int world, int host, int local_rank, unsigned i, void *arg)
{
	const struct hvd_elastic_roles *roles = arg;

	return hvd_world_rank_port(roles->el->parts[world]->world, roles->numbers[host], local_rank, i);
}

void hvd_elastic_roles_generation(struct elastic_part *part)
{
	struct hvd_elastic_roles *roles = part->el->roles;
	const struct hvd_agent_registry *agents = roles->el->policy.job->agents;
	hvd_cleanup_free struct hvd_addr *addrs = hvd_xcalloc((size_t)roles->alloc.n_hosts + 1, sizeof(*addrs));
	struct hvd_strv *to = &roles->worlds[part->number].opts.extra_env;
	struct hvd_role_env env;

	for (int i = 0; i < roles->alloc.n_hosts; i++)
		if (hvd_agent_registry_admitted(agents, roles->numbers[i]))
			addrs[i] = hvd_network_plan_addr(hvd_agent_registry_networks(agents),
							 hvd_agent_registry_table(roles->el->policy.job->agents),
							 roles->numbers[i]);
	hvd_role_env_make(&env, roles->specs, &roles->hosts, &roles->alloc, addrs, port_of, roles);
	hvd_strv_free(to);
	hvd_strv_add_all(to, roles->el->launcher->opts->extra_env.v);
	hvd_role_env_emit(&env, &roles->hosts, (int)part->number, to);
	hvd_role_env_clear(&env);
}

/* ---- life ---- */

static void make_world(struct hvd_elastic_roles *roles, unsigned number)
{
	const struct hvd_role_spec *role = spec_of(roles, number);
	struct role_world *world = &roles->worlds[number];
	const int ranks = world_of(roles, number)->ranks;

	world->spec = role->spec;
	world->spec.spares = 0; /* they are the launch's */
	world->spec.elastic.min_np = world->spec.elastic.max_np = world->spec.elastic.first_np = ranks;
	world->opts = *roles->el->launcher->opts;
	world->opts.spec = &world->spec;
	world->opts.ready = &role->ready;
	world->opts.extra_env = (struct hvd_strv){0};
	world->opts.role_ports.each = role->ports_each;
	world->opts.role_ports.ranks = (unsigned)hvd_role_world_most(world_of(roles, number));
	snprintf(world->name, sizeof(world->name), "%s/%d", role->name, world_of(roles, number)->replica);
	world->opts.role = role->replicas > 1 ? world->name : role->name;
}

bool hvd_elastic_roles_world(struct hvd_elastic_roles *roles, unsigned number, struct hvd_role_world_opts *out)
{
	if (number >= (unsigned)roles->hosts.n_worlds)
		return false;
	*out = (struct hvd_role_world_opts){.opts = &roles->worlds[number].opts,
					    .ends_all = spec_of(roles, number)->on_failure != HVD_FAILURE_IGNORED,
					    .service = spec_of(roles, number)->service};
	return true;
}

struct hvd_elastic_roles *hvd_elastic_roles_create(struct elastic *el, struct hvd_err *err)
{
	struct hvd_elastic_roles *roles = hvd_xcalloc(1, sizeof(*roles));
	struct hvd_role_ground ground;

	roles->el = el;
	roles->specs = el->launcher->launch->roles;
	hvd_alloc_copy(&el->discovery_opts.hosts, &roles->alloc);
	if (hvd_elastic_roles_place(el->launcher->launch, &roles->alloc, &roles->hosts, err) != 0) {
		hvd_elastic_roles_destroy(roles);
		return NULL;
	}
	ground = ground_of(el->launcher->launch, &roles->alloc);
	roles->next_spare = hvd_role_hosts_spare(&ground);
	roles->numbers = hvd_xcalloc((size_t)roles->alloc.n_hosts + 1, sizeof(*roles->numbers));
	for (int i = 0; i < roles->alloc.n_hosts; i++)
		roles->numbers[i] = NO_NUMBER;
	roles->worlds = hvd_xcalloc((size_t)roles->hosts.n_worlds, sizeof(*roles->worlds));
	for (unsigned i = 0; i < (unsigned)roles->hosts.n_worlds; i++)
		make_world(roles, i);
	return roles;
}

void hvd_elastic_roles_destroy(struct hvd_elastic_roles *roles)
{
	if (!roles)
		return;
	for (int i = 0; roles->worlds && i < roles->hosts.n_worlds; i++)
		hvd_strv_free(&roles->worlds[i].opts.extra_env);
	free(roles->worlds);
	free(roles->numbers);
	hvd_role_hosts_clear(&roles->hosts);
	hvd_alloc_clear(&roles->alloc);
	hvd_alloc_clear(&roles->listed);
	free(roles);
}
