/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - which hosts a launch uses, where that is not left to the scheduler's own command (srun).
 */
#include "backend.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lib/host/host_addrs.h"
#include "lib/host/this_host.h"
#include "lib/process/program.h"

#include <stdlib.h>
#include <string.h>

int hvd_launch_local_alloc(struct hvd_launch *launch, struct hvd_err *err)
{
	int np = launch->spec->ranks.n, slots = launch->spec->hosts.slots_per_host;

	/* No scheduler limits the number of ranks on this machine: the user gets as many as requested. */
	if (!slots)
		slots = np ? np : hvd_gpu_count("", launch->envp);
	return hvd_alloc_from_local(&launch->alloc, slots > 0 ? slots : 1, err);
}

int hvd_launch_listed(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (spec->hosts.list)
		return hvd_alloc_from_hosts(&launch->alloc, spec->hosts.list, spec->hosts.slots_per_host, err);
	return hvd_alloc_from_hostfile(&launch->alloc, spec->hosts.file, spec->hosts.slots_per_host, err);
}

static bool share_address(const struct hvd_host_addrs *a, const struct hvd_host_addrs *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (hvd_addr_equal(&a->v[i], &b->v[k]) && !hvd_addr_loopback(&a->v[i]))
				return true;
	return false;
}

/* The index of the granted host called `name`, whose addresses are `addrs`; -1: none. `granted_addrs` are the addresses
 * of the granted hosts. On the host itself its name often resolves only to a loopback address. */
static int granted_host(const struct hvd_launch *launch, const struct hvd_alloc *granted, const char *name,
			const struct hvd_host_addrs *addrs, const struct hvd_host_addrs *granted_addrs)
{
	for (int i = 0; i < granted->n_hosts; i++)
		if (share_address(addrs, &granted_addrs[i]) ||
		    ((!addrs->n || !granted_addrs[i].n) && hvd_same_host(name, granted->hosts[i].name)))
			return i;
	for (int i = 0; i < granted->n_hosts; i++)
		if (hvd_launch_is_local(launch, granted->hosts[i].name) && hvd_launch_is_local(launch, name))
			return i;
	return -1;
}

/* The first listed host that is not granted; NULL: there is none. */
static const struct hvd_alloc_host *not_granted(const struct hvd_alloc *listed, const struct hvd_alloc *granted)
{
	hvd_cleanup_free int *at = hvd_alloc_find_all(granted, listed);

	for (int i = 0; i < listed->n_hosts; i++)
		if (at[i] < 0)
			return &listed->hosts[i];
	return NULL;
}

/* A scheduler accepts only its own host names: replace an address, or a name with a domain, by the scheduler's name. */
static void rename_granted(struct hvd_launch *launch, const struct hvd_alloc *granted)
{
	struct hvd_alloc *listed = &launch->alloc;
	size_t n = (size_t)listed->n_hosts, all = n + (size_t)granted->n_hosts;
	hvd_cleanup_free const char **names = hvd_xcalloc(all, sizeof(const char *));
	hvd_cleanup_free int *at = hvd_alloc_find_all(granted, listed);
	hvd_cleanup_free struct hvd_host_addrs *addrs = NULL;

	for (size_t i = 0; i < all; i++)
		names[i] = i < n ? listed->hosts[i].name : granted->hosts[i - n].name;
	addrs = hvd_host_addrs_find(names, all);
	for (size_t i = 0; i < n; i++) {
		struct hvd_alloc_host *host = &listed->hosts[i];

		if (at[i] < 0)
			at[i] = granted_host(launch, granted, host->name, &addrs[i], addrs + n);
		if (at[i] < 0)
			continue;
		free(host->name);
		host->name = hvd_xstrdup(granted->hosts[at[i]].name);
	}
	hvd_alloc_merge(listed);
}

int hvd_launch_within(struct hvd_launch *launch, const struct hvd_alloc *granted, struct hvd_err *err)
{
	const struct hvd_alloc_host *missing;
	hvd_cleanup_free char *table = NULL;

	if (!launch->spec->hosts.listed) {
		hvd_alloc_copy(granted, &launch->alloc);
		return 0;
	}
	if (hvd_launch_listed(launch, err) != 0)
		return -1;
	if (!granted->n_hosts || !not_granted(&launch->alloc, granted))
		return 0;
	rename_granted(launch, granted);
	missing = not_granted(&launch->alloc, granted);
	if (!missing)
		return 0;
	table = hvd_alloc_table(granted, 16);
	return hvd_err_set(err, HVD_E_USAGE, "host %s is not in this allocation, which has\n%s", missing->name, table);
}

