/* SPDX-License-Identifier: Apache-2.0 */
#include "taskinfo.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/host/alloc.h"
#include "lib/host/this_host.h"
#include "lib/protocol/wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_BY_SLOT  "ranks were not put on the hosts slot by slot"
#define HINT_BY_SLOT "arguments for the MPI launcher must not change which rank goes to which host"

/* Take the number at the beginning of *at. False: there is none of at most `max`. */
static bool take_number(const char **at, uint32_t max, uint32_t *out)
{
	int64_t n = hvd_take_digits(at, max);

	if (n >= 0)
		*out = (uint32_t)n;
	return n >= 0;
}

/* The whole of `text` as a number. */
static bool only_number(const char *text, uint32_t max, uint32_t *out)
{
	return take_number(&text, max, out) && !*text;
}

/* The number in the variable `name` or, when that is not set, in `other` (NULL = none). */
static int from_env(const char *name, const char *other, uint32_t max, uint32_t *out, struct hvd_err *err)
{
	const char *text = getenv(name);

	if (!text && other)
		text = getenv(other);
	if (!text) {
		hvd_err_set(err, HVD_E_NOENT, "%s is not set", name);
		return hvd_err_hint(err, "hvd-agent is started by srun --hvd or hvdrun, not by hand");
	}
	if (!only_number(text, max, out))
		return hvd_err_set(err, HVD_E_PROTO, "%s=%s is not a number up to %u", name, text, max);
	return 0;
}

/* `text` is SLURM_GTIDS, as "0,3,6": the ranks of this host, by local rank. */
static int parse_gtids(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	uint32_t room = 0;

	for (const char *p = text;; p++) {
		uint32_t rank;

		if (!take_number(&p, HVD_MAX_RANKS - 1, &rank) || (*p && *p != ','))
			return hvd_err_set(err, HVD_E_PROTO, "SLURM_GTIDS=%s is not a list of numbers", text);
		if (info->local_size == room) {
			room = room ? room * 2 : 16;
			info->ranks = hvd_xrealloc(info->ranks, room, sizeof(*info->ranks));
		}
		info->ranks[info->local_size++] = rank;
		if (!*p)
			return 0;
	}
}

static int set_name(struct hvd_taskinfo *info, const char *name, struct hvd_err *err)
{
	if (!name || !*name || strlen(name) >= sizeof(info->name))
		return hvd_err_set(err, HVD_E_PROTO, "this host's name is not known or too long");
	memcpy(info->name, name, strlen(name) + 1);
	return 0;
}

static int read_slurm(struct hvd_taskinfo *info, struct hvd_err *err)
{
	const char *gtids = getenv("SLURM_GTIDS");

	if (from_env("SLURM_PROCID", NULL, HVD_MAX_RANKS - 1, &info->rank, err) != 0 ||
	    from_env("SLURM_LOCALID", NULL, HVD_MAX_RANKS - 1, &info->local_rank, err) != 0 ||
	    from_env("SLURM_NODEID", NULL, HVD_MAX_HOSTS - 1, &info->node, err) != 0 ||
	    from_env("SLURM_STEP_NUM_NODES", "SLURM_NNODES", HVD_MAX_HOSTS, &info->nodes, err) != 0 ||
	    from_env("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", HVD_MAX_RANKS, &info->size, err) != 0 ||
	    set_name(info, getenv("SLURMD_NODENAME"), err) != 0)
		return -1;
	if (!gtids)
		return hvd_err_set(err, HVD_E_NOENT, "SLURM_GTIDS is not set");
	if (parse_gtids(gtids, info, err) != 0)
		return -1;
	if (info->local_rank >= info->local_size || info->ranks[info->local_rank] != info->rank ||
	    info->rank >= info->size || info->node >= info->nodes)
		return hvd_err_set(
			err, HVD_E_PROTO,
			"Slurm's variables contradict each other: rank %u of %u, local rank %u of %u, node %u of %u",
			info->rank, info->size, info->local_rank, info->local_size, info->node, info->nodes);
	return 0;
}

/* On an error *info holds nothing to free. Returns `rc`. */
static int done(struct hvd_taskinfo *info, int rc)
{
	if (rc != 0)
		hvd_taskinfo_free(info);
	return rc;
}

int hvd_taskinfo_slurm(struct hvd_taskinfo *info, struct hvd_err *err)
{
	memset(info, 0, sizeof(*info));
	return done(info, read_slurm(info, err));
}

