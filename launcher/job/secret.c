/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include "launcher/start/agent_pool.h"
#include "lib/base/key.h"
#include "lib/base/random.h"

#include "launcher/start/procs.h"
#include "lib/protocol/munge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An MPI hands no descriptor down to the ranks' shims: they open hvdrun's, in /proc. */
static int keep_key(struct hvd_secret *secret, const struct hvd_key *key, struct hvd_err *err)
{
	secret->fd = hvd_key_memfd(key, err);
	if (secret->fd < 0)
		return -1;
	snprintf(secret->id_text, sizeof(secret->id_text), "pid:%d:%d", (int)getpid(), secret->fd);
	return 0;
}

int hvd_secret_identity(const char *key_file, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
			struct hvd_err *err)
{
	char *path;
	int n;

	memset(identity, 0, sizeof(*identity));
	snprintf(id_text, HVD_ID_TEXT, "munge");
	if (!key_file)
		return hvd_munge_here(NULL, err);
	identity->kind = HVD_ID_KEY;
	/* The shims may run in another directory, so they are told the absolute path. */
	path = realpath(key_file, NULL);
	if (!path) {
		hvd_err_sys(err, "cannot find the key file %s", key_file);
		err->code = HVD_E_USAGE;
		return -1;
	}
	n = snprintf(id_text, HVD_ID_TEXT, "file:%s", path);
	free(path);
	if (n < 0 || (size_t)n >= HVD_ID_TEXT)
		return hvd_err_set(err, HVD_E_USAGE, "the path of the key file %s is too long", key_file);
	if (hvd_key_read_file(key_file, &identity->key, err) == 0)
		return 0;
	if (err)
		err->code = HVD_E_USAGE;
	return -1;
}

int hvd_secret_make(struct hvd_secret *secret, const struct hvd_launch *launch, const struct hvd_backend *backend,
		    struct hvd_err *err)
{
	struct hvd_identity identity = {.kind = HVD_ID_KEY};
	bool handed = backend->loopback || backend->by_stdin || launch->by_stdin;

	if (launch->agent_pool) { /* whose agents have the key already */
		secret->session = *hvd_agent_pool_session(launch->agent_pool);
		snprintf(secret->id_text, sizeof(secret->id_text), "fd:%d", HVD_KEY_FD);
		return 0;
	}
	if (!handed && !launch->one_machine) {
		if (hvd_secret_identity(launch->spec->key_file, &identity, secret->id_text, err) != 0)
			return -1;
	} else if (hvd_random(identity.key.b, HVD_KEY_LEN, err) != 0) {
		return -1;
	}
	if (handed) {
		snprintf(secret->id_text, sizeof(secret->id_text), "fd:%d", HVD_KEY_FD);
		secret->key = identity.key;
	} else if (launch->one_machine && keep_key(secret, &identity.key, err) != 0) {
		return -1;
	}
	return hvd_session_create(&secret->session, &identity, err);
}

void hvd_secret_clear(struct hvd_secret *secret)
{
	if (secret->fd >= 0)
		close(secret->fd);
	secret->fd = -1;
	explicit_bzero(&secret->key, sizeof(secret->key));
}
