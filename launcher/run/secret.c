/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

#include "lib/base/key.h"
#include "lib/base/random.h"

#include "procs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What starts the ranks hands no descriptor down to them: they open this process's. */
static int keep_key(struct hvd_secret *secret, const struct hvd_key *key, struct hvd_err *err)
{
	secret->fd = hvd_key_memfd(key, err);
	if (secret->fd < 0)
		return -1;
	snprintf(secret->id_text, sizeof(secret->id_text), "pid:%d:%d", (int)getpid(), secret->fd);
	return 0;
}

int hvd_secret_make(struct hvd_secret *secret, const struct hvd_launch *launch, const struct hvd_backend *backend,
		    struct hvd_err *err)
{
	struct hvd_identity identity = {.kind = HVD_ID_KEY};
	bool handed = backend->loopback || backend->by_stdin || launch->by_stdin;

	if (!handed && !launch->one_machine) {
		if (hvd_identity_from(launch->options, &identity, secret->id_text, err) != 0)
			return -1;
	} else if (hvd_random(identity.key.b, HVD_KEY_LEN, err) != 0) {
		return -1;
	} else if (handed) {
		snprintf(secret->id_text, sizeof(secret->id_text), "fd:%d", HVD_KEY_FD);
		secret->key = identity.key;
	} else if (keep_key(secret, &identity.key, err) != 0) {
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
