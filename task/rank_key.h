/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_key.h - hands the key of hvdrun --run-func (lib/protocol/func_key.h) down to the ranks that this shim starts.
 *
 * The rank inherits a descriptor from which it reads the key, and a variable with the descriptor's number.
 */
#ifndef HVD_RANK_KEY_H
#define HVD_RANK_KEY_H

#include "lib/base/strv.h"
#include "lib/protocol/handshake.h"

#include <jansson.h>

/* After the handshake: keep the key when the plan says that ranks need it. *fd is the caller's to close, 0 when it does
 * not. -1 with err set. */
int hvd_rank_key_take(const json_t *plan, const struct hvd_session *session, int *fd, struct hvd_err *err);

/* The variable, for `command`, which gets the descriptor at the same number. fd 0 adds nothing. */
void hvd_rank_key_env(int fd, const char *command, struct hvd_strv *env);

#endif
