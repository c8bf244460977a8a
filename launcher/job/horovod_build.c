/* SPDX-License-Identifier: Apache-2.0 */
#include "horovod_build.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the compiler writes the names of Horovod's classes into a library, stripped or not, that has them
 * (horovod/common/gloo/gloo_controller.h, horovod/common/mpi/mpi_controller.h). */
#define GLOO "14GlooControllerE"
#define MPI  "13MPIControllerE"

struct build {
	bool gloo, mpi;
	char *folder; /* of the package, of the first library that was found; NULL: none was */
};

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The path of the Python that the command begins with; NULL: it begins with something else. The caller frees it. */
static char *python_of(const struct hvd_launch *launch)
{
	const char *word = launch->spec->command ? launch->spec->command[0] : NULL;
	const char *slash = word ? strrchr(word, '/') : NULL, *name = slash ? slash + 1 : word;
	const char *path = hvd_envp_get(launch->envp, "PATH");

	if (!name || strncmp(name, "python", 6) != 0 || name[6 + strspn(name + 6, "0123456789.")])
		return NULL;
	if (slash)
		return hvd_xstrdup(word);
	while (path && *path) {
		size_t len = strcspn(path, ":");
		char *file = hvd_xasprintf("%.*s/%s", (int)len, path, name);

		if (access(file, X_OK) == 0 && is_file(file))
			return file;
		free(file);
		path += len + (path[len] == ':');
	}
	return NULL;
}

static void look_into(const char *library, struct build *build)
{
	int fd = open(library, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	void *data = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return;
	build->gloo |= memmem(data, (size_t)st.st_size, GLOO, strlen(GLOO)) != NULL;
	build->mpi |= memmem(data, (size_t)st.st_size, MPI, strlen(MPI)) != NULL;
	munmap(data, (size_t)st.st_size);
	if (!build->folder)
		build->folder = hvd_xstrndup(library, (size_t)(strstr(library, "/horovod/") - library) + 8);
}

/* Look for Horovod in the folders that match the pattern. */
static void look_in(struct build *build, const char *pattern)
{
	hvd_cleanup_free char *libraries = hvd_xasprintf("%s/horovod/*/mpi_lib*.so", pattern);
	glob_t found;

	if (glob(libraries, GLOB_NOSORT | GLOB_BRACE, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			look_into(found.gl_pathv[i], build);
	globfree(&found);
}

/* Look where a Python of this path has its packages, see Python's site.py. */
static void look_beside(struct build *build, const char *python)
{
	const char *slash = strrchr(python, '/');
	hvd_cleanup_free char *folder = hvd_xstrndup(python, (size_t)(slash - python));
	hvd_cleanup_free char *site = hvd_xasprintf("%s/../lib/python3*/{site,dist}-packages", folder);
	hvd_cleanup_free char *local = hvd_xasprintf("%s/../local/lib/python3*/dist-packages", folder);

	look_in(build, site);
	look_in(build, local);
}

static void look_everywhere(struct build *build, const char *python, char *const *envp)
{
	const char *paths = hvd_envp_get(envp, "PYTHONPATH"), *home = hvd_envp_get(envp, "HOME");
	hvd_cleanup_free char *venv = hvd_xasprintf("%.*s/../pyvenv.cfg", (int)(strrchr(python, '/') - python), python);
	hvd_cleanup_free char *own = home ? hvd_xasprintf("%s/.local/lib/python3*/site-packages", home) : NULL;
	hvd_cleanup_free char *real = is_file(venv) ? NULL : realpath(python, NULL);

	while (paths && *paths) {
		size_t len = strcspn(paths, ":");
		hvd_cleanup_free char *folder = hvd_xstrndup(paths, len);

		if (len)
			look_in(build, folder);
		paths += len + (paths[len] == ':');
	}
	look_beside(build, python);
	if (real && strcmp(real, python) != 0)
		look_beside(build, real);
	if (own && !is_file(venv))
		look_in(build, own);
}

void hvd_horovod_build_check(const struct hvd_launch *launch)
{
	const struct hvd_launch_spec *spec = launch->spec;
	hvd_cleanup_free char *python = NULL;
	struct build build = {0};

	if (spec->selftest || spec->mpi.on || !(spec->frameworks & HVD_FW_HOROVOD) ||
	    (spec->elastic.on && spec->max_restarts >= 0))
		return;
	python = python_of(launch);
	if (python)
		look_everywhere(&build, python, launch->envp);
	if (build.folder && !build.gloo && spec->elastic.on)
		hvd_warn(launch->log,
			 "%s was built without Gloo, which elastic jobs of Horovod need: install it again with "
			 "HOROVOD_WITH_GLOO=1",
			 build.folder);
	else if (build.folder && !build.gloo && build.mpi)
		hvd_warn(launch->log,
			 "%s was built for MPI only, but its ranks would use Gloo: --mpi starts them with mpirun",
			 build.folder);
	free(build.folder);
}
