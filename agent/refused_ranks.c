/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused_ranks.c - notices that ranks of a world try in vain to reach PyTorch's store, and tells the driver.
 *
 * If a rank is one of PyTorch whose store is the launch's:
 *   {"t":"refused", "at":ADDRESS, "port":P, "ranks":[RANK,…], "clients":BOOL}
 *                                            something on this host tries again and again to reach this port of it,
 *                                            where nobody listens (refused.h). It may be another program than one of
 *                                            these ranks, which are those of PyTorch. clients: PyTorch lets no rank
 *                                            serve (TORCHELASTIC_USE_AGENT_STORE=True)
 * RANK is what the driver calls the process (agent.h).
 */
#include "agent.h"
#include "lib/process/procfs.h"
#include "rank_scan.h"
#include "refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After so long, with the pauses that PyTorch makes, it is told within five seconds. */
#define REFUSED_SECONDS 2.0
#define REFUSED_RANKS   1024 /* that are named */
#define TORCH_PROCESSES 64   /* how many processes of a rank are looked at */

#define STORE_ENV "TORCHELASTIC_USE_AGENT_STORE"

struct refused_ranks {
	struct hvd_of_world of;
	struct hvd_refused *refused; /* from the first rank on; NULL: this host cannot notice attempts */
};

/* Has the file of the process a piece that ends with `end` and has this text? */
static bool has_piece(pid_t pid, const char *file, int end, const char *text)
{
	char path[64], *piece = NULL;
	bool found = false;
	size_t room = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && (n = getdelim(&piece, &room, end, f)) > 0)
		found = strstr(piece, text) != NULL;
	free(piece);
	fclose(f);
	return found;
}

/* Is a rank one of PyTorch that uses the launch's store: has this process, or one below it, loaded PyTorch, with
 * TORCHELASTIC_USE_AGENT_STORE in its environment? False if that cannot be read. */
static bool is_torch_rank(pid_t pid)
{
	struct hvd_pids below = {0};
	bool is = false;

	for (size_t i = 0; !is && i <= below.n && i < TORCH_PROCESSES; i++) {
		pid_t each = i == 0 ? pid : below.v[i - 1];

		is = has_piece(each, "environ", '\0', STORE_ENV "=") && has_piece(each, "maps", '\n', "/libtorch");
		if (!is)
			hvd_pids_add_children(&below, each);
	}
	free(below.v);
	return is;
}

static void on_refused(const struct hvd_addr *addr, in_port_t port, void *arg)
{
	struct refused_ranks *self = arg;
	const struct hvd_rank_sum *rank;
	char text[HVD_ADDR_TEXT];
	json_t *ranks = json_array();
	bool clients = false;

	for (size_t i = 0; json_array_size(ranks) < REFUSED_RANKS &&
			   (rank = hvd_rank_scan_next(self->of.agent->scan, self->of.world, &i));) {
		if (!is_torch_rank(rank->pid))
			continue;
		clients |= has_piece(rank->pid, "environ", '\0', STORE_ENV "=True");
		json_array_append_new(ranks, json_integer(rank->id.rank));
	}
	if (json_array_size(ranks) > 0)
		hvd_of_world_send(&self->of, json_pack("{s:s, s:s, s:i, s:O, s:b}", "t", "refused", "at",
						       hvd_addr_text(addr, text), "port", (int)port, "ranks", ranks,
						       "clients", clients));
	json_decref(ranks);
}

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct refused_ranks *self = arg;

	(void)rank;
	(void)pid;
	if (!self->refused)
		self->refused = hvd_refused_create(self->of.agent->base, REFUSED_SECONDS, on_refused, self);
}

static void end(void *arg)
{
	hvd_refused_destroy(((struct refused_ranks *)arg)->refused);
}

const struct hvd_feature hvd_refused_ranks_feature = {
	.size = sizeof(struct refused_ranks),
	.by_world = true,
	.rank_began = rank_began,
	.end = end,
};
