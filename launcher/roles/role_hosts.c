/* SPDX-License-Identifier: Apache-2.0 */
#include "role_hosts.h"

#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "role_shares.h"

#include <stdlib.h>
#include <string.h>

/* Of the hosts that a role may use, the next one, and how many slots of it are taken. */
struct cursor {
	const int *hosts;
	int n, next, used;
};

struct assignment {
	struct hvd_role_hosts *out;
	const struct hvd_role_specs *specs;
	const struct hvd_role_ground *ground;
	int *owner;   /* of each host: the role that has it; -1 = none */
	int *first;   /* of each role: its first world */
	size_t *room; /* of each world: places */
	int n_components;
	struct hvd_err *err;
};

void hvd_role_hosts_clear(struct hvd_role_hosts *hosts)
{
	if (!hosts)
		return;
	for (int i = 0; i < hosts->n_worlds; i++)
		free(hosts->worlds[i].places);
	free(hosts->worlds);
	*hosts = (struct hvd_role_hosts){0};
}

static const struct hvd_alloc_host *host_of(const struct assignment *a, int host)
{
	return &a->ground->alloc->hosts[host];
}

/* How many components the job has; 0 if it is not heterogeneous. */
static int count_components(const struct assignment *a)
{
	const struct hvd_alloc *alloc = a->ground->alloc;
	int n = 0;

	for (int i = 0; i < alloc->n_hosts; i++)
		n = alloc->hosts[i].component > n ? alloc->hosts[i].component : n;
	return n;
}

/* The component of the job whose hosts a role has, as --het-group counts them; 0 if the job is not heterogeneous. */
static int component_of(const struct assignment *a, int role)
{
	int number = 0;

	if (!a->n_components)
		return 0;
	if (a->specs->v[role].het_group >= 0)
		return a->specs->v[role].het_group;
	for (int i = 0; i < role; i++)
		number += a->specs->v[i].with < 0;
	return number;
}

int hvd_role_hosts_spare(const struct hvd_role_ground *ground)
{
	int host = ground->alloc->n_hosts;

	for (int left = ground->spares; left > 0 && host > 0;)
		left -= ground->alloc->hosts[--host].slots > 0;
	return host;
}

static bool in_component(const struct assignment *a, int host, int component)
{
	return !a->n_components || host_of(a, host)->component == component + 1;
}

/* The hosts that roles may have, for messages. */
struct stock {
	int hosts, slots;
	int each; /* slots of every host; 0 if they differ */
};

static struct stock stock_of(const struct assignment *a, const int *hosts, int n)
{
	struct stock stock = {.hosts = n};

	for (int i = 0; i < n; i++) {
		const int slots = host_of(a, hosts[i])->slots;

		stock.slots += slots;
		stock.each = i == 0 || stock.each == slots ? slots : 0;
	}
	return stock;
}

/* What a role asks for, as a part of a sum: "rollout 2 × 2 = 4"; adds it to *sum, which is -1 if hosts with different
 * numbers of slots leave that open. */
static char *demand(const struct assignment *a, int role, const struct stock *stock, int64_t *sum)
{
	const struct hvd_role_spec *spec = &a->specs->v[role];
	const int each = spec->per_host ? spec->per_host : stock->each;
	const long long ranks = (long long)spec->spec.ranks.n * spec->replicas;
	const long long hosts = hvd_role_n_hosts(spec, stock->each);

	*sum = *sum < 0 || (ranks && !hosts) ? -1 : *sum + (hosts ? hosts : 1);
	if (spec->hosts && spec->replicas == 1)
		return hvd_xasprintf("%s %d", spec->name, spec->hosts);
	if (spec->hosts)
		return hvd_xasprintf("%s %d × %d = %lld", spec->name, spec->replicas, spec->hosts, hosts);
	if (!ranks)
		return hvd_xasprintf("%s all others, at least 1", spec->name);
	return each ? hvd_xasprintf("%s %lld (%lld ranks, %d on each)", spec->name, hosts, ranks, each)
		    : hvd_xasprintf("%s those for %lld ranks", spec->name, ranks);
}

/* "8: t 4, r 2 × 2 = 4", or for hosts with different numbers of slots "more: …" */
static char *needs(int64_t sum, const char *parts)
{
	return sum < 0 ? hvd_xasprintf("more: %s", parts) : hvd_xasprintf("%lld: %s", (long long)sum, parts);
}

