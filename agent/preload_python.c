/* SPDX-License-Identifier: Apache-2.0 */
#include "preload_python.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/emitted.h"
#include "lib/frameworks/launch_marks.h"
#include "lib/process/interpreter.h"
#include "lib/process/own_program.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CUSTOMIZE "preload/sitecustomize.py" /* beside this program */
#define PREFIX    "HVD_PRELOAD_"

/* ---- messages ---- */

/* Read a pid, and the blank or zero byte behind it. */
static const char *read_pid(const char *text, char end, pid_t *pid)
{
	long n = 0;

	if (*text < '1' || *text > '9')
		return NULL;
	for (; *text >= '0' && *text <= '9' && n < INT_MAX / 10; text++)
		n = 10 * n + (*text - '0');
	*pid = (pid_t)n;
	return *text == end && n > 1 ? text + (end != '\0') : NULL;
}

int hvd_preload_answer_parse(const char *text, struct hvd_preload_answer *answer, struct hvd_err *err)
{
	static const char refused[] = "refused ", started[] = "started ", failed[] = "failed ";
	const char *rest;

	memset(answer, 0, sizeof(*answer));
	if (strcmp(text, "ready") == 0) {
		answer->word = HVD_PRELOAD_READY;
		return 0;
	}
	if (strncmp(text, refused, strlen(refused)) == 0) {
		answer->word = HVD_PRELOAD_REFUSED;
		answer->why = text + strlen(refused);
		return 0;
	}
	if (strncmp(text, failed, strlen(failed)) == 0) {
		answer->word = HVD_PRELOAD_FAILED;
		answer->why = text + strlen(failed);
		return 0;
	}
	if (strncmp(text, started, strlen(started)) == 0 &&
	    (rest = read_pid(text + strlen(started), ' ', &answer->pid)) && read_pid(rest, '\0', &answer->group)) {
		answer->word = HVD_PRELOAD_STARTED;
		return 0;
	}
	return hvd_err_set(err, HVD_E_PROTO, "it has sent \"%.100s\"", text);
}

static char *list_cpus(const cpu_set_t *cpus)
{
	struct hvd_strv numbers = {0};
	char *list;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, cpus))
			hvd_strv_addf(&numbers, "%d", cpu);
	list = hvd_strv_join(&numbers, ",");
	hvd_strv_free(&numbers);
	return list;
}

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, bytes, n);

		if (written < 0 && errno != EINTR)
			return -1;
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		}
	}
	return 0;
}

/* A memory file with an environment. -1 with err set. */
static int write_environ(char *const *envp, struct hvd_err *err)
{
	hvd_cleanup_close int fd = memfd_create("hvd-preload", MFD_CLOEXEC);
	int rc = fd < 0 ? -1 : 0;

	for (; rc == 0 && *envp; envp++)
		rc = write_all(fd, *envp, strlen(*envp) + 1);
	if (rc != 0)
		return hvd_err_sys(err, "cannot write a memory file");
	return hvd_take_fd(&fd);
}

int hvd_preload_request(const cpu_set_t *cpus, char *const *envp, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv block = {0};
	hvd_cleanup_free char *list = cpus ? list_cpus(cpus) : hvd_xstrdup("");

	hvd_strv_add(&block, list);
	hvd_strv_add_all(&block, envp);
	return write_environ(block.v, err);
}

int hvd_preload_send(int socket, const int fds[HVD_PRELOAD_FDS])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(HVD_PRELOAD_FDS * sizeof(int))];
	} control = {.room = {0}};
	char byte = 'f';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(HVD_PRELOAD_FDS * sizeof(int));
	memcpy(CMSG_DATA(head), fds, HVD_PRELOAD_FDS * sizeof(int));
	return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* ---- the process ---- */

/* Variables that Python, or a library that it loads, reads before the program begins. */
static bool read_at_start(const char *name)
{
	return strcmp(name, "OMP_NUM_THREADS") == 0 || strncmp(name, "PYTHON", 6) == 0;
}

/* The environment in which the modules are imported: the rank's, without what tells it from other ranks. */
static void common_env(char *const *envp, struct hvd_strv *env)
{
	hvd_strv_free(env);
	hvd_strv_add_all(env, envp);
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (!read_at_start(e->name))
			hvd_env_unset(env, e->name);
	hvd_env_unset(env, HVD_LAUNCH_MARKS_ENV);
	hvd_env_unset(env, "TORCHELASTIC_ERROR_FILE");
}