/* The variables in which a launcher or an MPI tells a process what it is. NULL: there is no such variable. */
struct rank_names {
	const char *rank, *size, *local_rank, *local_size;
};

#define OPENMPI_NAMES                                                                                                  \
	{                                                                                                              \
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",                          \
			"OMPI_COMM_WORLD_LOCAL_SIZE"                                                                   \
	}

/* The variables of MPIs. The first MPI whose rank is set has started this process; variables of another one may be left
 * from outside. */
static const struct rank_names mpi_names[] = {
	OPENMPI_NAMES,
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"PMIX_RANK", NULL, NULL, NULL},
};
#define N_MPI_NAMES (sizeof(mpi_names) / sizeof(mpi_names[0]))

/* Names of jsrun, and of the MPI that jsrun's tasks use: all that are set must agree. */
static const struct rank_names jsrun_names[] = {
	{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
	{"PMIX_RANK", NULL, NULL, NULL},
	OPENMPI_NAMES,
};
#define N_JSRUN_NAMES (sizeof(jsrun_names) / sizeof(jsrun_names[0]))

/* Find the host on which info->rank is when ranks fill the hosts slot by slot, and the ranks of that host. */
static int set_slot(struct hvd_taskinfo *info, const struct hvd_alloc *hosts, struct hvd_err *err)
{
	uint32_t first = 0;

	info->nodes = (uint32_t)hosts->n_hosts;
	for (; info->node < info->nodes; info->node++) {
		uint32_t slots = (uint32_t)hosts->hosts[info->node].slots;

		if (info->rank < first + slots) {
			info->local_rank = info->rank - first;
			info->local_size = slots;
			info->ranks = hvd_xcalloc(slots, sizeof(*info->ranks));
			for (uint32_t i = 0; i < slots; i++)
				info->ranks[i] = first + i;
			return set_name(info, hosts->hosts[info->node].name, err);
		}
		first += slots;
	}
	return hvd_err_set(err, HVD_E_PROTO, "MPI gives rank %u, but the launch has %d ranks", info->rank,
			   hosts->slots);
}

/* Fail if this process runs on another host of the job than its rank should. A job may name its hosts by names that
 * this machine does not know as its own (addresses): then nothing is checked. */
static int check_host(const struct hvd_taskinfo *info, const struct hvd_alloc *hosts, struct hvd_err *err)
{
	if (hvd_like_this_host(info->name))
		return 0;
	for (int i = 0; i < hosts->n_hosts; i++)
		if (hvd_like_this_host(hosts->hosts[i].name)) {
			hvd_err_set(err, HVD_E_PROTO, "rank %u is on %s, not on %s: " NOT_BY_SLOT, info->rank,
				    hosts->hosts[i].name, info->name);
			return hvd_err_hint(err, HINT_BY_SLOT);
		}
	return 0;
}

/* Fail if the variable `name` is set to another number than `want`. */
static int agrees(const char *name, uint32_t want, struct hvd_err *err)
{
	uint32_t v;

	if (!name || !getenv(name) || (only_number(getenv(name), HVD_MAX_RANKS, &v) && v == want))
		return 0;
	hvd_err_set(err, HVD_E_PROTO, "%s is %s, not %u: " NOT_BY_SLOT, name, getenv(name), want);
	return hvd_err_hint(err, HINT_BY_SLOT);
}

/* `text` is "HOST:SLOTS,…". Fill in all but info->rank, which is known. */
static int find_slot(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc hosts = {0};

	if (hvd_alloc_from_hosts(&hosts, text, 0, err) != 0)
		return -1;
	info->size = (uint32_t)hosts.slots;
	return set_slot(info, &hosts, err) == 0 ? check_host(info, &hosts, err) : -1;
}

/* Set info->rank from those of `n` variables that are set. Returns how many there are, or -1 with err set. */
static int read_rank(const struct rank_names *names, size_t n, struct hvd_taskinfo *info, struct hvd_err *err)
{
	int found = 0;
	const char *from = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *name = names[i].rank;
		uint32_t rank;

		if (!getenv(name))
			continue;
		if (from_env(name, NULL, HVD_MAX_RANKS - 1, &rank, err) != 0)
			return -1;
		if (from && rank != info->rank) {
			hvd_err_set(err, HVD_E_PROTO, "%s gives rank %u, but %s gives rank %u", from, info->rank, name,
				    rank);
			return hvd_err_hint(err, "was the variable set in the job script? jsrun sets it itself");
		}
		info->rank = rank;
		from = name;
		found++;
	}
	return found;
}

