/* SPDX-License-Identifier: Apache-2.0 */
#include "crash_info.h"

#include "lib/base/tail.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_AT_ONCE 65536
/* The file is read so often at the end of a rank; a child of the rank may go on writing. */
#define READS_MOST 32

struct hvd_crash_info {
	struct hvd_rank_error *error;
	struct hvd_tail output; /* zeroed: not all of its output passes here */
	bool elsewhere;         /* another process has started the rank */
	char *cgroup;           /* of a rank that another process has started; NULL = not known */
	struct hvd_oom_kills before;
	int file; /* both ends of a pipe in one descriptor, so that it has never ended; -1 = none */
	char path[64];
	struct event *written;
};

/* Returns false if there is no more to read now. */
static bool read_file(struct hvd_crash_info *crash_info)
{
	char buf[READ_AT_ONCE];
	ssize_t n = crash_info->file >= 0 ? read(crash_info->file, buf, sizeof(buf)) : -1;

	if (n > 0)
		hvd_rank_error_file(crash_info->error, buf, (size_t)n, hvd_now());
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

struct hvd_crash_info *hvd_crash_info_create(struct event_base *base, unsigned lines, const struct hvd_oom_kills *kills)
{
	struct hvd_crash_info *crash_info = hvd_xcalloc(1, sizeof(*crash_info));

	crash_info->error = hvd_rank_error_create(lines);
	crash_info->before = *kills;
	crash_info->file = open_file();
	if (crash_info->file < 0)
		return crash_info;
	crash_info->written = hvd_event_watch(base, crash_info->file, EV_READ | EV_PERSIST, on_written, crash_info);
	snprintf(crash_info->path, sizeof(crash_info->path), HVD_RANK_ERROR_FILE_FORMAT, (int)getpid(),
		 crash_info->file);
	return crash_info;
}

void hvd_crash_info_destroy(struct hvd_crash_info *crash_info)
{
	if (!crash_info)
		return;
	hvd_event_unwatch(&crash_info->written);
	if (crash_info->file >= 0)
		close(crash_info->file);
	hvd_rank_error_destroy(crash_info->error);
	hvd_tail_clear(&crash_info->output);
	free(crash_info->cgroup);
	free(crash_info);
}

const char *hvd_crash_info_file(const struct hvd_crash_info *crash_info)
{
	return crash_info->file >= 0 ? crash_info->path : NULL;
}

static struct hvd_oom_kills oom_kills(const struct hvd_crash_info *crash_info)
{
	return crash_info->elsewhere ? hvd_oom_kills_in(crash_info->cgroup) : hvd_oom_kills(0);
}

void hvd_crash_info_began(struct hvd_crash_info *crash_info, pid_t pid)
{
	free(crash_info->cgroup);
	crash_info->elsewhere = true;
	crash_info->cgroup = hvd_oom_cgroup(pid);
	crash_info->before = hvd_oom_kills_soon_after(&crash_info->before, crash_info->cgroup);
}

void hvd_crash_info_stderr(struct hvd_crash_info *crash_info, const char *bytes, size_t n, hvd_time until)
{
	hvd_rank_error_stderr(crash_info->error, bytes, n, until);
}

void hvd_crash_info_output(struct hvd_crash_info *crash_info, const char *bytes, size_t n)
{
	if (!crash_info->output.ring)
		hvd_tail_init(&crash_info->output, HVD_RANK_END_TAIL);
	hvd_tail_add(&crash_info->output, bytes, n);
}

char *hvd_crash_info_lines(const struct hvd_crash_info *crash_info)
{
	return crash_info->output.ring ? hvd_tail_lines(&crash_info->output, HVD_LAST_LINES)
				       : hvd_rank_error_lines(crash_info->error, HVD_LAST_LINES);
}

void hvd_crash_info_end(struct hvd_crash_info *crash_info, struct hvd_rank_end *end)
{
	int reads = READS_MOST;

	if (!end->ended_at)
		end->ended_at = hvd_now();
	while (reads-- > 0 && read_file(crash_info))
		;
	hvd_rank_error_fill(crash_info->error, end);
	if (hvd_rank_end_may_be_oom(end)) {
		struct hvd_oom_kills after = oom_kills(crash_info);

		hvd_rank_end_oom(end, hvd_oom_between(&crash_info->before, &after));
	}
}