/* The error that there are too few hosts, with the sum of all roles that need some of them. */
static int too_few(const struct assignment *a, int component)
{
	const struct hvd_alloc *alloc = a->ground->alloc;
	hvd_cleanup_free int *hosts = hvd_xcalloc((size_t)alloc->n_hosts + 1, sizeof(*hosts));
	hvd_cleanup_free char *parts = hvd_xstrdup(""), *text = NULL, *spares = NULL;
	struct stock stock;
	int64_t sum = 0;
	int n = 0;

	if (a->ground->spares)
		hvd_xappendf(&spares, " besides %d spare host%s", a->ground->spares, a->ground->spares == 1 ? "" : "s");

	for (int i = 0; i < hvd_role_hosts_spare(a->ground); i++)
		if (alloc->hosts[i].slots > 0 && in_component(a, i, component))
			hosts[n++] = i;
	stock = stock_of(a, hosts, n);
	for (int i = 0; i < (int)a->specs->n; i++) {
		hvd_cleanup_free char *part = NULL;

		if (a->specs->v[i].with >= 0 || component_of(a, i) != component)
			continue;
		part = demand(a, i, &stock, &sum);
		hvd_xappendf(&parts, "%s%s", *parts ? ", " : "", part);
	}
	text = needs(sum, parts);
	if (a->n_components)
		hvd_err_set(a->err, HVD_E_USAGE,
			    "component %d of the job has %d hosts with %d slots, but roles need %s", component, n,
			    stock.slots, text);
	else
		hvd_err_set(a->err, HVD_E_USAGE, "there are %d hosts with %d slots (%s)%s, but the roles need %s", n,
			    stock.slots, alloc->source, spares ? spares : "", text);
	return hvd_err_hint(a->err, "ask for more hosts, lower -N, or run a role --with another on the same hosts");
}

/* The number of ranks that the role may have on this host. -1 with err set. */
static int room_on(const struct assignment *a, int role, int host)
{
	const struct hvd_role_spec *spec = &a->specs->v[role];
	const int slots = host_of(a, host)->slots;

	if (!spec->per_host)
		return slots;
	if (spec->per_host <= slots || !a->ground->slots_bind)
		return spec->per_host;
	hvd_err_set(a->err, HVD_E_USAGE, "role %s needs %d ranks on each host, but %s has %d slots (%s)", spec->name,
		    spec->per_host, host_of(a, host)->name, slots, a->ground->alloc->source);
	return hvd_err_hint(a->err, "lower --ntasks-per-node, or set --slots-per-host if the slots are counted wrong");
}

static void add_place(const struct assignment *a, int world, int host, int slots)
{
	struct hvd_role_world *w = &a->out->worlds[world];

	w->places = hvd_xgrow(w->places, (size_t)w->n_places, &a->room[world], sizeof(*w->places));
	w->places[w->n_places++] = (struct hvd_role_place){.host = host, .slots = slots};
	w->ranks += slots;
}

/* Give a world so many whole hosts, 0: all that there are. 1: there are too few. */
static int take_hosts(const struct assignment *a, int world, int role, struct cursor *c, int hosts)
{
	const int ranks = a->specs->v[role].spec.ranks.n;

	if (!hosts)
		hosts = c->n - c->next;
	if (hosts < 1 || c->n - c->next < hosts)
		return 1;
	for (int i = 0; i < hosts; i++) {
		const int host = c->hosts[c->next++], room = room_on(a, role, host);
		const int slots = ranks ? ranks / hosts + (i < ranks % hosts) : room;

		if (room < 0)
			return -1;
		if (slots > room && (a->specs->v[role].per_host || a->ground->slots_bind)) {
			hvd_err_set(a->err, HVD_E_USAGE, "role %s has %d ranks for %d hosts, but %s has %d slots",
				    a->specs->v[role].name, ranks, hosts, host_of(a, host)->name, room);
			return hvd_err_hint(a->err, "raise -N, or lower -n");
		}
		add_place(a, world, host, slots);
	}
	return 0;
}

/* Give a world so many slots, from where the last replica ended. 1: there are too few. */
static int take_slots(const struct assignment *a, int world, int role, struct cursor *c, int ranks)
{
	while (ranks > 0) {
		int room, slots;

		if (c->next >= c->n)
			return 1;
		room = room_on(a, role, c->hosts[c->next]);
		if (room < 0)
			return -1;
		slots = room - c->used < ranks ? room - c->used : ranks;
		add_place(a, world, c->hosts[c->next], slots);
		ranks -= slots;
		c->used += slots;
		if (c->used >= room) {
			c->next++;
			c->used = 0;
		}
	}
	return 0;
}

