/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/job/rank_error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_AT_ONCE 65536
/* The file is read so often at the end of a rank; a child of the rank may go on writing. */
#define READS_MOST 32

struct hvd_evidence {
	struct hvd_rank_error *error;
	bool elsewhere; /* another process has started the rank, … */
	char *cgroup;   /* … in this cgroup; NULL = not known */
	struct hvd_oom_kills before;
	int file; /* both ends of a pipe in one descriptor, so that it has never ended; -1 = none */
	char path[64];
	struct event *written;
};

/* Returns false if there is no more to read now. */
static bool read_file(struct hvd_evidence *evidence)
{
	char buf[READ_AT_ONCE];
	ssize_t n = evidence->file >= 0 ? read(evidence->file, buf, sizeof(buf)) : -1;

	if (n > 0)
		hvd_rank_error_file(evidence->error, buf, (size_t)n, hvd_wall_now());
	return n > 0;
}

static void on_written(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_file(arg);
}

static int open_file(void)
{
	char path[64];
	int ends[2], fd, kept;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	snprintf(path, sizeof(path), HVD_RANK_ERROR_FILE_FORMAT, (int)getpid(), ends[0]);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	close(ends[0]);
	close(ends[1]);
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return kept;
}

struct hvd_evidence *hvd_evidence_create(struct event_base *base, unsigned lines, const struct hvd_oom_kills *kills)
{
	struct hvd_evidence *evidence = hvd_xcalloc(1, sizeof(*evidence));

	evidence->error = hvd_rank_error_create(lines);
	evidence->before = *kills;
	evidence->file = open_file();
	if (evidence->file < 0)
		return evidence;
	evidence->written = event_new(base, evidence->file, EV_READ | EV_PERSIST, on_written, evidence);
	event_add(evidence->written, NULL);
	snprintf(evidence->path, sizeof(evidence->path), HVD_RANK_ERROR_FILE_FORMAT, (int)getpid(), evidence->file);
	return evidence;
}

void hvd_evidence_destroy(struct hvd_evidence *evidence)
{
	if (!evidence)
		return;
	if (evidence->written)
		event_free(evidence->written);
	if (evidence->file >= 0)
		close(evidence->file);
	hvd_rank_error_destroy(evidence->error);
	free(evidence->cgroup);
	free(evidence);
}

const char *hvd_evidence_file(const struct hvd_evidence *evidence)
{
	return evidence->file >= 0 ? evidence->path : NULL;
}

static struct hvd_oom_kills oom_kills(const struct hvd_evidence *evidence)
{
	return evidence->elsewhere ? hvd_oom_kills_in(evidence->cgroup) : hvd_oom_kills(0);
}

void hvd_evidence_began(struct hvd_evidence *evidence, pid_t pid)
{
	free(evidence->cgroup);
	evidence->elsewhere = true;
	evidence->cgroup = hvd_oom_cgroup(pid);
	evidence->before = hvd_oom_kills_soon_after(&evidence->before, evidence->cgroup);
}

void hvd_evidence_stderr(struct hvd_evidence *evidence, const char *bytes, size_t n)
{
	hvd_rank_error_stderr(evidence->error, bytes, n, hvd_wall_now());
}

void hvd_evidence_end(struct hvd_evidence *evidence, struct hvd_rank_end *end)
{
	int reads = READS_MOST;

	if (!end->ended_at)
		end->ended_at = hvd_wall_now();
	while (reads-- > 0 && read_file(evidence))
		;
	hvd_rank_error_fill(evidence->error, end);
	if (hvd_rank_end_may_be_oom(end)) {
		struct hvd_oom_kills after = oom_kills(evidence);

		hvd_rank_end_oom(end, hvd_oom_between(&evidence->before, &after));
	}
}
