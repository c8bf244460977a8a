/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_env.h - what a rank gets from the plan: its environment and, under hvdrun --run-func, the key of the function
 * (lib/protocol/func_key.h).
 *
 * The rank inherits a descriptor from which it reads the key, and a variable with the descriptor's number.
 */
#ifndef HVD_RANK_ENV_H
#define HVD_RANK_ENV_H

#include "lib/base/strv.h"
#include "lib/protocol/auth.h"

#include <jansson.h>

/* Set the variables of a rank's plan ({NAME:VALUE,…}; the names as hvd_emit_name() takes them) in `env`. `command` is
 * the program that gets them, see hvd_apptainer_setenv(); NULL = none. */
void hvd_rank_env_add(struct hvd_strv *env, const json_t *plan, const char *command);

/* The whole environment of a rank's command: this process's without the launch's boot text, the plan's variables, and
 * the variable of the key where key_fd is not 0. The caller frees *env. */
void hvd_rank_env_make(struct hvd_strv *env, const json_t *plan, const char *command, int key_fd);

/* Derive the key of the function from the session's key if the plan says that ranks need it. *fd is a descriptor with
 * the key, which the caller closes; 0 if no key is needed. -1 with err set. */
int hvd_rank_key_take(const json_t *plan, const struct hvd_key *session_key, int *fd, struct hvd_err *err);

#endif
