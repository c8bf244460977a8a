/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_ranks.h"

#include <stdbool.h>

/* What has that address and process: so many hosts and ranks, and one of them. */
struct found {
	size_t hosts, ranks;
	uint32_t host;
	json_int_t rank;
};

static bool is_number(const json_t *object, const char *key, json_int_t number)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) && json_integer_value(value) == number;
}

static bool is_process(const json_t *process, json_int_t pid)
{
	const json_t *own = json_object_get(process, "own_pid");

	return is_number(process, own ? "own_pid" : "pid", pid);
}

static bool has_process(const json_t *rank, json_int_t pid)
{
	bool has = is_process(rank, pid);
	json_t *other;
	size_t i;

	json_array_foreach(json_object_get(rank, "others"), i, other)
	{
		has = has || is_process(other, pid);
	}
	return has;
}

static void look_at_host(struct found *found, const json_t *ranks, json_int_t pid)
{
	json_t *rank;
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		if (!json_is_integer(json_object_get(rank, "rank")) || !has_process(rank, pid))
			continue;
		found->rank = json_integer_value(json_object_get(rank, "rank"));
		found->ranks++;
	}
}

static void find(struct found *found, const struct hvd_addr *addr, json_int_t pid, const json_t *ranks,
		 const struct hvd_host_table *table)
{
	for (uint32_t h = 0; h < table->n; h++) {
		const size_t before = found->ranks;

		if (table->hosts[h].stage != HVD_STAGE_HERE || !hvd_host_info_owns(&table->hosts[h].node, addr))
			continue;
		look_at_host(found, json_array_get(ranks, h), pid);
		if (found->hosts++ == 0 || found->ranks > before)
			found->host = h;
	}
}

static void name_all(json_t *list, const json_t *ranks, const struct hvd_host_table *table)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *address = json_string_value(json_object_get(one, "address"));
		const json_int_t pid = json_integer_value(json_object_get(one, "pid"));
		struct found found = {0};
		struct hvd_addr addr;
		char buf[32];

		if (!address || hvd_addr_parse(address, &addr) != 0)
			continue;
		find(&found, &addr, pid, ranks, table);
		if (found.ranks == 1)
			json_object_set_new(one, "rank", json_integer(found.rank));
		if (found.ranks == 1 || found.hosts == 1)
			json_object_set_new(one, "host", json_string(hvd_host_table_name(table, found.host, buf)));
	}
}

void hvd_nccl_ranks_find(json_t *nccl, const json_t *ranks, const struct hvd_host_table *table)
{
	json_t *comm;
	size_t i;

	json_array_foreach(json_object_get(nccl, "odd"), i, comm)
	{
		name_all(json_object_get(comm, "ranks"), ranks, table);
		name_all(json_object_get(comm, "lost"), ranks, table);
	}
}
