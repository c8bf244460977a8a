/* SPDX-License-Identifier: Apache-2.0 */
#include "taskinfo.h"

#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/job/alloc.h"
#include "lib/job/this_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_BY_SLOT  "ranks were not put on the hosts slot by slot"
#define HINT_BY_SLOT "arguments for the MPI launcher must not change which rank goes to which host"

static int number(const char *text, uint32_t max, uint32_t *out)
{
	unsigned long v;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || v > max)
		return -1;
	*out = (uint32_t)v;
	return (int)(end - text);
}

/* The whole of `text` as a number. */
static int only_number(const char *text, uint32_t max, uint32_t *out)
{
	int used = number(text, max, out);

	return used < 0 || text[used] ? -1 : 0;
}

static int from_env(const char *name, const char *other, uint32_t max, uint32_t *out, struct hvd_err *err)
{
	const char *text = getenv(name);

	if (!text && other)
		text = getenv(other);
	if (!text) {
		hvd_err_set(err, HVD_E_NOENT, "%s is not set", name);
		return hvd_err_hint(err, "hvd-task is started by srun --hvd or hvdrun, not by hand");
	}
	if (only_number(text, max, out) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "%s=%s is no number up to %u", name, text, max);
	return 0;
}

/* "0,3,6": the ranks of this host, by local rank. */
static int parse_gtids(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	uint32_t room = 0;

	for (const char *p = text;; p++) {
		uint32_t rank;
		int used = number(p, HVD_MAX_RANKS - 1, &rank);

		if (used < 0)
			return hvd_err_set(err, HVD_E_PROTO, "SLURM_GTIDS=%s is no list of numbers", text);
		if (info->local_size == room) {
			room = room ? room * 2 : 16;
			info->ranks = hvd_xrealloc(info->ranks, room, sizeof(*info->ranks));
		}
		info->ranks[info->local_size++] = rank;
		p += used;
		if (*p == '\0')
			return 0;
		if (*p != ',')
			return hvd_err_set(err, HVD_E_PROTO, "SLURM_GTIDS=%s is no list of numbers", text);
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

int hvd_taskinfo_slurm(struct hvd_taskinfo *info, struct hvd_err *err)
{
	memset(info, 0, sizeof(*info));
	if (read_slurm(info, err) == 0)
		return 0;
	hvd_taskinfo_free(info);
	return -1;
}

/* What an MPI calls them, by who it is; it is the first whose rank is there. NULL: it has no such variable. */
static const struct mpi_names {
	const char *rank, *size, *local_rank, *local_size;
} mpi_names[] = {
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"PMIX_RANK", NULL, NULL, NULL},
};

/* The host that has this rank when they are put slot by slot, and its ranks. */
static int place(struct hvd_taskinfo *info, const struct hvd_alloc *hosts, struct hvd_err *err)
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
	return hvd_err_set(err, HVD_E_PROTO, "MPI says that this is rank %u, and the launch has %d ranks", info->rank,
			   hosts->slots);
}

/* Is this host one of the launch's, but another than its ranks' place says? Names that are none of this host's, as
 * addresses, tell nothing. */
static int check_host(const struct hvd_taskinfo *info, const struct hvd_alloc *hosts, struct hvd_err *err)
{
	if (hvd_is_this_host(info->name))
		return 0;
	for (int i = 0; i < hosts->n_hosts; i++)
		if (hvd_is_this_host(hosts->hosts[i].name)) {
			hvd_err_set(err, HVD_E_PROTO, "rank %u is on %s, and not on %s: " NOT_BY_SLOT, info->rank,
				    hosts->hosts[i].name, info->name);
			return hvd_err_hint(err, HINT_BY_SLOT);
		}
	return 0;
}

/* The same variable, where there is one, must say the same. */
static int agrees(const char *name, uint32_t want, struct hvd_err *err)
{
	uint32_t v;

	if (!name || !getenv(name) || (only_number(getenv(name), HVD_MAX_RANKS, &v) == 0 && v == want))
		return 0;
	hvd_err_set(err, HVD_E_PROTO, "%s is %s, and not %u: " NOT_BY_SLOT, name, getenv(name), want);
	return hvd_err_hint(err, HINT_BY_SLOT);
}

/* `text` says where the ranks were put; info->rank is known. */
static int find_place(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	struct hvd_alloc hosts;
	int rc;

	if (hvd_alloc_from_hosts(&hosts, text, 0, err) != 0)
		return -1;
	info->size = (uint32_t)hosts.slots;
	rc = place(info, &hosts, err) == 0 ? check_host(info, &hosts, err) : -1;
	hvd_alloc_clear(&hosts);
	return rc;
}

