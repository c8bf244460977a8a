/* SPDX-License-Identifier: Apache-2.0 */
#include "key.h"

#include "cleanup.h"
#include "digits.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static ssize_t read_all(int fd, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, (char *)buf + got, len - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int hvd_key_memfd(const struct hvd_key *key, struct hvd_err *err)
{
	hvd_cleanup_close int fd = memfd_create("key", MFD_CLOEXEC);

	if (fd < 0 || fchmod(fd, 0600) != 0 || write(fd, key->b, HVD_KEY_LEN) != (ssize_t)HVD_KEY_LEN)
		return hvd_err_sys(err, "cannot store the launch's key");
	return hvd_take_fd(&fd);
}

int hvd_key_read_fd(int fd, struct hvd_key *key, struct hvd_err *err)
{
	ssize_t n = pread(fd, key->b, HVD_KEY_LEN, 0);

	if (n < 0 && errno == ESPIPE)
		n = read_all(fd, key->b, HVD_KEY_LEN);
	if (n < 0)
		return hvd_err_sys(err, "cannot read the launch's key from descriptor %d", fd);
	if (n != HVD_KEY_LEN)
		return hvd_err_set(err, HVD_E_AUTH, "descriptor %d holds no key", fd);
	return 0;
}

int hvd_key_read_file(const char *path, struct hvd_key *key, struct hvd_err *err)
{
	char text[2 * HVD_KEY_LEN + 2];
	struct stat st = {0};
	ssize_t n;
	/* Not to wait for a writer, should it be a named pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return hvd_err_sys(err, "cannot open the key file %s", path);
	n = fstat(fd, &st);
	if (n == 0 && S_ISREG(st.st_mode))
		n = read_all(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0)
		return hvd_err_sys(err, "cannot read the key file %s", path);
	if (!S_ISREG(st.st_mode))
		return hvd_err_set(err, HVD_E_USAGE, "the key file %s is not a regular file", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077)) {
		hvd_err_set(err, HVD_E_AUTH, "the key file %s is open to others", path);
		return hvd_err_hint(err, "it must belong to you and have mode 0600: chmod 600 %s", path);
	}
	if (n == HVD_KEY_LEN) {
		memcpy(key->b, text, HVD_KEY_LEN);
		return 0;
	}
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (hvd_unhex(text, key->b, HVD_KEY_LEN) != 0) {
		hvd_err_set(err, HVD_E_USAGE, "the key file %s holds neither 64 hex digits nor 32 bytes", path);
		return hvd_err_hint(err, "create one: (umask 077; openssl rand -hex 32 > %s)", path);
	}
	return 0;
}

int hvd_key_make_file(const char *path, struct hvd_err *err)
{
	struct hvd_key key;
	char text[2 * HVD_KEY_LEN + 2];
	int fd, rc;

	if (hvd_random(key.b, sizeof(key.b), err) != 0)
		return -1;
	hvd_hex(key.b, sizeof(key.b), text);
	text[2 * HVD_KEY_LEN] = '\n';
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = fd >= 0 && write(fd, text, 2 * HVD_KEY_LEN + 1) == 2 * HVD_KEY_LEN + 1 ? 0 : -1;
	if (fd >= 0 && close(fd) != 0)
		rc = -1;
	explicit_bzero(&key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return rc == 0 ? 0 : hvd_err_sys(err, "cannot make the key file %s", path);
}
