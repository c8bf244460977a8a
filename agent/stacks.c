/* SPDX-License-Identifier: Apache-2.0 */
/* stacks.c - looks at ranks by processes of its own, some at a time. Each writes a line for each of its ranks into a
 * file in memory; lines that are there when the time is over are kept. */
#include "stacks.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/stack_pieces.h"
#include "lib/process/call.h"
#include "lib/process/capture.h"
#include "lib/process/spawn.h"
#include "nccl_ras.h"
#include "stack_find.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS     8.0
#define AT_A_TIME   16
#define MAX_OTHERS  4
#define MORE_BEHIND 0.5       /* before the end nothing new is begun but looking at the kernel's files */
#define MOST_NCCL   (1 << 18) /* bytes of what NCCL says */

#define LAST_SECONDS 0.1

static json_t *one_rank(const struct hvd_found_rank *found, bool may_stop, hvd_time deadline)
{
	pid_t others[MAX_OTHERS];
	size_t n;
	int64_t cpu_ns;
	pid_t pid = hvd_stack_find_main(found->rank.pid, others, MAX_OTHERS, &n, &cpu_ns);
	json_t *rank = hvd_stack_take(pid, may_stop, deadline), *list = json_array();

	for (size_t i = 0; rank && i < n; i++) {
		json_t *other = hvd_left(deadline) > 0 ? hvd_stack_take(others[i], may_stop, deadline) : NULL;

		if (other)
			json_array_append_new(list, other);
	}
	if (rank) {
		json_object_set_new(rank, "rank", json_integer(found->rank.rank));
		json_object_set_new(rank, "cpu", json_real((double)cpu_ns / 1e9));
		if (found->in_step)
			json_object_set_new(rank, "step", json_integer(found->step));
	}
	if (rank && json_array_size(list))
		json_object_set(rank, "others", list);
	json_decref(list);
	return rank;
}

/* The work of one process: every AT_A_TIME-th rank. */
static void look_at(const struct hvd_found_ranks *ranks, size_t first, bool may_stop, int fd, hvd_time deadline)
{
	for (size_t i = first; i < ranks->n; i += AT_A_TIME) {
		json_auto_t *rank = one_rank(&ranks->v[i], may_stop, deadline);
		hvd_cleanup_free char *line = rank ? json_dumps(rank, JSON_COMPACT) : NULL;

		if (line && dprintf(fd, "%s\n", line) < 0)
			break;
	}
}

struct looker {
	pid_t pid;
	int fd;
};

static struct looker begin(const struct hvd_found_ranks *ranks, size_t first, bool may_stop, hvd_time deadline)
{
	struct looker looker = {.fd = memfd_create("stacks", MFD_CLOEXEC)};

	looker.pid = looker.fd >= 0 ? fork() : -1;
	if (looker.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A tool that is killed with this process must not hold a rank: tools die with it (capture.h). */
		look_at(ranks, first, may_stop, looker.fd, deadline - (hvd_time)(MORE_BEHIND * 1e9));
		_exit(0);
	}
	return looker;
}

/* Read the lines that the process has written. A last line that is not complete is left out. */
static void collect(int fd, json_t *ranks, size_t *room)
{
	hvd_cleanup_fclose FILE *f = fdopen(fd, "r");
	hvd_cleanup_free char *line = NULL;
	size_t size = 0;
	ssize_t n;

	if (f)
		rewind(f);
	while (f && (n = getline(&line, &size, f)) > 0) {
		json_t *rank = (size_t)n <= *room ? json_loads(line, 0, NULL) : NULL;

		if (rank) {
			*room -= (size_t)n;
			json_array_append_new(ranks, rank);
		}
	}
}

static json_t *look_at_all(const struct hvd_found_ranks *found, bool may_stop, double seconds)
{
	hvd_time deadline = hvd_deadline_in(seconds);
	size_t n = found->n < AT_A_TIME ? found->n : AT_A_TIME, room = HVD_STACKS_MAX_OUTPUT;
	struct looker lookers[AT_A_TIME];
	json_t *ranks = json_array();

	for (size_t i = 0; i < n; i++)
		lookers[i] = begin(found, i, may_stop, deadline);
	for (size_t i = 0; i < n; i++) {
		if (lookers[i].pid > 0 && hvd_wait(lookers[i].pid, deadline, NULL, NULL) != 0)
			hvd_end(lookers[i].pid, 0, NULL);
		if (lookers[i].fd >= 0)
			collect(lookers[i].fd, ranks, &room);
	}
	return ranks;
}

/* ---- NCCL ---- */

struct nccl {
	struct hvd_addr addr;
	in_port_t port;
	bool twice;
	hvd_time deadline;
	pid_t pid; /* of the process that asks; 0: none does */
	int fd;
};

static void ask_nccl(int out, void *arg)
{
	const struct nccl *nccl = arg;
	json_auto_t *found = hvd_nccl_ras_ask(&nccl->addr, nccl->port, nccl->twice, nccl->deadline, NULL);

	if (found)
		json_dumpfd(found, out, JSON_COMPACT);
}

