/* SPDX-License-Identifier: Apache-2.0 */
#include "readfile.h"

#include "xalloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err)
{
	FILE *f = fopen(path, "re");
	size_t n = 0, room = 4096, got;
	char *text;

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
	if (ferror(f))
		hvd_err_sys(err, "cannot read %s %s", what, path);
	else if (n > max)
		hvd_err_set(err, HVD_E_LIMIT, "%s %s is larger than %zu bytes", what, path, max);
	if (ferror(f) || n > max) {
		free(text);
		text = NULL;
	} else {
		text[n] = '\0';
		*len = n;
	}
	fclose(f);
	return text;
}

bool hvd_read_start(const char *path, char *text, size_t most)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, text, most);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}