/* `hosts` is where the launcher had the ranks put. All of `n` names must agree with it, as far as they are set. `none`
 * and `hint` are for the error if no rank is set. */
static int read_names(const struct rank_names *names, size_t n, const char *hosts, const char *none, const char *hint,
		      struct hvd_taskinfo *info, struct hvd_err *err)
{
	int found = read_rank(names, n, info, err);

	if (found == 0) {
		hvd_err_set(err, HVD_E_NOENT, "%s", none);
		return hvd_err_hint(err, "%s", hint);
	}
	if (found < 0 || find_slot(hosts, info, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (agrees(names[i].size, info->size, err) != 0 ||
		    agrees(names[i].local_rank, info->local_rank, err) != 0 ||
		    agrees(names[i].local_size, info->local_size, err) != 0)
			return -1;
	return 0;
}

int hvd_taskinfo_mpi(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err)
{
	size_t i = 0;

	while (i < N_MPI_NAMES - 1 && !getenv(mpi_names[i].rank))
		i++;
	memset(info, 0, sizeof(*info));
	return done(info, read_names(&mpi_names[i], 1, hosts, "no variable of an MPI gives the rank of this process",
				     "hvd-agent shim --mpi is started by mpirun or a similar launcher, not by hand",
				     info, err));
}

int hvd_taskinfo_jsrun(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err)
{
	memset(info, 0, sizeof(*info));
	return done(info,
		    read_names(jsrun_names, N_JSRUN_NAMES, hosts, "no variable of jsrun gives the rank of this process",
			       "hvd-agent shim --jsrun is started by jsrun, not by hand", info, err));
}

static int parse_host(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	const char *p = text;

	if (!take_number(&p, HVD_MAX_HOSTS - 1, &info->node) || *p++ != ':' ||
	    !take_number(&p, HVD_MAX_HOSTS, &info->nodes) || *p++ != ':' || info->node >= info->nodes)
		return hvd_err_set(err, HVD_E_USAGE, "\"%s\" is not of the form INDEX:HOSTS:NAME", text);
	return set_name(info, p, err);
}

static int parse_ranks(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	const char *p = text;
	uint32_t first, count;

	if (!take_number(&p, HVD_MAX_RANKS - 1, &first) || *p++ != ':' ||
	    !only_number(p, HVD_MAX_RANKS - first, &count) || count == 0)
		return hvd_err_set(err, HVD_E_USAGE, "\"%s\" is not of the form FIRST:COUNT", text);
	info->local_size = count;
	info->ranks = hvd_xcalloc(count, sizeof(*info->ranks));
	for (uint32_t i = 0; i < count; i++)
		info->ranks[i] = first + i;
	return 0;
}

int hvd_taskinfo_host(const char *host, const char *ranks, struct hvd_taskinfo *info, struct hvd_err *err)
{
	memset(info, 0, sizeof(*info));
	return done(info, parse_host(host, info, err) == 0 ? parse_ranks(ranks, info, err) : -1);
}

int hvd_taskinfo_renumber(struct hvd_taskinfo *info, const json_t *plan, struct hvd_err *err)
{
	json_t *numbers, *number;
	int64_t size;
	size_t i;

	if (!json_object_get(plan, "numbers"))
		return 0;
	if (hvd_get_array(plan, "numbers", info->local_size, &numbers, err) != 0 ||
	    hvd_get_int(plan, "size", 1, HVD_MAX_RANKS, &size, err) != 0)
		return -1;
	json_array_foreach(numbers, i, number)
	{
		if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) >= size)
			return hvd_err_set(err, HVD_E_PROTO, "the plan has an invalid rank: %lld of %lld",
					   (long long)json_integer_value(number), (long long)size);
	}
	json_array_foreach(numbers, i, number)
	{
		info->ranks[i] = (uint32_t)json_integer_value(number);
	}
	info->local_size = (uint32_t)i;
	info->size = (uint32_t)size;
	if (info->local_rank < info->local_size)
		info->rank = info->ranks[info->local_rank];
	return 0;
}

/* In a job with spare hosts, and in an elastic job, rank 0 may come to any host. In an elastic job the ranks of each
 * agent begin with 0 at first. */
bool hvd_taskinfo_may_have_rank0(const struct hvd_taskinfo *info, bool spares)
{
	return info->ranks[0] == 0 || spares;
}

void hvd_taskinfo_free(struct hvd_taskinfo *info)
{
	free(info->ranks);
	memset(info, 0, sizeof(*info));
}