/* Where the rank's NCCL serves its RAS. False: nowhere that is known. */
static bool find_nccl(pid_t pid, struct nccl *nccl)
{
	hvd_cleanup_free char *off = hvd_stack_find_env(pid, "NCCL_RAS_ENABLE");
	hvd_cleanup_free char *at = off && strcmp(off, "0") == 0 ? NULL : hvd_stack_find_env(pid, "NCCL_RAS_ADDR");

	return at && hvd_nccl_ras_addr(at, &nccl->addr, &nccl->port) == 0;
}

/* Any rank answers for all ranks of the job. */
static void begin_nccl(const struct hvd_found_ranks *found, bool twice, double seconds, struct nccl *nccl)
{
	bool any = false;

	*nccl = (struct nccl){.twice = twice, .deadline = hvd_deadline_in(seconds - MORE_BEHIND)};
	for (size_t i = 0; i < found->n && i < AT_A_TIME && !any; i++)
		any = find_nccl(found->v[i].rank.pid, nccl);
	nccl->pid = any ? hvd_call_begin(ask_nccl, nccl, &nccl->fd, NULL) : 0;
}

/* A new reference; NULL: NCCL has said nothing. */
static json_t *end_nccl(struct nccl *nccl)
{
	hvd_cleanup_free char *text = NULL;
	hvd_time latest;
	size_t len = 0;

	if (nccl->pid <= 0)
		return NULL;
	/* What is there counts even if the look at the ranks has taken all the time. */
	latest = hvd_left(nccl->deadline) > 0 ? nccl->deadline : hvd_deadline_in(LAST_SECONDS);
	text = hvd_capture_fd(nccl->fd, "NCCL", MOST_NCCL, latest, &len, NULL);
	close(nccl->fd);
	hvd_end(nccl->pid, 0, NULL);
	return text ? json_loadb(text, len, 0, NULL) : NULL;
}

/* ---- the whole ---- */

static int read_pairs(const char *text, struct hvd_found_ranks *found, struct hvd_err *err)
{
	size_t room = 1;

	for (const char *p = text; *p; p++)
		room += *p == ',';
	found->v = hvd_xcalloc(room, sizeof(*found->v));
	for (const char *p = text; *p; p += *p == ',') {
		unsigned rank;
		int pid, used = 0;

		if (sscanf(p, "%u:%d%n", &rank, &pid, &used) != 2 || pid <= 0 || (p[used] != ',' && p[used]))
			return hvd_err_set(err, HVD_E_USAGE, "'%s' is not a list of ranks and processes", text);
		found->v[found->n++].rank = (struct hvd_watched_rank){.rank = rank, .pid = pid};
		p += used;
	}
	return 0;
}

/* The number of this program's task in the step that it was started in. */
static unsigned task_number(void)
{
	const char *text = getenv("SLURM_PROCID");

	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* What follows the time. False: it is something else. */
static bool read_wishes(const char *text, bool *nccl, bool *no_stop)
{
	*nccl = strncmp(text, HVD_STACKS_NCCL, strlen(HVD_STACKS_NCCL)) == 0;
	text += *nccl ? strlen(HVD_STACKS_NCCL) : 0;
	*no_stop = strcmp(text, HVD_STACKS_NO_STOP) == 0;
	return *no_stop || !*text;
}

int hvd_stacks_run(const char *which, const struct hvd_log *log)
{
	hvd_cleanup_free char *text = hvd_xstrdup(which);
	struct hvd_found_ranks found = {0};
	struct hvd_err err = {0};
	char *at = strchr(text, '@'), *end = NULL, host[256] = "";
	double seconds = at ? strtod(at + 1, &end) : SECONDS;
	json_auto_t *answer = NULL, *said = NULL;
	struct nccl nccl = {0};
	bool in_step, with_nccl = false, no_stop = false;
	int rc = 0;

	if (at)
		*at = '\0';
	if (at && (!read_wishes(end, &with_nccl, &no_stop) || !(seconds > 0 && seconds <= HVD_STACKS_MAX_SECONDS)))
		rc = hvd_err_set(&err, HVD_E_USAGE, "'%s' is not a time", at + 1);
	in_step = *text && !strchr(text, ':');
	if (rc == 0)
		rc = in_step ? hvd_stack_find_step(text, &found, &err) : read_pairs(text, &found, &err);
	if (rc != 0) {
		hvd_log_err(log, &err);
		free(found.v);
		return hvd_err_status(&err);
	}
	if (with_nccl)
		begin_nccl(&found, !no_stop, seconds, &nccl);
	gethostname(host, sizeof(host) - 1);
	answer = json_pack("{s:s, s:o}", "host", getenv("SLURMD_NODENAME") ? getenv("SLURMD_NODENAME") : host, "ranks",
			   look_at_all(&found, !no_stop, seconds));
	free(found.v);
	said = end_nccl(&nccl);
	if (said)
		json_object_set(answer, "nccl", said);
	if (in_step)
		rc = hvd_stack_pieces_write(stdout, task_number(), answer);
	else
		rc = json_dumpf(answer, stdout, JSON_COMPACT);
	return rc == 0 && fflush(stdout) == 0 ? 0 : 1;
}
