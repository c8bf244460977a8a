/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_sockets.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEARCH_SECONDS 30
#define EARLY          32 /* searches for ranks without connections: while they start */
#define PER_TURN       4  /* processes */
#define MOST_PROCESSES 4096
#define MOST_SOCKETS   65536
#define MOST_FILES     4096 /* of a process */
#define MOST_PORTS     16
#define MOST_ENVIRON   131072

/* The variables of a rank that name the port of its store. */
static const char *const port_names[] = {"MASTER_PORT=", "HOROVOD_GLOO_RENDEZVOUS_PORT="};

struct socket {
	uint32_t inode;
	pid_t rank; /* the rank's process */
	unsigned depth;
};

struct process {
	pid_t pid, rank; /* its own; the rank's process */
	unsigned depth;
};

struct hvd_rank_sockets {
	struct hvd_timer *timer;
	hvd_time searched; /* when the last search began */
	bool missing;      /* since then a look at connections has found a rank without any */
	unsigned early;    /* so many searches may come before their time */
	size_t n_ranks;    /* at the last look, and */
	pid_t first;       /* the first of them */
	struct socket *v;  /* by inode, then by depth */
	size_t n;
	in_port_t ports[MOST_PORTS];
	size_t n_ports;
	/* The search that is under way. */
	struct process *processes;
	size_t n_processes, done;
	struct socket *found;
	size_t n_found, room;
};

/* ---- what is known ---- */

static int by_inode(const void *a, const void *b)
{
	const struct socket *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

bool hvd_rank_sockets_any(const struct hvd_rank_sockets *sockets)
{
	return sockets->n > 0;
}

bool hvd_rank_sockets_find(const struct hvd_rank_sockets *sockets, uint32_t inode, pid_t *rank, unsigned *depth)
{
	size_t from = 0, to = sockets->n;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (sockets->v[middle].inode < inode)
			from = middle + 1;
		else
			to = middle;
	}
	if (inode == 0 || from == sockets->n || sockets->v[from].inode != inode)
		return false;
	*rank = sockets->v[from].rank;
	*depth = sockets->v[from].depth;
	return true;
}

bool hvd_rank_sockets_is_store(const struct hvd_rank_sockets *sockets, in_port_t port)
{
	for (size_t i = 0; i < sockets->n_ports; i++)
		if (sockets->ports[i] == port)
			return true;
	return false;
}

/* ---- the search ---- */

static void add_port(struct hvd_rank_sockets *sockets, const char *text)
{
	const long port = strtol(text, NULL, 10);

	if (port <= 0 || port > UINT16_MAX || hvd_rank_sockets_is_store(sockets, (in_port_t)port))
		return;
	/* The oldest makes room: each generation of ranks may have ports of its own. */
	if (sockets->n_ports == MOST_PORTS)
		memmove(sockets->ports, sockets->ports + 1, --sockets->n_ports * sizeof(sockets->ports[0]));
	sockets->ports[sockets->n_ports++] = (in_port_t)port;
}

static void read_ports(struct hvd_rank_sockets *sockets, pid_t pid)
{
	hvd_cleanup_free char *text = hvd_xcalloc(1, MOST_ENVIRON + 1);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	hvd_read_start(path, text, MOST_ENVIRON);
	for (const char *p = text; *p; p += strlen(p) + 1)
		for (size_t i = 0; i < sizeof(port_names) / sizeof(port_names[0]); i++)
			if (strncmp(p, port_names[i], strlen(port_names[i])) == 0)
				add_port(sockets, p + strlen(port_names[i]));
}

static void search_process(struct hvd_rank_sockets *sockets, const struct process *process)
{
	char path[64], what[32];
	struct dirent *de;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
	fds = opendir(path);
	for (int i = 0; fds && i < MOST_FILES && (de = readdir(fds)); i++) {
		ssize_t n = readlinkat(dirfd(fds), de->d_name, what, sizeof(what) - 1);
		unsigned inode;

		what[n > 0 ? n : 0] = '\0';
		if (sscanf(what, "socket:[%u]", &inode) != 1 || sockets->n_found == MOST_SOCKETS)
			continue;
		sockets->found = hvd_xgrow(sockets->found, sockets->n_found, &sockets->room, sizeof(*sockets->found));
		sockets->found[sockets->n_found++] =
			(struct socket){.inode = inode, .rank = process->rank, .depth = process->depth};
	}
	if (fds)
		closedir(fds);
	read_ports(sockets, process->pid);
}

