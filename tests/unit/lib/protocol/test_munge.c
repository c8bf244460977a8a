/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmunge is loaded when it is used: what is said where it is not there, and that no program is linked to it.
 */
#include "lib/base/key.h"
#include "lib/base/random.h"
#include "lib/protocol/auth.h"
#include "lib/protocol/munge.h"

#include "tests/unit/unit.h"

#include <sys/socket.h>
#include <sys/un.h>

#if __has_include(<munge.h>)
#include <munge.h>

/* What lib/protocol/munge.h says of libmunge's numbers, held against libmunge's own header. */
_Static_assert((int)HVD_MUNGE_SUCCESS == (int)EMUNGE_SUCCESS, "");
_Static_assert((int)HVD_MUNGE_SOCKET == (int)EMUNGE_SOCKET, "");
_Static_assert((int)HVD_MUNGE_TIMEOUT == (int)EMUNGE_TIMEOUT, "");
_Static_assert((int)HVD_MUNGE_CRED_INVALID == (int)EMUNGE_CRED_INVALID, "");
_Static_assert((int)HVD_MUNGE_CRED_EXPIRED == (int)EMUNGE_CRED_EXPIRED, "");
_Static_assert((int)HVD_MUNGE_CRED_REWOUND == (int)EMUNGE_CRED_REWOUND, "");
_Static_assert((int)HVD_MUNGE_CRED_UNAUTHORIZED == (int)EMUNGE_CRED_UNAUTHORIZED, "");
_Static_assert((int)HVD_MUNGE_OPT_SOCKET == (int)MUNGE_OPT_SOCKET, "");
_Static_assert((int)HVD_MUNGE_OPT_UID_RESTRICTION == (int)MUNGE_OPT_UID_RESTRICTION, "");
#endif

/* A key file needs no munge; nor is the library loaded for one. The tests after this one load it. */
TEST(a_key_loads_nothing)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY};
	unsigned char nonce[HVD_NONCE_LEN] = {0};
	struct hvd_context to = hvd_context_of("session", nonce, nonce);
	char line[512], *cred = hvd_id_prove(&id, &to, NULL);
	FILE *maps = fopen("/proc/self/maps", "r");

	assert_int_equal(hvd_id_check(&id, &to, cred, NULL), 0);
	free(cred);
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		assert_null(strstr(line, "libmunge"));
	fclose(maps);
}

TEST(not_installed)
{
	struct hvd_munge munge = {.ctx_create = (void *(*)(void))abort};
	struct hvd_err err = {0};

	assert_fails_with(hvd_munge_load(&munge, "libmunge-of-nowhere.so.9", &err), err, HVD_E_SYS,
			  "cannot load munge's library: libmunge-of-nowhere.so.9: ");
	assert_in(err.hint, "--key-file=FILE");
	assert_in(err.hint, "--hvd-key-file=FILE");
	assert_null(munge.ctx_create);
}

TEST(another_library)
{
	struct hvd_munge munge;
	struct hvd_err err = {0};

	assert_int_equal(hvd_munge_load(&munge, "libc.so.6", &err), -1);
	assert_string_equal(err.msg, "libc.so.6 is not munge's library: it lacks functions");
	assert_in(err.hint, "--key-file=FILE");
	assert_null(munge.encode);
}

TEST(no_daemon)
{
	struct hvd_err err = {0};

	if (hvd_munge_load(&(struct hvd_munge){0}, NULL, NULL) != 0)
		skip_because("libmunge is not installed");
	assert_fails(hvd_munge_here("/nonexistent/munge.socket", &err), err,
		     "munge does not run on this host: no socket /nonexistent/munge.socket");
	assert_in(err.hint, "--key-file=FILE");
	assert_int_equal(hvd_munge_here("/dev/null", &err), 0);
}

TEST(a_daemon_that_was_killed)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/hvd-test-munge.XXXXXX";
	int fd;

	if (hvd_munge_load(&(struct hvd_munge){0}, NULL, NULL) != 0)
		skip_because("libmunge is not installed");
	assert_non_null(mkdtemp(dir));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/socket", dir);
	assert_false(hvd_munge_listens(sun.sun_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_true(hvd_munge_listens(sun.sun_path));
	assert_false(hvd_munge_answers(sun.sun_path, 0.1)); /* as one that is stopped */
	close(fd);                                          /* the file stays */
	assert_false(hvd_munge_listens(sun.sun_path));
	assert_false(hvd_munge_answers(sun.sun_path, 10));
	assert_int_equal(unlink(sun.sun_path), 0);
	assert_int_equal(rmdir(dir), 0);
}

TEST(a_key_in_memory_is_read_again)
{
	struct hvd_key key, got;
	struct hvd_err err = {0};
	int fd;

	assert_int_equal(hvd_random(&key, sizeof(key), &err), 0);
	fd = hvd_key_memfd(&key, &err);
	assert_true(fd >= 0);
	for (int i = 0; i < 3; i++) {
		memset(&got, 0, sizeof(got));
		assert_int_equal(hvd_key_read_fd(fd, &got, &err), 0);
		assert_memory_equal(&key, &got, sizeof(key));
	}
	close(fd);
}

RUN_TESTS()
