/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_env.h - what a rank gets from the plan: its environment; with --multi-prog its own command; and, under hvdrun
 * --run-func, the key of the function (lib/protocol/func_key.h).
 *
 * The rank inherits a descriptor from which it reads the key, and a variable with the descriptor's number.
 */
#ifndef HVD_RANK_ENV_H
#define HVD_RANK_ENV_H

#include "lib/base/strv.h"
#include "lib/frameworks/resolve.h"
#include "lib/protocol/auth.h"

#include <jansson.h>

/* Set in `env` the variables that a rank gets of its plan ({NAME:VALUE,…}), see hvd_resolve(). `command` is the program
 * that gets them, see hvd_apptainer_setenv(); NULL = none. `log` as for hvd_resolve(). */
void hvd_rank_env_add(struct hvd_strv *env, const json_t *plan, const struct hvd_rank_facts *facts, const char *command,
		      const struct hvd_log *log);

/* Name the error file (crash_info.h) in the rank's environment, if its framework writes one, and the user has not set
 * another, there or in this process's environment. `path` NULL: there is none. */
void hvd_rank_env_error_file(struct hvd_strv *env, const char *path);

/* The whole environment of a rank's command: facts->envp without the launch's boot text, the plan's
 * variables, and the variable of the key unless key_fd is 0. The caller frees *env. */
void hvd_rank_env_make(struct hvd_strv *env, const json_t *plan, const struct hvd_rank_facts *facts,
		       const char *command, int key_fd, const struct hvd_log *log);

/* The facts about this process's rank or, in the first task of a host, about all ranks of that host. `slurm_task` as in
 * struct hvd_rank_facts. */
struct hvd_rank_facts hvd_rank_env_facts(bool slurm_task);
/* Find out whether names can be looked up, if the plan is for frameworks that do so. Takes up to HVD_NAME_SERVICE_MS. */
struct hvd_name_service hvd_rank_env_names(const json_t *plan);
/* The message to the driver about where this host's own name leads (launcher/hosts/own_names.c): a new reference, or
 * NULL: not known. */
json_t *hvd_rank_env_own_name(const struct hvd_name_service *names);
/* hvd_command_facts() in this process's environment and directory, if the plan has PyTorch's store. Takes no longer than
 * two seconds. */
struct hvd_command_facts hvd_rank_env_command(const json_t *plan, char *const *argv);
/* Append the words of a rank's own command, as the driver sends it with --multi-prog. NULL: there is none. */
void hvd_rank_env_own_command(const json_t *words, struct hvd_strv *argv);
/* Warn if the controller of the workers is MPI, but srun was not asked to start an MPI: each worker would find itself
 * alone, and go on. */
void hvd_rank_env_warn_without_pmi(const json_t *plan, uint32_t size, const struct hvd_log *log);
/* How many CPUs this process may run on. */
int hvd_rank_env_cpus(void);

/* Derive the key of the function from the session's key if the plan says that ranks need it. *fd is a descriptor with
 * the key, which the caller closes; 0 if no key is needed. -1 with err set. */
int hvd_rank_key_take(const json_t *plan, const struct hvd_key *session_key, int *fd, struct hvd_err *err);

#endif
