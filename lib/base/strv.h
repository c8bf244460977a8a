/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strv.h - growable, NULL-terminated vectors of strings, such as argv and envp, and what is built from them:
 * environments and shell command lines.
 *
 * A zeroed struct is an empty vector. The vector owns its strings: functions copy the strings that they add. Nothing
 * fails here, because a lack of memory ends the process (xalloc.h).
 */
#ifndef HVD_STRV_H
#define HVD_STRV_H

#include <stdbool.h>
#include <stddef.h>

struct hvd_strv {
	char **v;    /* NULL-terminated; NULL until the first string is added */
	size_t n;    /* strings, without the NULL */
	size_t room; /* pointers that v has memory for */
};

void hvd_strv_add(struct hvd_strv *sv, const char *s);
void hvd_strv_addf(struct hvd_strv *sv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void hvd_strv_add_all(struct hvd_strv *sv, char *const *v); /* v is NULL-terminated or NULL */
void hvd_strv_free(struct hvd_strv *sv);                    /* leaves an empty vector; NULL is fine */
bool hvd_strv_has(const struct hvd_strv *sv, const char *s);

/* Join the strings, with `between` between each two. The caller frees the result. */
char *hvd_strv_join(const struct hvd_strv *sv, const char *between);

/* For a vector that is an environment: its strings are NAME=VALUE, each name once. */
void hvd_env_set(struct hvd_strv *env, const char *name, const char *value);
void hvd_env_setf(struct hvd_strv *env, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void hvd_env_unset(struct hvd_strv *env, const char *name);
const char *hvd_env_get(const struct hvd_strv *env, const char *name); /* points into the vector; NULL: not set */

/* The value of a variable in `envp`, which is NULL-terminated or NULL. Points into it; NULL: not set. */
const char *hvd_envp_get(char *const *envp, const char *name);
/* The same; NULL also when it is empty. */
const char *hvd_envp_value(char *const *envp, const char *name);

/* `s` as one word of a shell command line: in quotes where the shell would change it. The caller frees it. */
char *hvd_shell_quote(const char *s);
/* Append the words of `s`, split as a shell splits them: at blanks, with quotes and backslashes obeyed; nothing is
 * expanded. Returns -1 if a quote is not closed; the words before it are appended. */
int hvd_shell_split(const char *s, struct hvd_strv *words);
/* A whole argv as a line that can be pasted into a shell. The caller frees it. */
char *hvd_shell_join(char *const *argv);

#endif