/* ssh and LSF's commands would start more ranks than the job has slots, so refuse that here. */
static int check_slots(const struct hvd_launch *launch, const struct hvd_alloc *granted, struct hvd_err *err)
{
	hvd_cleanup_free int *at = hvd_alloc_find_all(granted, &launch->alloc);

	for (int i = 0; i < launch->alloc.n_hosts; i++) {
		const struct hvd_alloc_host *host = &launch->alloc.hosts[i];
		int slots = granted->hosts[at[i]].slots;

		if (host->slots <= slots)
			continue;
		hvd_err_set(err, HVD_E_USAGE, "%d slots on %s are more than the job has there, %d (%s)", host->slots,
			    host->name, slots, granted->source);
		return hvd_err_hint(
			err, "ask for fewer slots, or set --slots-per-host if hvdrun counts the job's slots wrong");
	}
	return 0;
}

bool hvd_launch_has_granted(const struct hvd_launch *launch)
{
	const struct hvd_scheduler *scheduler = hvd_scheduler_of(launch->envp);

	return scheduler->hosts && !scheduler->own_starter_only;
}

int hvd_launch_granted(struct hvd_launch *launch, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc granted = {0};

	if (hvd_scheduler_of(launch->envp)
		    ->hosts(launch->envp, launch->spec->hosts.slots_per_host, &granted, &launch->lsf, err) != 0)
		return -1;
	for (size_t i = 0; i < launch->lsf.notes.n; i++)
		hvd_warn(launch->log, "%s", launch->lsf.notes.v[i]);
	if (hvd_launch_within(launch, &granted, err) != 0 || check_slots(launch, &granted, err) != 0)
		return -1;
	if (launch->spec->hosts.listed)
		hvd_lsf_select(&launch->lsf, &granted, &launch->alloc);
	return 0;
}

/* The number of slots that the job takes with its spare hosts: all slots of the hosts that np ranks need, and of so
 * many more hosts. If np is 0: all slots, and the last hosts are the spares. */
static int with_spares(const struct hvd_alloc *alloc, int spares, int np, struct hvd_err *err)
{
	int needed = 0, slots = 0, hosts = 0;

	for (int i = 0; i < alloc->n_hosts; i++)
		hosts += alloc->hosts[i].slots > 0;
	for (int i = 0; i < alloc->n_hosts && slots < np; i++) {
		needed += alloc->hosts[i].slots > 0;
		slots += alloc->hosts[i].slots;
	}
	if (hosts < (needed ? needed : 1) + spares) {
		hvd_err_set(err, HVD_E_USAGE, "the job has %d hosts, but needs %d and %d spare%s", hosts,
			    needed ? needed : 1, spares, spares == 1 ? "" : "s");
		return hvd_err_hint(err, "ask for more hosts, or for fewer --spares");
	}
	if (np == 0 || slots < np)
		return np;
	for (int i = 0, left = needed + spares; i < alloc->n_hosts && left > 0; i++) {
		left -= alloc->hosts[i].slots > 0;
		np = i == 0 ? alloc->hosts[i].slots : np + alloc->hosts[i].slots;
	}
	return np;
}

int hvd_launch_take(struct hvd_launch *launch, int np, struct hvd_err *err)
{
	struct hvd_alloc taken = {0};

	if (launch->spec->spares > 0)
		np = with_spares(&launch->alloc, launch->spec->spares, np, err);
	if (np < 0)
		return -1;
	if (hvd_alloc_take(&launch->alloc, np, &taken, err) != 0)
		return -1;
	hvd_lsf_select(&launch->lsf, &launch->alloc, &taken);
	hvd_alloc_clear(&launch->alloc);
	launch->alloc = taken;
	return 0;
}

int hvd_launch_hosts(struct hvd_launch *launch, struct hvd_err *err)
{
	int rc;

	if (hvd_launch_has_granted(launch))
		rc = hvd_launch_granted(launch, err);
	else if (launch->spec->hosts.listed)
		rc = hvd_launch_listed(launch, err);
	else
		rc = hvd_err_set(err, HVD_E_NOENT, "no hosts are listed, and there is no job that has any");
	return rc == 0 ? hvd_launch_take(launch, launch->spec->ranks.n, err) : -1;
}

bool hvd_launch_is_local(const struct hvd_launch *launch, const char *host)
{
	return hvd_local_hosts_has(launch->local_hosts, host);
}

void hvd_launch_find_local(const struct hvd_launch *launch, const struct hvd_alloc *hosts)
{
	hvd_local_hosts_find(launch->local_hosts, hosts);
}

bool hvd_launch_installed(const struct hvd_launch *launch, const char *program)
{
	return hvd_program_look(program, launch->envp) == 0;
}