/* Place all replicas of a role. 1: there are too few hosts. */
static int take_all(const struct assignment *a, int role, struct cursor *c)
{
	const struct hvd_role_spec *spec = &a->specs->v[role];
	int rc = 0;

	for (int i = 0; i < spec->replicas && rc == 0; i++)
		rc = spec->spec.ranks.n && !spec->hosts ? take_slots(a, a->first[role] + i, role, c, spec->spec.ranks.n)
							: take_hosts(a, a->first[role] + i, role, c, spec->hosts);
	return rc;
}

/* A role that does not say how many hosts it needs has all that are left, so no other comes after it. */
static int check_rest(const struct assignment *a, int role)
{
	const struct hvd_role_spec *spec = &a->specs->v[role];

	for (int i = role + 1; !spec->hosts && !spec->spec.ranks.n && i < (int)a->specs->n; i++) {
		if (a->specs->v[i].with >= 0 || component_of(a, i) != component_of(a, role))
			continue;
		hvd_err_set(a->err, HVD_E_USAGE,
			    "role %s does not say how many hosts it needs, and role %s comes after it", spec->name,
			    a->specs->v[i].name);
		return hvd_err_hint(a->err, "add -N or -n to role %s: only the last role has all hosts that are left",
				    spec->name);
	}
	return 0;
}

/* A role with hosts of its own. */
static int place_own(const struct assignment *a, int role)
{
	const struct hvd_alloc *alloc = a->ground->alloc;
	const int component = component_of(a, role);
	hvd_cleanup_free int *hosts = hvd_xcalloc((size_t)alloc->n_hosts + 1, sizeof(*hosts));
	struct cursor c = {.hosts = hosts};
	int rc;

	if (check_rest(a, role) != 0)
		return -1;
	for (int i = 0; i < hvd_role_hosts_spare(a->ground); i++)
		if (a->owner[i] < 0 && alloc->hosts[i].slots > 0 && in_component(a, i, component))
			hosts[c.n++] = i;
	rc = take_all(a, role, &c);
	for (int i = 0; i < c.next + (c.used > 0); i++)
		a->owner[hosts[i]] = role;
	return rc > 0 ? too_few(a, component) : rc;
}

/* A role on the hosts of another. */
static int place_with(const struct assignment *a, int role)
{
	const struct hvd_alloc *alloc = a->ground->alloc;
	const struct hvd_role_spec *spec = &a->specs->v[role];
	hvd_cleanup_free int *hosts = hvd_xcalloc((size_t)alloc->n_hosts + 1, sizeof(*hosts));
	hvd_cleanup_free char *part = NULL, *text = NULL;
	struct cursor c = {.hosts = hosts};
	struct stock stock;
	const int base = hvd_role_base(a->specs, role);
	int64_t sum = 0;
	int rc;

	for (int i = 0; i < alloc->n_hosts; i++)
		if (a->owner[i] == base)
			hosts[c.n++] = i;
	rc = take_all(a, role, &c);
	if (rc <= 0)
		return rc;
	stock = stock_of(a, hosts, c.n);
	part = demand(a, role, &stock, &sum);
	text = needs(sum, part);
	hvd_err_set(a->err, HVD_E_USAGE, "role %s runs with %s on %d hosts with %d slots, but needs %s", spec->name,
		    a->specs->v[base].name, c.n, stock.slots, text);
	return hvd_err_hint(a->err, "lower its -N, -n or --replicas, or give it hosts of its own: leave out --with");
}

static int check_components(const struct assignment *a)
{
	const int n = a->n_components;

	for (int role = 0; role < (int)a->specs->n; role++) {
		const struct hvd_role_spec *spec = &a->specs->v[role];

		if (spec->with >= 0 || (!n && spec->het_group < 0) || (n && component_of(a, role) < n))
			continue;
		if (!n)
			hvd_err_set(a->err, HVD_E_USAGE,
				    "role %s has --het-group=%d, but the job is not a heterogeneous one", spec->name,
				    spec->het_group);
		else
			hvd_err_set(a->err, HVD_E_USAGE, "role %s is to be in component %d of the job, which has %d",
				    spec->name, component_of(a, role), n);
		return hvd_err_hint(a->err, n ? "name one of 0 to %d by --het-group" : "leave it out", n - 1);
	}
	return 0;
}

