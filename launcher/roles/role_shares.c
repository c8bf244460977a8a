/* SPDX-License-Identifier: Apache-2.0 */
#include "role_shares.h"

#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/boot.h"

/* CPUs or GPUs of all hosts, to be shared out. */
struct supply {
	const char *what, *option;
	const int *known; /* of each host, or NULL */
	int least;        /* a number below is not known */
	bool gpus;
	int64_t *asked; /* of each host, so far */
};

static int asked_by(const struct supply *s, const struct hvd_role_spec *spec)
{
	if (s->gpus)
		return spec->gpus;
	return spec->cpus ? spec->cpus : -1;
}

static struct hvd_share *share_of(const struct supply *s, struct hvd_role_place *place)
{
	return s->gpus ? &place->share.gpus : &place->share.cpus;
}

/* How many the host has; -1 = not known. */
static int known_on(const struct supply *s, int host)
{
	return s->known && s->known[host] >= s->least ? s->known[host] : -1;
}

static int exceeds(const struct supply *s, const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
		   const struct hvd_alloc *alloc, int host, struct hvd_err *err)
{
	hvd_cleanup_free char *parts = hvd_xstrdup("");
	const int known = known_on(s, host);

	for (int i = 0; i < hosts->n_worlds; i++) {
		const struct hvd_role_world *w = &hosts->worlds[i];
		const struct hvd_role_spec *spec = &specs->v[w->role];
		const int each = asked_by(s, spec);

		for (int k = 0; each > 0 && k < w->n_places; k++)
			if (w->places[k].host == host)
				hvd_xappendf(&parts, "%s%s %d × %d = %lld", *parts ? ", " : "", spec->name,
					     w->places[k].slots, each, (long long)w->places[k].slots * each);
	}
	hvd_err_set(err, HVD_E_USAGE, "host %s has %s%d %s, but the roles there ask for %lld: %s",
		    alloc->hosts[host].name, known < 0 ? "at most " : "", known < 0 ? HVD_MAX_RANKS : known, s->what,
		    (long long)s->asked[host], parts);
	return hvd_err_hint(err, "lower --%s, or --ntasks-per-node of these roles", s->option);
}

/* Give those their shares that ask for them. */
static void share_asked(const struct supply *s, const struct hvd_role_world *w, int each)
{
	for (int k = 0; each >= 0 && k < w->n_places; k++) {
		struct hvd_role_place *place = &w->places[k];
		const int64_t first = s->asked[place->host], n = (int64_t)each * place->slots;

		s->asked[place->host] += n;
		/* With more than that the launch fails. */
		if (first + n <= HVD_MAX_RANKS)
			*share_of(s, place) = (struct hvd_share){(int)first, (int)n};
	}
}

/* Give all others what is left. No number is said of that: the host may have less than the scheduler counts. */
static void share_rest(const struct supply *s, const struct hvd_role_world *w)
{
	for (int k = 0; k < w->n_places; k++) {
		const int host = w->places[k].host, known = known_on(s, host);
		const int first = (int)s->asked[host];
		const bool none = known == first && first;

		*share_of(s, &w->places[k]) =
			none && !s->gpus ? HVD_SHARE_ALL : (struct hvd_share){first, none ? 0 : -1};
	}
}

static int share_out(struct supply *s, const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
		     const struct hvd_alloc *alloc, struct hvd_err *err)
{
	hvd_cleanup_free int64_t *asked = hvd_xcalloc((size_t)alloc->n_hosts + 1, sizeof(*asked));

	s->asked = asked;
	for (int i = 0; i < hosts->n_worlds; i++)
		share_asked(s, &hosts->worlds[i], asked_by(s, &specs->v[hosts->worlds[i].role]));
	for (int i = 0; i < alloc->n_hosts; i++)
		if (asked[i] > (known_on(s, i) >= 0 ? known_on(s, i) : HVD_MAX_RANKS))
			return exceeds(s, hosts, specs, alloc, i, err);
	for (int i = 0; i < hosts->n_worlds; i++)
		if (asked_by(s, &specs->v[hosts->worlds[i].role]) < 0)
			share_rest(s, &hosts->worlds[i]);
	return 0;
}

int hvd_role_shares_set(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			const struct hvd_role_ground *ground, struct hvd_err *err)
{
	struct supply cpus = {.what = "CPUs", .option = "cpus-per-task", .known = ground->cpus, .least = 1};
	struct supply gpus = {.what = "GPUs", .option = "gpus-per-task", .known = ground->gpus, .gpus = true};

	return share_out(&cpus, hosts, specs, ground->alloc, err) || share_out(&gpus, hosts, specs, ground->alloc, err)
		       ? -1
		       : 0;
}

static in_port_t common_port(const struct hvd_role_spec *a, const struct hvd_role_spec *b)
{
	for (size_t i = 0; i < a->n_ports; i++)
		for (size_t k = 0; k < b->n_ports; k++)
			if (a->ports[i] == b->ports[k])
				return a->ports[i];
	return 0;
}

/* Each host reserves them for all worlds, since ranks may move to it. */
static int check_reserved(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs, struct hvd_err *err)
{
	int64_t all = 0;

	for (int i = 0; i < hosts->n_worlds; i++)
		all += (int64_t)specs->v[hosts->worlds[i].role].ports_each * hvd_role_world_most(&hosts->worlds[i]);
	if (all <= HVD_MAX_ROLE_PORTS)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "a host would have to reserve %lld ports for the ranks of all roles (--ports), more than %d",
		    (long long)all, HVD_MAX_ROLE_PORTS);
	return hvd_err_hint(err, "ask for fewer ports for each rank, or start fewer ranks on a host");
}

/* Only one process of a host can listen at a port. */
int hvd_role_ports_check(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			 const struct hvd_alloc *alloc, struct hvd_err *err)
{
	hvd_cleanup_free int *seen = hvd_xcalloc((size_t)alloc->n_hosts + 1, sizeof(*seen));

	for (int i = 1; i < hosts->n_worlds; i++) {
		const struct hvd_role_world *w = &hosts->worlds[i];

		for (int p = 0; p < w->n_places; p++)
			seen[w->places[p].host] = i;
		for (int k = 0; k < i; k++) {
			const struct hvd_role_world *other = &hosts->worlds[k];
			const in_port_t port = common_port(&specs->v[w->role], &specs->v[other->role]);

			for (int p = 0; port && p < other->n_places; p++) {
				if (seen[other->places[p].host] != i)
					continue;
				hvd_err_set(err, HVD_E_USAGE, "%s/%d and %s/%d both listen at port %u of host %s",
					    specs->v[other->role].name, other->replica, specs->v[w->role].name,
					    w->replica, port, alloc->hosts[other->places[p].host].name);
				return hvd_err_hint(err, "give them other ports, or hosts of their own");
			}
		}
	}
	return check_reserved(hosts, specs, err);
}
