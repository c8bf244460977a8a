/* SPDX-License-Identifier: Apache-2.0 */
/* role_check.c - the rules between the roles of a launch. */
#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "role_parts.h"
#include "role_specs.h"

#include <string.h>

/* The names of variables have capitals, and "_" for "-" (lib/frameworks/emit_roles.h). */
static bool same_variables(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
			return false;
	return *a == *b;
}

static int check_names(const struct hvd_role_specs *specs, struct hvd_err *err)
{
	for (size_t i = 0; i < specs->n; i++) {
		for (size_t k = 0; k < i; k++) {
			const char *a = specs->v[k].name, *b = specs->v[i].name;

			if (!same_variables(a, b))
				continue;
			if (strcmp(a, b) == 0)
				hvd_err_set(err, HVD_E_USAGE, "two roles are named %s", a);
			else
				hvd_err_set(err, HVD_E_USAGE, "the roles %s and %s have the same variables", a, b);
			return hvd_err_hint(err, "give each role a name of its own");
		}
	}
	return 0;
}

static int check_number(const struct hvd_role_specs *specs, struct hvd_err *err)
{
	int worlds = hvd_role_worlds(specs);

	if (worlds <= HVD_MAX_RANK_WORLDS)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "the roles and their replicas are %d, more than %d", worlds, HVD_MAX_RANK_WORLDS);
	return hvd_err_hint(err, "lower --replicas, or start some of them by a launch of their own");
}

static uint64_t bit(int role)
{
	return role < 0 ? 0 : UINT64_C(1) << role;
}

static uint64_t with_of(const struct hvd_role_spec *role)
{
	return bit(role->with);
}

static uint64_t after_of(const struct hvd_role_spec *role)
{
	return role->after;
}

/* A search in depth, which follows each role once. */
struct walk {
	const struct hvd_role_specs *specs;
	uint64_t (*next)(const struct hvd_role_spec *role);
	uint64_t on_path, done;
	int path[HVD_MAX_RANK_WORLDS], depth;
};

/* Returns the role at which a circle through the end of the path closes, -1: there is none. */
static int walk_from(struct walk *w, int role)
{
	uint64_t next = w->next(&w->specs->v[role]);

	w->path[w->depth++] = role;
	w->on_path |= bit(role);
	for (int i = 0; i < (int)w->specs->n; i++) {
		int closes = -1;

		if (!(next & bit(i)) || (w->done & bit(i)))
			continue;
		closes = w->on_path & bit(i) ? i : walk_from(w, i);
		if (closes >= 0)
			return closes;
	}
	w->on_path &= ~bit(role);
	w->done |= bit(role);
	w->depth--;
	return -1;
}

static int check_circle(const struct hvd_role_specs *specs, const char *option,
			uint64_t (*next)(const struct hvd_role_spec *role), struct hvd_err *err)
{
	struct walk w = {.specs = specs, .next = next};
	hvd_cleanup_free char *circle = NULL;
	int closes = -1, i = 0;

	for (int role = 0; role < (int)specs->n && closes < 0; role++)
		if (!(w.done & bit(role)))
			closes = walk_from(&w, role);
	if (closes < 0)
		return 0;
	while (w.path[i] != closes)
		i++;
	for (; i < w.depth; i++)
		hvd_xappendf(&circle, "%s %s ", specs->v[w.path[i]].name, option);
	hvd_err_set(err, HVD_E_USAGE, "--%s goes round in a circle: %s%s", option, circle, specs->v[closes].name);
	return hvd_err_hint(err, "leave out one --%s of these roles", option);
}

static int check_services(const struct hvd_role_specs *specs, struct hvd_err *err)
{
	for (size_t i = 0; i < specs->n; i++)
		if (!specs->v[i].service)
			return 0;
	hvd_err_set(err, HVD_E_USAGE, "all roles are services, so nothing would end the launch");
	return hvd_err_hint(err, "leave out --service of the role whose end is the end of the launch");
}

/* How replicas share hosts. */
static int check_counts(const struct hvd_role_spec *role, struct hvd_err *err)
{
	const int n = role->spec.ranks.n;

	if (role->replicas > 1 && !role->hosts && !n) {
		hvd_err_set(err, HVD_E_USAGE, "role %s has %d replicas, but not the size of one", role->name,
			    role->replicas);
		return hvd_err_hint(err, "add -N or -n, which are the hosts and the ranks of each replica");
	}
	if (role->hosts && n && n < role->hosts) {
		hvd_err_set(err, HVD_E_USAGE, "role %s has fewer ranks, %d, than hosts, %d", role->name, n,
			    role->hosts);
		return hvd_err_hint(err, "raise -n, or lower -N");
	}
	if (role->hosts && role->per_host && n > role->hosts * (int64_t)role->per_host) {
		hvd_err_set(err, HVD_E_USAGE, "role %s has more ranks, %d, than %d hosts with %d ranks each",
			    role->name, n, role->hosts, role->per_host);
		return hvd_err_hint(err, "leave out one of -n, -N and --ntasks-per-node");
	}
	if (role->with >= 0 && role->het_group >= 0) {
		hvd_err_set(err, HVD_E_USAGE, "role %s has --with and --het-group, which both say its hosts",
			    role->name);
		return hvd_err_hint(err, "leave one of them out");
	}
	return 0;
}

int hvd_role_specs_check(const struct hvd_role_specs *specs, struct hvd_err *err)
{
	for (size_t i = 0; i < specs->n; i++)
		if (check_counts(&specs->v[i], err) != 0)
			return -1;
	if (check_names(specs, err) || check_number(specs, err) || check_circle(specs, "with", with_of, err) ||
	    check_circle(specs, "after", after_of, err) || check_services(specs, err))
		return -1;
	return 0;
}
