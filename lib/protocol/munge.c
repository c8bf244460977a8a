/* SPDX-License-Identifier: Apache-2.0 */
#include "munge.h"

#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Look a function up; `function` is the address of a pointer to it. ISO C has no cast from dlsym()'s object pointer to
 * a function pointer, but POSIX gives both the same representation, so the bytes are copied. */
static int find(void *library, const char *name, void *function)
{
	void *at = dlsym(library, name);

	memcpy(function, &at, sizeof(at));
	return at ? 0 : -1;
}

static int hint(struct hvd_err *err)
{
	return hvd_err_hint(err, "without munge, name a key file of mode 0600 that all hosts can read: --key-file=FILE "
				 "(srun --hvd: --hvd-key-file=FILE)");
}

int hvd_munge_load(struct hvd_munge *munge, const char *soname, struct hvd_err *err)
{
	void *library;

	memset(munge, 0, sizeof(*munge));
	if (!soname)
		soname = HVD_MUNGE_SONAME;
	library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		hvd_err_set(err, HVD_E_SYS, "cannot load munge's library: %s", dlerror());
		return hint(err);
	}
	if (find(library, "munge_ctx_create", &munge->ctx_create) == 0 &&
	    find(library, "munge_ctx_destroy", &munge->ctx_destroy) == 0 &&
	    find(library, "munge_ctx_get", &munge->ctx_get) == 0 &&
	    find(library, "munge_ctx_set", &munge->ctx_set) == 0 &&
	    find(library, "munge_ctx_strerror", &munge->ctx_strerror) == 0 &&
	    find(library, "munge_encode", &munge->encode) == 0 && find(library, "munge_decode", &munge->decode) == 0)
		return 0; /* the library stays loaded: its functions are in use from now on */
	dlclose(library);
	memset(munge, 0, sizeof(*munge));
	hvd_err_set(err, HVD_E_SYS, "%s is not munge's library: it lacks functions", soname);
	return hint(err);
}

int hvd_munge_here(const char *socket, struct hvd_err *err)
{
	struct hvd_munge munge;
	void *ctx = NULL;
	int rc = 0;

	if (hvd_munge_load(&munge, NULL, err) != 0)
		return -1;
	if (!socket && (ctx = munge.ctx_create()))
		munge.ctx_get(ctx, HVD_MUNGE_OPT_SOCKET, &socket);
	if (!socket || access(socket, F_OK) != 0) {
		rc = hvd_err_sys(err, "munge does not run on this host: no socket %s", socket ? socket : "of munged");
		hint(err);
	}
	munge.ctx_destroy(ctx);
	return rc;
}

static bool listens(const char *socket_path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd, rc;

	if (strlen(socket_path) >= sizeof(sun.sun_path))
		return true; /* too long to try; libmunge will report it */
	memcpy(sun.sun_path, socket_path, strlen(socket_path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	rc = connect(fd, (struct sockaddr *)&sun, sizeof(sun));
	rc = rc == 0 || (errno != ECONNREFUSED && errno != ENOENT);
	close(fd);
	return rc;
}

bool hvd_munge_listens(const char *socket)
{
	struct hvd_munge munge;
	void *ctx = NULL;
	bool there = false;

	if (hvd_munge_load(&munge, NULL, NULL) != 0)
		return false;
	if (!socket && (ctx = munge.ctx_create()))
		munge.ctx_get(ctx, HVD_MUNGE_OPT_SOCKET, &socket);
	there = socket && listens(socket);
	munge.ctx_destroy(ctx);
	return there;
}

/* ---- does it answer? ---- */

/* libmunge waits for a munged that is stopped, and tries again; so a thread asks, which is left behind then. It has
 * memory and a descriptor of its own. */
struct question {
	struct hvd_munge munge;
	char *socket; /* NULL: the one that libmunge uses */
	int fd;       /* gets a byte when the answer is yes */
};

static void *ask(void *arg)
{
	struct question *q = arg;
	void *ctx = q->munge.ctx_create();
	char *cred = NULL;

	if (ctx && q->socket)
		q->munge.ctx_set(ctx, HVD_MUNGE_OPT_SOCKET, q->socket);
	if (ctx && q->munge.encode(&cred, ctx, NULL, 0) == HVD_MUNGE_SUCCESS && write(q->fd, "", 1) != 1) {
		/* Nobody waits for the answer any longer. */
	}
	free(cred);
	q->munge.ctx_destroy(ctx);
	close(q->fd);
	free(q->socket);
	free(q);
	return NULL;
}

/* Takes `q` over. */
static bool ask_in_thread(struct question *q)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* also SIGPIPE, of the late answer */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, ask, q);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return true;
	close(q->fd);
	free(q->socket);
	free(q);
	return false;
}

bool hvd_munge_answers(const char *socket, double seconds)
{
	hvd_time deadline = hvd_deadline_in(seconds);
	struct question *q;
	bool there = false;
	int fds[2];

	if (!hvd_munge_listens(socket) || pipe2(fds, O_CLOEXEC) != 0)
		return false;
	q = hvd_xcalloc(1, sizeof(*q));
	*q = (struct question){.socket = socket ? hvd_xstrdup(socket) : NULL, .fd = fds[1]};
	if (hvd_munge_load(&q->munge, NULL, NULL) == 0 && ask_in_thread(q)) {
		struct pollfd answer = {.fd = fds[0], .events = POLLIN};
		char byte;

		while (poll(&answer, 1, hvd_left_ms(deadline)) < 0 && errno == EINTR)
			;
		there = (answer.revents & POLLIN) && read(fds[0], &byte, 1) == 1;
	}
	close(fds[0]);
	return there;
}