/* Ranks of all worlds on each host, and in all. */
static int check_size(const struct assignment *a)
{
	hvd_cleanup_free int64_t *ranks = hvd_xcalloc((size_t)a->ground->alloc->n_hosts + 1, sizeof(*ranks));
	int64_t all = 0;

	for (int i = 0; i < a->out->n_worlds; i++) {
		const struct hvd_role_world *w = &a->out->worlds[i];

		all += w->ranks;
		for (int k = 0; k < w->n_places; k++) {
			const int host = w->places[k].host;

			ranks[host] += w->places[k].slots;
			if (ranks[host] > HVD_MAX_HOST_RANKS || all > HVD_MAX_RANKS)
				return hvd_err_set(a->err, HVD_E_USAGE,
						   "the roles have more than %d ranks on host %s, or %d in all",
						   HVD_MAX_HOST_RANKS, host_of(a, host)->name, HVD_MAX_RANKS);
		}
	}
	return 0;
}

static int assign(const struct assignment *a)
{
	if (check_components(a) != 0)
		return -1;
	for (int with = 0; with < 2; with++)
		for (int i = 0; i < (int)a->specs->n; i++)
			if ((a->specs->v[i].with >= 0) == with && (with ? place_with(a, i) : place_own(a, i)) != 0)
				return -1;
	if (check_size(a) || hvd_role_ports_check(a->out, a->specs, a->ground->alloc, a->err))
		return -1;
	return hvd_role_shares_set(a->out, a->specs, a->ground, a->err);
}

int hvd_role_hosts_assign(struct hvd_role_hosts *out, const struct hvd_role_specs *specs,
			  const struct hvd_role_ground *ground, struct hvd_err *err)
{
	const int n_worlds = hvd_role_worlds(specs);
	hvd_cleanup_free int *owner = hvd_xcalloc((size_t)ground->alloc->n_hosts + 1, sizeof(*owner));
	hvd_cleanup_free int *first = hvd_xcalloc(specs->n + 1, sizeof(*first));
	hvd_cleanup_free size_t *room = hvd_xcalloc((size_t)n_worlds + 1, sizeof(*room));
	struct assignment a = {out, specs, ground, owner, first, room, 0, err};

	*out = (struct hvd_role_hosts){.worlds = hvd_xcalloc((size_t)n_worlds + 1, sizeof(*out->worlds))};
	a.n_components = count_components(&a);
	for (int i = 0; i < ground->alloc->n_hosts; i++)
		owner[i] = -1;
	for (int role = 0; role < (int)specs->n; role++) {
		first[role] = out->n_worlds;
		for (int i = 0; i < specs->v[role].replicas; i++)
			out->worlds[out->n_worlds++] = (struct hvd_role_world){.role = role, .replica = i};
	}
	if (assign(&a) == 0)
		return 0;
	hvd_role_hosts_clear(out);
	return -1;
}

/* " c0-7" */
static void add_share(char **text, char letter, const struct hvd_share *share)
{
	if (share->n < 0 && share->first)
		hvd_xappendf(text, " %c%d-", letter, share->first);
	else if (share->n == 1)
		hvd_xappendf(text, " %c%d", letter, share->first);
	else if (share->n == 0)
		hvd_xappendf(text, " %cnone", letter);
	else if (share->n > 1)
		hvd_xappendf(text, " %c%d-%d", letter, share->first, share->first + share->n - 1);
}

char *hvd_role_hosts_text(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			  const struct hvd_alloc *alloc)
{
	char *text = hvd_xstrdup("");

	for (int i = 0; i < hosts->n_worlds; i++) {
		const struct hvd_role_world *w = &hosts->worlds[i];

		hvd_xappendf(&text, "%s/%d:", specs->v[w->role].name, w->replica);
		for (int k = 0; k < w->n_places; k++) {
			hvd_xappendf(&text, "%s %s*%d", k ? "," : "", alloc->hosts[w->places[k].host].name,
				     w->places[k].slots);
			add_share(&text, 'c', &w->places[k].share.cpus);
			add_share(&text, 'g', &w->places[k].share.gpus);
		}
		hvd_xappendf(&text, "\n");
	}
	return text;
}
