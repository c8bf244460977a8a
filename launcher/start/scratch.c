/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include "lib/base/file.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long hvd_scratch_destroy() waits for the remover. */
#define REMOVE_SECONDS 5.0

struct hvd_scratch {
	char *dir, *path;
	int alive; /* our end of the remover's pipe */
	pid_t remover;
};

/* The remover reads its stdin until end of file. It ignores the signals by which users and schedulers end a launch. */
static int start_remover(struct hvd_scratch *scratch, char *const *envp, struct hvd_err *err)
{
	const char *const argv[] = {"sh", "-c", "read -r end; rm -rf -- \"$1\"", "hvdrun-remover", scratch->dir, NULL};
	struct hvd_spawn spawn = {.path = "/bin/sh",
				  .argv = (char *const *)argv,
				  .envp = envp,
				  .new_session = 1,
				  .ignore_ends = 1,
				  .ignore_user = 1};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	scratch->alive = fds[1];
	hvd_spawn_fd(&spawn, fds[0], STDIN_FILENO);
	hvd_spawn_fd(&spawn, -1, STDOUT_FILENO);
	hvd_spawn_fd(&spawn, -1, STDERR_FILENO);
	scratch->remover = hvd_spawn(&spawn, err);
	close(fds[0]);
	return scratch->remover < 0 ? -1 : 0;
}

struct hvd_scratch *hvd_scratch_create(char *const *envp, struct hvd_err *err)
{
	struct hvd_scratch *scratch = hvd_xcalloc(1, sizeof(*scratch));
	const char *tmp = hvd_envp_get(envp, "TMPDIR");

	scratch->alive = -1;
	scratch->remover = -1;
	scratch->dir = hvd_xasprintf("%s/hvdrun-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	if (!mkdtemp(scratch->dir)) {
		hvd_err_sys(err, "cannot create the folder %s", scratch->dir);
		hvd_err_hint(err, "set TMPDIR to a folder in which you can write");
		free(scratch->dir);
		scratch->dir = NULL;
	} else if (start_remover(scratch, envp, err) == 0) {
		return scratch;
	}
	hvd_scratch_destroy(scratch);
	return NULL;
}

const char *hvd_scratch_file(struct hvd_scratch *scratch, const char *name, const char *text, struct hvd_err *err)
{
	free(scratch->path);
	scratch->path = hvd_xasprintf("%s/%s", scratch->dir, name);
	return hvd_write_file(scratch->path, "the file", text, strlen(text), O_EXCL, 0600, err) == 0 ? scratch->path
												     : NULL;
}

void hvd_scratch_destroy(struct hvd_scratch *scratch)
{
	if (!scratch)
		return;
	if (scratch->alive >= 0)
		close(scratch->alive);
	if (scratch->remover > 0)
		hvd_wait(scratch->remover, hvd_deadline_in(REMOVE_SECONDS), NULL, NULL);
	else if (scratch->dir)
		rmdir(scratch->dir);
	free(scratch->path);
	free(scratch->dir);
	free(scratch);
}
