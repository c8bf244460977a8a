/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_token.h"

#include "lib/base/xalloc.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST 16
#define MOST  1024

static int bad_token(struct hvd_err *err, const char *path, const char *why)
{
	hvd_err_set(err, HVD_E_USAGE, "--metrics-token-file %.200s %s", path, why);
	return hvd_err_hint(err, "make one that only you can read: (umask 077; openssl rand -hex 32 > FILE)");
}

char *hvd_metrics_token_read(const char *path, struct hvd_err *err)
{
	char text[MOST + 2];
	/* Not to wait for a writer, should it be a named pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st = {0};
	ssize_t n = -1;
	size_t len = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		bad_token(err, path, "is no file that can be read");
		return NULL;
	}
	if (st.st_uid != geteuid() || (st.st_mode & 077)) {
		bad_token(err, path, "is open to others: it must belong to you and have mode 0600");
		return NULL;
	}
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	while (text[len] > ' ' && text[len] < 0x7f)
		len++;
	if (!text[len] && len >= LEAST && len <= MOST)
		return hvd_xstrdup(text);
	bad_token(err, path, "holds no token: 16 to 1024 visible characters without blanks");
	return NULL;
}
