/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_notes.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/interpreter.h"
#include "lib/protocol/munge.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* When a wait for Slurm is worth a note. */
#define NOTE_SECONDS 2
/* As the compiler writes the names of Horovod's classes into a library, stripped or not, that has them
 * (horovod/common/gloo/gloo_controller.h, horovod/common/mpi/mpi_controller.h). */
#define GLOO "14GlooControllerE"
#define MPI  "13MPIControllerE"

/* ---- where the ranks run, and what they read ---- */

/* If Slurm is installed and the user chose neither Slurm nor this host, report that the ranks run on this host. */
static void say_where(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	char host[256] = "this host";

	if (launch->spec->hosts.said || launch->spec->output.quiet || !(backend->loopback || launch->one_machine) ||
	    hvd_scheduler_of(launch->envp) != &hvd_scheduler_none || !hvd_launch_installed(launch, "srun"))
		return;
	gethostname(host, sizeof(host) - 1);
	hvd_info(launch->log,
		 "the ranks run on %s, outside of Slurm, because no srun option is given (-n in place of -np, or "
		 "--launcher=srun, starts them through Slurm; --launcher=fork starts them here without this message)",
		 host);
}

/* The command takes a script from standard input, which not all ranks get: the others run nothing, and end well. */
static void say_input(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const char *reader = spec->selftest || spec->programs ? NULL : hvd_interpreter_of_stdin(spec->command);
	const bool one = !backend->one_srun || (spec->as_horovodrun && !spec->srun.input && !spec->srun.pty);

	if (!reader || (!spec->elastic.on && (!one || isatty(STDIN_FILENO) || launch->alloc.slots == 1)))
		return;
	if (spec->elastic.on)
		hvd_warn(launch->log,
			 "%s reads its program from standard input, which ranks of an elastic job do not get: "
			 "they run nothing",
			 reader);
	else
		hvd_warn(launch->log,
			 "%s reads its program from standard input, which only rank 0 gets: all others run "
			 "nothing, and end with status 0",
			 reader);
	hvd_info(launch->log, "put the program into a file, and write %s FILE%s", reader,
		 !spec->elastic.on && (backend->one_srun || hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm)
			 ? "; where srun starts the ranks, --input=all gives it to all of them"
			 : "");
}

/* ---- the Horovod of the user's Python ---- */

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

/* Horovod is not imported, which takes seconds: the file system is searched for the package where the Python that the
 * command names looks for it, and its libraries for the names of Horovod's classes. Where a command begins with something
 * else than Python, or the ranks have another file system, nothing is known, and nothing is said. */
static void say_horovod(const struct hvd_launch *launch)
{
	const struct hvd_launch_spec *spec = launch->spec;
	hvd_cleanup_free char *python = NULL;
	struct build build = {0};

	if (spec->selftest || spec->programs || spec->mpi.on || !(spec->frameworks & HVD_FW_HOROVOD) ||
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

void hvd_launch_notes(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	say_where(launch, backend);
	say_input(launch, backend);
	say_horovod(launch);
}

/* ---- waiting for Slurm ---- */

struct hvd_wait_note {
	const struct hvd_log *log;
	pthread_t thread;
	pthread_mutex_t lock; /* for `over` */
	pthread_cond_t wake;
	bool over;
};

static void *run(void *arg)
{
	struct hvd_wait_note *note = arg;
	const hvd_time end = hvd_deadline_in(NOTE_SECONDS);
	const struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	bool over;

	pthread_mutex_lock(&note->lock);
	while (!note->over && pthread_cond_timedwait(&note->wake, &note->lock, &until) == 0)
		;
	over = note->over;
	pthread_mutex_unlock(&note->lock);
	if (!over)
		hvd_info(note->log, "still waiting for Slurm: %s",
			 hvd_munge_listens(NULL) ? "its controller does not answer (scontrol ping asks it, too)"
						 : "munged does not run on this host");
	return NULL;
}

struct hvd_wait_note *hvd_wait_note_begin(const struct hvd_log *log)
{
	struct hvd_wait_note *note = hvd_xcalloc(1, sizeof(*note));
	pthread_condattr_t attr;
	sigset_t all, before;
	int rc;

	note->log = log;
	pthread_mutex_init(&note->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&note->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&note->thread, NULL, run, note);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return note;
	free(note);
	return NULL;
}

void hvd_wait_note_end(struct hvd_wait_note *note)
{
	if (!note)
		return;
	pthread_mutex_lock(&note->lock);
	note->over = true;
	pthread_cond_signal(&note->wake);
	pthread_mutex_unlock(&note->lock);
	pthread_join(note->thread, NULL);
	pthread_cond_destroy(&note->wake);
	pthread_mutex_destroy(&note->lock);
	free(note);
}
