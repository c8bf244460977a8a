/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strv.h - growable, NULL-terminated vectors of strings: argv and envp.
 *
 * A zeroed struct is an empty vector. The vector owns its strings. Memory that
 * cannot be had ends the process (see xalloc.h), so nothing here can fail.
 */
#ifndef HVD_STRV_H
#define HVD_STRV_H

#include <stddef.h>

struct hvd_strv {
	char **v; /* NULL-terminated; NULL while the vector has never been added to */
	size_t n;
	size_t room;
};

void hvd_strv_add(struct hvd_strv *sv, const char *s);
void hvd_strv_addf(struct hvd_strv *sv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void hvd_strv_add_all(struct hvd_strv *sv, char *const *v); /* v is NULL-terminated or NULL */
void hvd_strv_free(struct hvd_strv *sv);                    /* leaves an empty vector; NULL is fine */

/* All of them, with `between` in between. Caller frees. */
char *hvd_strv_join(const struct hvd_strv *sv, const char *between);

/* As an environment: NAME=VALUE strings, each name once. */
void hvd_env_set(struct hvd_strv *env, const char *name, const char *value);
void hvd_env_setf(struct hvd_strv *env, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void hvd_env_unset(struct hvd_strv *env, const char *name);
const char *hvd_env_get(const struct hvd_strv *env, const char *name); /* into the vector; NULL if not there */

/* The value of a variable in an environment that is not ours to change; NULL if it is not there. */
const char *hvd_envp_get(char *const *envp, const char *name);

/* `s` as a shell word: quoted where the shell would change it. Caller frees. */
char *hvd_shell_quote(const char *s);
/* Append the words of `s`, taken apart as a shell does: blanks between words, quotes, backslashes; no expansion of any
 * kind. -1 when a quote is not closed; `words` then has those before it. */
int hvd_shell_split(const char *s, struct hvd_strv *words);
/* A whole argv as a line one can paste into a shell. Caller frees. */
char *hvd_shell_join(char *const *argv);

#endif
