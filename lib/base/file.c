/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include "cleanup.h"
#include "deadline.h"
#include "xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that vanishes when it is to be opened, and is there again when it is to be made: so often it is tried. */
#define TRIES 5
/* How long a reader of an entry of /dev may take nothing. */
#define READER_SECONDS 5.0

/* ---- reading ---- */

char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err)
{
	hvd_cleanup_fclose FILE *f = fopen(path, "re");
	hvd_cleanup_free char *text = NULL;
	size_t n = 0, room = 4096, got;

	*len = 0;
	if (!f) {
		hvd_err_sys(err, "cannot open %s %s", what, path);
		return NULL;
	}
	text = hvd_xcalloc(room, 1);
	do {
		if (room - n < 2)
			text = hvd_xrealloc(text, room *= 2, 1);
		got = fread(text + n, 1, room - n - 1, f);
		n += got;
	} while (got > 0 && n <= max);
	if (ferror(f)) {
		hvd_err_sys(err, "cannot read %s %s", what, path);
		return NULL;
	}
	if (n > max) {
		hvd_err_set(err, HVD_E_LIMIT, "%s %s is larger than %zu bytes", what, path, max);
		return NULL;
	}
	text[n] = '\0';
	*len = n;
	return hvd_take_ptr(&text);
}

bool hvd_read_start(const char *path, char *text, size_t most)
{
	hvd_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, text, most);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* ---- writing ---- */

static bool of_the_system(const char *path)
{
	return strncmp(path, "/dev/", 5) == 0 && (!strchr(path + 5, '/') || strncmp(path + 5, "fd/", 3) == 0);
}

static int reason(struct hvd_err *err)
{
	if (errno == ELOOP)
		return hvd_err_set(err, HVD_E_SYS, "it is a symbolic link");
	if (errno == ENXIO)
		return hvd_err_set(err, HVD_E_SYS, "it is a pipe or a socket that nobody reads");
	return hvd_err_set(err, HVD_E_SYS, "%s", strerror(errno));
}

/* May a file that was there be written? */
static int check(int fd, bool pipe, struct hvd_err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return reason(err);
	if (!S_ISREG(st.st_mode) && !(pipe && S_ISFIFO(st.st_mode)))
		return hvd_err_set(err, HVD_E_SYS, "it is not a regular file");
	if (st.st_uid != geteuid())
		return hvd_err_set(err, HVD_E_SYS, "it belongs to another user (%u)", (unsigned)st.st_uid);
	return 0;
}

int hvd_open_written(int dir, const char *path, int flags, bool pipe, mode_t mode, struct hvd_err *err)
{
	const int how = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (flags & O_APPEND);
	const bool system = of_the_system(path);
	hvd_cleanup_close int fd = system ? open(path, how) : -1;

	if (system)
		return fd < 0 ? reason(err) : hvd_take_fd(&fd);
	for (int i = 0; i < TRIES && fd < 0; i++) {
		fd = openat(dir, path, how | O_NOFOLLOW | O_CREAT | O_EXCL, mode);
		if (fd >= 0)
			return hvd_take_fd(&fd);
		if (errno != EEXIST || (flags & O_EXCL))
			break;
		fd = openat(dir, path, how | O_NOFOLLOW);
		if (fd < 0 && errno != ENOENT)
			break;
	}
	if (fd < 0)
		return reason(err);
	if (check(fd, pipe, err) != 0)
		return -1;
	if ((flags & O_TRUNC) && ftruncate(fd, 0) != 0 && errno != EINVAL) /* EINVAL: a pipe */
		return reason(err);
	return hvd_take_fd(&fd);
}

int hvd_open_made_dir(int dir, const char *name)
{
	if (mkdirat(dir, name, 0777) != 0 && errno != EEXIST)
		return -1;
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int write_all(int fd, const char *text, size_t len)
{
	hvd_time deadline = hvd_deadline_in(READER_SECONDS);

	while (len > 0) {
		struct pollfd pfd = {.fd = fd, .events = POLLOUT};
		ssize_t n = write(fd, text, len);

		if (n > 0) {
			text += n;
			len -= (size_t)n;
			deadline = hvd_deadline_in(READER_SECONDS);
		} else if (n < 0 && errno == EAGAIN && hvd_left(deadline) > 0) {
			poll(&pfd, 1, hvd_left_ms(deadline));
		} else if (n == 0 || errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

int hvd_write_file(const char *path, const char *what, const char *text, size_t len, int flags, mode_t mode,
		   struct hvd_err *err)
{
	int fd = hvd_open_written(AT_FDCWD, path, flags | O_TRUNC, false, mode, err);
	int rc;

	if (fd < 0)
		return hvd_err_prefix(err, "cannot write %s %s", what, path);
	rc = write_all(fd, text, len);
	if (rc != 0)
		hvd_err_sys(err, "cannot write %s %s", what, path);
	if (close(fd) != 0 && rc == 0)
		rc = hvd_err_sys(err, "cannot write %s %s", what, path);
	return rc;
}

int hvd_replace_file(const char *path, const char *what, const char *text, size_t len, struct hvd_err *err)
{
	return hvd_replace_file_mode(path, what, text, len, 0600, err);
}

int hvd_replace_file_mode(const char *path, const char *what, const char *text, size_t len, mode_t mode,
			  struct hvd_err *err)
{
	hvd_cleanup_free char *temporary = hvd_xasprintf("%s.XXXXXX", path);
	int fd = mkostemp(temporary, O_CLOEXEC), error = errno;
	bool made = fd >= 0, ok = made && fchmod(fd, mode) == 0 && write_all(fd, text, len) == 0;

	if (made && !ok)
		error = errno;
	if (made && close(fd) != 0 && ok) {
		error = errno;
		ok = false;
	}
	if (ok && rename(temporary, path) == 0)
		return 0;
	if (ok)
		error = errno;
	if (made)
		unlink(temporary);
	errno = error;
	return hvd_err_sys(err, "cannot write %s %s", what, path);
}