static int names_agree(const struct mpi_names *names, const struct hvd_taskinfo *info, struct hvd_err *err)
{
	return agrees(names->size, info->size, err) != 0 || agrees(names->local_rank, info->local_rank, err) != 0 ||
			       agrees(names->local_size, info->local_size, err) != 0
		       ? -1
		       : 0;
}

static int read_mpi(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	size_t n = sizeof(mpi_names) / sizeof(mpi_names[0]), i = 0;

	while (i < n - 1 && !getenv(mpi_names[i].rank))
		i++;
	if (!getenv(mpi_names[i].rank)) {
		hvd_err_set(err, HVD_E_NOENT, "no MPI has said which rank this is");
		return hvd_err_hint(err, "hvd-task --mpi is started by mpirun and its like, not by hand");
	}
	if (from_env(mpi_names[i].rank, NULL, HVD_MAX_RANKS - 1, &info->rank, err) != 0 ||
	    find_place(text, info, err) != 0 || names_agree(&mpi_names[i], info, err) != 0)
		return -1;
	return 0;
}

/* What jsrun's tasks are told, by itself and by the MPI that it serves. */
static const struct mpi_names jsrun_names[] = {
	{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
	{"PMIX_RANK", NULL, NULL, NULL},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
};

/* All of them must tell the same. */
static int jsrun_rank(struct hvd_taskinfo *info, struct hvd_err *err)
{
	const char *from = NULL;

	for (size_t i = 0; i < sizeof(jsrun_names) / sizeof(jsrun_names[0]); i++) {
		const char *name = jsrun_names[i].rank;
		uint32_t rank;

		if (!getenv(name))
			continue;
		if (from_env(name, NULL, HVD_MAX_RANKS - 1, &rank, err) != 0)
			return -1;
		if (from && rank != info->rank) {
			hvd_err_set(err, HVD_E_PROTO, "%s says that this is rank %u, %s that it is %u", from,
				    info->rank, name, rank);
			return hvd_err_hint(err, "was the variable set in the job script? jsrun sets it itself");
		}
		info->rank = rank;
		from = name;
	}
	if (from)
		return 0;
	hvd_err_set(err, HVD_E_NOENT, "jsrun has not said which rank this is");
	return hvd_err_hint(err, "hvd-task --jsrun is started by jsrun, not by hand");
}

int hvd_taskinfo_jsrun(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err)
{
	int rc;

	memset(info, 0, sizeof(*info));
	rc = jsrun_rank(info, err) != 0 || find_place(hosts, info, err) != 0 ? -1 : 0;
	for (size_t i = 0; rc == 0 && i < sizeof(jsrun_names) / sizeof(jsrun_names[0]); i++)
		rc = names_agree(&jsrun_names[i], info, err);
	if (rc != 0)
		hvd_taskinfo_free(info);
	return rc;
}

int hvd_taskinfo_mpi(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err)
{
	memset(info, 0, sizeof(*info));
	if (read_mpi(hosts, info, err) == 0)
		return 0;
	hvd_taskinfo_free(info);
	return -1;
}

static int parse_host(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	const char *p = text;
	int used;

	if ((used = number(p, HVD_MAX_HOSTS - 1, &info->node)) < 0 || p[used] != ':')
		return hvd_err_set(err, HVD_E_USAGE, "\"%s\" is not of the form INDEX:HOSTS:NAME", text);
	p += used + 1;
	if ((used = number(p, HVD_MAX_HOSTS, &info->nodes)) < 0 || p[used] != ':' || info->node >= info->nodes)
		return hvd_err_set(err, HVD_E_USAGE, "\"%s\" is not of the form INDEX:HOSTS:NAME", text);
	return set_name(info, p + used + 1, err);
}

static int parse_ranks(const char *text, struct hvd_taskinfo *info, struct hvd_err *err)
{
	uint32_t first, count;
	int used = number(text, HVD_MAX_RANKS - 1, &first);

	if (used < 0 || text[used] != ':' || only_number(text + used + 1, HVD_MAX_RANKS - first, &count) != 0 ||
	    count == 0)
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
	if (parse_host(host, info, err) == 0 && parse_ranks(ranks, info, err) == 0)
		return 0;
	hvd_taskinfo_free(info);
	return -1;
}

void hvd_taskinfo_free(struct hvd_taskinfo *info)
{
	free(info->ranks);
	memset(info, 0, sizeof(*info));
}
