/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - how the shims and the launcher prove to each other that they belong to one launch.
 *
 * They prove it by munge, by the user's key file, or by a random key where the
 * backend can hand that to the shims: through an inherited descriptor or their
 * stdin, or, on one machine, through a descriptor of hvdrun's that they open in
 * /proc. The key is in no environment and on no command line.
 */
#ifndef HVD_SECRET_H
#define HVD_SECRET_H

#include "launcher/start/backend.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"

#define HVD_ID_TEXT sizeof(((struct hvd_boot *)0)->id)

struct hvd_secret {
	struct hvd_session session;
	struct hvd_key key;        /* where launch processes hand it over (procs.h); else of no meaning */
	char id_text[HVD_ID_TEXT]; /* how the shims prove it, as the boot text has it (boot.h) */
	int fd;                    /* holds the key for shims on this machine; -1 = none */
};

/* The launcher's identity: the secret in `key_file`, or munge when that is NULL. `id_text` gets the boot text's word
 * for it. HVD_E_USAGE for a key file that cannot be used. */
int hvd_secret_identity(const char *key_file, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
			struct hvd_err *err);

/* Choose how it is proven, and make the session. `secret` must be zeroed, with fd -1; hvd_secret_clear() is due after
 * an error, too. */
int hvd_secret_make(struct hvd_secret *secret, const struct hvd_launch *launch, const struct hvd_backend *backend,
		    struct hvd_err *err);
void hvd_secret_clear(struct hvd_secret *secret);

#endif