static void end_search(struct hvd_rank_sockets *sockets)
{
	if (sockets->n_found)
		qsort(sockets->found, sockets->n_found, sizeof(*sockets->found), by_inode);
	free(sockets->v);
	free(sockets->processes);
	sockets->v = sockets->found;
	sockets->n = sockets->n_found;
	sockets->found = NULL;
	sockets->processes = NULL;
	sockets->n_found = sockets->room = sockets->n_processes = 0;
}

static void on_timer(void *arg)
{
	struct hvd_rank_sockets *sockets = arg;

	for (int i = 0; i < PER_TURN && sockets->done < sockets->n_processes; i++)
		search_process(sockets, &sockets->processes[sockets->done++]);
	if (sockets->done < sockets->n_processes)
		hvd_timer_soon(sockets->timer);
	else
		end_search(sockets);
}

/* ---- which processes ---- */

static int by_rank(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The process of the rank itself, and then in the order of their numbers: parents mostly come before their children. */
static void choose_processes(struct hvd_rank_sockets *sockets, const struct hvd_rank_look *look)
{
	struct process *all = hvd_xcalloc(look->processes->n + 1, sizeof(*all));
	size_t n = 0, kept = 0;
	pid_t last = 0;
	unsigned depth = 0;

	for (size_t i = 0; i < look->processes->n; i++) {
		const struct hvd_process *process = &look->processes->v[i];
		const struct hvd_rank_sum *rank;

		if (look->owners[i] == HVD_SCAN_NO_RANK || process->ending)
			continue;
		rank = &look->ranks[look->owners[i]];
		all[n++] = (struct process){.pid = process->pid, .rank = rank->pid, .depth = process->pid != rank->pid};
	}
	if (n)
		qsort(all, n, sizeof(*all), by_rank);
	for (size_t i = 0; i < n && kept < MOST_PROCESSES; i++) {
		depth = all[i].rank == last ? depth + 1 : 0;
		last = all[i].rank;
		if (depth < HVD_SOCKETS_DEPTH)
			all[kept++] = (struct process){.pid = all[i].pid, .rank = all[i].rank, .depth = depth};
	}
	sockets->processes = all;
	sockets->n_processes = kept;
	sockets->done = 0;
}

void hvd_rank_sockets_look(struct hvd_rank_sockets *sockets, const struct hvd_rank_look *look)
{
	const hvd_time now = hvd_now();
	const bool others = look->n != sockets->n_ranks || (look->n && look->ranks[0].pid != sockets->first);

	if (sockets->processes)
		return;
	if (others)
		sockets->early = EARLY;
	sockets->n_ranks = look->n;
	sockets->first = look->n ? look->ranks[0].pid : 0;
	if (now - sockets->searched < (hvd_time)SEARCH_SECONDS * 1000000000) {
		if (!others && (!sockets->missing || sockets->early == 0))
			return;
		sockets->early--;
	}
	sockets->searched = now;
	sockets->missing = false;
	choose_processes(sockets, look);
	hvd_timer_soon(sockets->timer);
}

void hvd_rank_sockets_missing(struct hvd_rank_sockets *sockets)
{
	sockets->missing = true;
}

/* ---- life ---- */

struct hvd_rank_sockets *hvd_rank_sockets_create(struct event_base *base)
{
	struct hvd_rank_sockets *sockets = hvd_xcalloc(1, sizeof(*sockets));

	sockets->timer = hvd_timer_new(base, on_timer, sockets);
	sockets->missing = true;
	sockets->early = EARLY;
	return sockets;
}

void hvd_rank_sockets_destroy(struct hvd_rank_sockets *sockets)
{
	if (!sockets)
		return;
	hvd_timer_free(sockets->timer);
	free(sockets->v);
	free(sockets->found);
	free(sockets->processes);
	free(sockets);
}
