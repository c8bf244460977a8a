/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - how the shims of a launch know their launcher, and the launcher them.
 *
 * Munge, a key file of the user's, or a key of the launch's own where the
 * backend can hand it to the shims: through a descriptor, their stdin, or on
 * one machine this process's own descriptor. It is in no environment and on no
 * command line.
 */
#ifndef HVD_SECRET_H
#define HVD_SECRET_H

#include "launcher/backends/backend.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"

#define HVD_ID_TEXT sizeof(((struct hvd_boot *)0)->id)

struct hvd_secret {
	struct hvd_session session;
	struct hvd_key key;        /* for backends that hand it over themselves (procs.h); else of no meaning */
	char id_text[HVD_ID_TEXT]; /* what the shims are told (boot.h) */
	int fd;                    /* where shims on this machine read the key; -1 = nowhere */
};

/* Who the launcher is: the user that munge vouches for, or who knows the secret in `key_file`, unless that is NULL.
 * `id_text` is what the shims are told of it (boot.h). */
int hvd_secret_identity(const char *key_file, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
			struct hvd_err *err);

/* `secret` is zeroed, fd -1. After an error hvd_secret_clear() is due as well. */
int hvd_secret_make(struct hvd_secret *secret, const struct hvd_launch *launch, const struct hvd_backend *backend,
		    struct hvd_err *err);
void hvd_secret_clear(struct hvd_secret *secret);

#endif
