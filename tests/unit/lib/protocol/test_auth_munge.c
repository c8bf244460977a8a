/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity by munge, with real daemons on private sockets: two with the same key, as on two hosts, and one with
 * another. They are children of this program and end with it, however it ends.
 */
#include "lib/base/random.h"
#include "lib/process/spawn.h"
#include "lib/protocol/auth.h"
#include "lib/protocol/munge.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

#define DAEMONS 3

static char dir[] = "/tmp/hvd-test-munge-XXXXXX";
static char socks[DAEMONS][64];
static pid_t pids[DAEMONS];
static bool installed;

static void write_key(const char *path, char fill)
{
	char key[64];
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	memset(key, fill, sizeof(key));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, sizeof(key)), sizeof(key));
	close(fd);
}

/* A context for the daemon at this socket, as another program may make one. */
static void *open_munge(struct hvd_munge *munge, const char *sock)
{
	void *ctx;

	assert_int_equal(hvd_munge_load(munge, NULL, NULL), 0);
	ctx = munge->ctx_create();
	munge->ctx_set(ctx, HVD_MUNGE_OPT_SOCKET, sock);
	return ctx;
}

static bool answers(const char *sock)
{
	struct hvd_munge munge;
	void *ctx = open_munge(&munge, sock);
	char *cred = NULL;
	bool ok = munge.encode(&cred, ctx, NULL, 0) == HVD_MUNGE_SUCCESS;

	free(cred);
	munge.ctx_destroy(ctx);
	return ok;
}

