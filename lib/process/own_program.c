/* SPDX-License-Identifier: Apache-2.0 */
#include "own_program.h"

#include "lib/base/xalloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *hvd_own_program(const char *relative, const char *installed)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *path, *slash;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		*slash = '\0';
		path = hvd_xasprintf("%s/%s", self, relative);
		if (access(path, R_OK) == 0)
			return path;
		free(path);
	}
	return hvd_xstrdup(installed);
}