void hvd_preload_python_keep(struct hvd_preload_python *python, const struct hvd_spawn *rank)
{
	python->bound = rank->cpus;
	if (rank->cpus)
		python->cpus = *rank->cpus;
	python->ignore_ends = rank->ignore_ends;
	python->nofile = rank->nofile;
	common_env(rank->envp, &python->env);
	/* This runs nothing; it is sitecustomize.py that finds the command behind it (there). */
	hvd_strv_free(&python->argv);
	hvd_strv_add(&python->argv, rank->argv[0]);
	hvd_python_options(rank->argv, &python->argv);
	hvd_strv_add(&python->argv, "-c");
	hvd_strv_add(&python->argv, "");
	hvd_strv_add_all(&python->argv, rank->argv);
}

void hvd_preload_python_clear(struct hvd_preload_python *python)
{
	hvd_strv_free(&python->argv);
	hvd_strv_free(&python->env);
}

bool hvd_preload_python_fits(const struct hvd_preload_python *python, const struct hvd_spawn *rank)
{
	const char *has = hvd_env_get(&python->env, "OMP_NUM_THREADS");
	const char *wants = hvd_envp_get(rank->envp, "OMP_NUM_THREADS");

	return !has == !wants && (!has || strcmp(has, wants) == 0);
}

const char *hvd_preload_python_obstacle(const struct hvd_spawn *rank)
{
	/* OpenMP's libraries read these when they are loaded, with the CPUs that the process has then. */
	static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};

	for (size_t i = 0; rank->cpus && i < sizeof(names) / sizeof(names[0]); i++)
		if (hvd_envp_get(rank->envp, names[i]))
			return names[i];
	return NULL;
}

/* The folder of sitecustomize.py. The caller frees it. */
static char *find_folder(struct hvd_err *err)
{
	hvd_cleanup_free char *file = hvd_own_program(CUSTOMIZE, HVD_LIBEXECDIR "/" CUSTOMIZE);

	if (access(file, R_OK) != 0) {
		hvd_err_sys(err, "cannot read %s", file);
		return NULL;
	}
	return hvd_xstrndup(file, (size_t)(strrchr(file, '/') - file));
}

static void add_folder(struct hvd_strv *env, const char *folder)
{
	const char *path = hvd_env_get(env, "PYTHONPATH");
	hvd_cleanup_free char *all = hvd_xasprintf("%s%s%s", folder, path && *path ? ":" : "", path ? path : "");

	hvd_env_set(env, "PYTHONPATH", all);
}

static pid_t spawn(const struct hvd_preload_python *python, const char *folder, const char *modules, int key_fd,
		   int socket, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
	hvd_cleanup_close int block = write_environ(python->env.v, err);
	struct hvd_spawn sp = {.path = python->argv.v[0],
			       .argv = python->argv.v,
			       .parent_death_signal = SIGKILL,
			       .new_group = 1,
			       .ignore_ends = python->ignore_ends,
			       .ignore_user = 1,
			       .nofile = python->nofile,
			       .cpus = python->bound ? &python->cpus : NULL};

	if (block < 0)
		return -1;
	hvd_strv_add_all(&env, python->env.v);
	add_folder(&env, folder);
	hvd_env_set(&env, PREFIX "MODULES", modules);
	hvd_env_setf(&env, PREFIX "FD", "%d", socket);
	hvd_env_setf(&env, PREFIX "ENVIRON_FD", "%d", block);
	sp.envp = env.v;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, STDERR_FILENO, STDOUT_FILENO);
	hvd_spawn_fd(&sp, socket, socket);
	hvd_spawn_fd(&sp, block, block);
	if (key_fd)
		hvd_spawn_fd(&sp, key_fd, key_fd);
	return hvd_spawn(&sp, err);
}

pid_t hvd_preload_python_start(const struct hvd_preload_python *python, const char *modules, int key_fd, int *socket,
			       struct hvd_err *err)
{
	hvd_cleanup_free char *folder = find_folder(err);
	int ends[2];
	pid_t pid;

	if (!folder)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return hvd_err_sys(err, "cannot make a socket");
	pid = spawn(python, folder, modules, key_fd, ends[1], err);
	close(ends[1]);
	if (pid < 0)
		close(ends[0]);
	else
		*socket = ends[0];
	return pid;
}
