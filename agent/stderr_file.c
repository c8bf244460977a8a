/* SPDX-License-Identifier: Apache-2.0 */
#include "stderr_file.h"

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* slurmstepd waits for 0.3 s until the end of a task is acknowledged. */
#define SECONDS 0.15

/* A link of /proc, which is the file itself whatever its name is by now. */
static void link_of(const struct hvd_stderr_file *file, char link[40])
{
	snprintf(link, 40, "/proc/self/fd/%d", file->fd);
}

void hvd_stderr_file_open(struct hvd_stderr_file *file, int fds[2], int64_t from)
{
	char link[40], path[PATH_MAX];
	ssize_t n;

	*file = (struct hvd_stderr_file){.fd = fds[0], .from = from > 0 ? from : 0};
	fds[0] = -1;
	close(fds[1]);
	fds[1] = -1;
	link_of(file, link);
	n = readlink(link, path, sizeof(path));
	file->path = n > 0 ? hvd_xstrndup(path, (size_t)n) : hvd_xstrdup("a file");
}

void hvd_stderr_file_close(struct hvd_stderr_file *file)
{
	if (!file->path)
		return;
	close(file->fd);
	free(file->path);
	*file = (struct hvd_stderr_file){0};
}

/* The task's descriptor is for writing. */
static void read_end(int out, void *arg)
{
	static char text[HVD_STDERR_FILE_BYTES];
	const struct hvd_stderr_file *file = arg;
	struct stat st;
	char link[40];
	off_t at;
	ssize_t n;
	int fd;

	link_of(file, link);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		_exit(1);
	at = st.st_size > (off_t)sizeof(text) ? st.st_size - (off_t)sizeof(text) : 0;
	n = pread(fd, text, sizeof(text), at > file->from ? at : (off_t)file->from);
	for (ssize_t done = 0, w; done < n; done += w)
		if ((w = write(out, text + done, (size_t)(n - done))) <= 0)
			_exit(1);
}

char *hvd_stderr_file_end(const struct hvd_stderr_file *file, size_t *len, bool *hangs)
{
	struct hvd_err err = {0};
	int status = 0;
	char *text = hvd_call(read_end, (void *)file, "the look at a file", HVD_STDERR_FILE_BYTES,
			      hvd_deadline_in(SECONDS), len, &status, &err);

	*hangs = !text && err.code == HVD_E_TIMEOUT;
	if (text && status == 0 && *len > 0)
		return text;
	free(text);
	return NULL;
}