static int start_daemon(int i)
{
	char key[64], pid[64], log[64], seed[64];
	char *argv[] = {(char *)"munged",
			(char *)"--foreground",
			(char *)"--socket",
			socks[i],
			(char *)"--key-file",
			key,
			(char *)"--pid-file",
			pid,
			(char *)"--log-file",
			log,
			(char *)"--seed-file",
			seed,
			NULL};
	char *envp[] = {(char *)"PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin", NULL};
	struct hvd_spawn spawn = {.path = "munged", .argv = argv, .envp = envp, .parent_death_signal = SIGKILL};
	struct timespec pause = {.tv_nsec = 2000000};
	hvd_time end = hvd_deadline_in(10);
	struct hvd_err err;

	snprintf(socks[i], sizeof(socks[i]), "%s/sock%d", dir, i);
	snprintf(key, sizeof(key), "%s/key%d", dir, i);
	snprintf(pid, sizeof(pid), "%s/pid%d", dir, i);
	snprintf(log, sizeof(log), "%s/log%d", dir, i);
	snprintf(seed, sizeof(seed), "%s/seed%d", dir, i);
	write_key(key, i == 2 ? 'o' : 'k');
	for (int fd = 0; fd < 3; fd++)
		hvd_spawn_fd(&spawn, -1, fd);
	pids[i] = hvd_spawn(&spawn, &err);
	if (pids[i] < 0)
		return -1;
	while (access(socks[i], F_OK) != 0 || !answers(socks[i])) {
		if (hvd_left(end) == 0 || waitpid(pids[i], NULL, WNOHANG) != 0)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int start_daemons(void **state)
{
	if (!mkdtemp(dir) || chmod(dir, 0755) != 0)
		return -1;
	installed = access("/usr/sbin/munged", X_OK) == 0 || access("/usr/local/sbin/munged", X_OK) == 0;
	for (int i = 0; installed && i < DAEMONS; i++)
		if (start_daemon(i) != 0)
			return -1;
	return 0;
}

static int stop_daemons(void **state)
{
	static const struct {
		const char *name, *suffix;
	} files[] = {{"sock", ""}, {"sock", ".lock"}, {"key", ""}, {"pid", ""}, {"log", ""}, {"seed", ""}};

	for (int i = 0; i < DAEMONS; i++) {
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
		for (size_t n = 0; n < sizeof(files) / sizeof(files[0]); n++) {
			char path[96];

			snprintf(path, sizeof(path), "%s/%s%d%s", dir, files[n].name, i, files[n].suffix);
			unlink(path);
		}
	}
	return rmdir(dir);
}

static struct hvd_identity id_of(int i)
{
	struct hvd_identity id = {.kind = HVD_ID_MUNGE, .munge_socket = socks[i]};

	return id;
}

static struct hvd_context context_of(char c)
{
	unsigned char nonce[HVD_NONCE_LEN];

	memset(nonce, c, sizeof(nonce));
	return hvd_context_of("session", nonce, nonce);
}

#define need_munged()                                                                                                  \
	do {                                                                                                           \
		if (!installed)                                                                                        \
			skip_because("munged is not installed");                                                       \
	} while (0)

static void refused(int rc, const struct hvd_err *err, const char *why)
{
	assert_int_equal(rc, -1);
	assert_int_equal(err->code, HVD_E_AUTH);
	assert_in(err->msg, why);
}

TEST(both_ways)
{
	struct hvd_identity here = id_of(0), there = id_of(1);
	struct hvd_context to = context_of('a');
	struct hvd_key session, got;
	struct hvd_err err = {0};
	char *proof, *grant;

	need_munged();
	hvd_random(&session, sizeof(session), NULL);
	proof = hvd_id_prove(&there, &to, &err);
	assert_non_null(proof);
	assert_true(strlen(proof) <= HVD_CRED_MAX);
	assert_int_equal(hvd_id_check(&here, &to, proof, &err), 0);
	grant = hvd_id_grant(&here, &to, &session, &err);
	assert_non_null(grant);
	assert_int_equal(hvd_id_accept(&there, &to, grant, &got, &err), 0);
	assert_memory_equal(&session, &got, sizeof(got));
	free(proof);
	free(grant);
}

TEST(of_another_connection)
{
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('b'), elsewhere = context_of('c');
	struct hvd_err err;
	char *proof;

	need_munged();
	proof = hvd_id_prove(&id, &to, &err);
	refused(hvd_id_check(&id, &elsewhere, proof, &err), &err, "another connection");
	free(proof);
}

TEST(a_proof_is_no_grant)
{
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('d');
	struct hvd_key key = {{0}};
	struct hvd_err err;
	char *proof, *grant;

	need_munged();
	proof = hvd_id_prove(&id, &to, &err);
	refused(hvd_id_accept(&id, &to, proof, &key, &err), &err, "another connection");
	grant = hvd_id_grant(&id, &to, &key, &err);
	refused(hvd_id_check(&id, &to, grant, &err), &err, "another connection");
	free(proof);
	free(grant);
}

TEST(replayed)
{
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('e');
	struct hvd_err err;
	char *proof;

	need_munged();
	proof = hvd_id_prove(&id, &to, &err);
	assert_int_equal(hvd_id_check(&id, &to, proof, &err), 0);
	refused(hvd_id_check(&id, &to, proof, &err), &err, "munge refuses");
	free(proof);
}

TEST(with_another_key)
{
	struct hvd_identity id = id_of(0), stranger = id_of(2);
	struct hvd_context to = context_of('f');
	struct hvd_err err;
	char *proof;

	need_munged();
	proof = hvd_id_prove(&stranger, &to, &err);
	refused(hvd_id_check(&id, &to, proof, &err), &err, "munge refuses");
	assert_in(err.hint, "munge keys");
	free(proof);
}

TEST(no_credential_at_all)
{
	static const char *const texts[] = {"", "MUNGE:", "MUNGE::", "rubbish", "MUNGE:AAAA:"};
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('g');
	struct hvd_err err;

	need_munged();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		refused(hvd_id_check(&id, &to, texts[i], &err), &err, "munge refuses");
}

/* A credential with this payload, made by uid 65534; `anyone` may decode it. Caller frees. */
static char *made_by_nobody(const struct hvd_context *to, bool anyone)
{
	struct hvd_identity id = id_of(0);
	char *cred = calloc(1, HVD_CRED_MAX + 1);
	size_t at = 0;
	ssize_t n;
	int fds[2], status;
	pid_t pid;

	assert_non_null(cred);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		char *made = NULL;

		if (setresuid(65534, 65534, 65534) != 0)
			_exit(3);
		if (anyone) {
			struct hvd_munge munge;
			void *ctx = open_munge(&munge, socks[0]);

			munge.encode(&made, ctx, to->b, sizeof(to->b));
		} else {
			made = hvd_id_prove(&id, to, NULL);
		}
		_exit(made && write(fds[1], made, strlen(made)) == (ssize_t)strlen(made) ? 0 : 4);
	}
	close(fds[1]);
	while ((n = read(fds[0], cred + at, HVD_CRED_MAX - at)) > 0)
		at += (size_t)n;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return cred;
}

TEST(of_another_user)
{
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('h');
	struct hvd_err err;
	char *cred;

	need_munged();
	if (geteuid() != 0)
		skip_because("only root can be another user");
	cred = made_by_nobody(&to, true);
	refused(hvd_id_check(&id, &to, cred, &err), &err, "the peer is uid 65534");
	free(cred);
	cred = made_by_nobody(&to, false);
	refused(hvd_id_check(&id, &to, cred, &err), &err, "munge refuses");
	free(cred);
}

/* The driver's answer holds the session key: nobody but its own user may read it. */
TEST(another_user_cannot_open_a_grant)
{
	struct hvd_identity id = id_of(0);
	struct hvd_context to = context_of('i');
	struct hvd_key key = {{7}};
	struct hvd_err err;
	char *grant;
	int status;
	pid_t pid;

	need_munged();
	if (geteuid() != 0)
		skip_because("only root can be another user");
	grant = hvd_id_grant(&id, &to, &key, &err);
	pid = fork();
	if (pid == 0) {
		struct hvd_munge munge;
		void *ctx = open_munge(&munge, socks[0]), *payload = NULL;
		int len = 0, rc;

		if (setresuid(65534, 65534, 65534) != 0)
			_exit(3);
		rc = munge.decode(grant, ctx, &payload, &len, NULL, NULL);
		_exit(rc == HVD_MUNGE_CRED_UNAUTHORIZED && !payload ? 0 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(grant);
}

TEST(the_daemon_is_down)
{
	struct hvd_identity id = {.kind = HVD_ID_MUNGE, .munge_socket = "/nonexistent/socket"};
	struct hvd_context to = context_of('j');
	struct hvd_key key = {{0}};
	struct hvd_err err = {0};

	assert_null(hvd_id_prove(&id, &to, &err));
	assert_int_equal(err.code, HVD_E_SYS); /* not the peer's fault */
	assert_in(err.msg, "munge");
	assert_in(err.hint, "is munged running");
	assert_null(hvd_id_grant(&id, &to, &key, &err));
	assert_int_equal(err.code, HVD_E_SYS);
}

RUN_TESTS(.group_setup = start_daemons, .group_teardown = stop_daemons)
