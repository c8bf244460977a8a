/* SPDX-License-Identifier: Apache-2.0 */
#include "strv.h"

#include "cleanup.h"
#include "xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes ownership of `s`. */
static void push(struct hvd_strv *sv, char *s)
{
	if (sv->n + 1 >= sv->room) {
		sv->room = sv->room ? sv->room * 2 : 16;
		sv->v = hvd_xrealloc(sv->v, sv->room, sizeof(*sv->v));
	}
	sv->v[sv->n++] = s;
	sv->v[sv->n] = NULL;
}

void hvd_strv_add(struct hvd_strv *sv, const char *s)
{
	push(sv, hvd_xstrdup(s));
}

void hvd_strv_addf(struct hvd_strv *sv, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	push(sv, hvd_xvasprintf(fmt, ap));
	va_end(ap);
}

void hvd_strv_add_all(struct hvd_strv *sv, char *const *v)
{
	for (; v && *v; v++)
		hvd_strv_add(sv, *v);
}

bool hvd_strv_has(const struct hvd_strv *sv, const char *s)
{
	for (size_t i = 0; i < sv->n; i++)
		if (strcmp(sv->v[i], s) == 0)
			return true;
	return false;
}

char *hvd_strv_join(const struct hvd_strv *sv, const char *between)
{
	size_t room = 1, n;
	char *all, *p;

	for (size_t i = 0; i < sv->n; i++)
		room += strlen(sv->v[i]) + strlen(between);
	all = p = hvd_xcalloc(room, 1);
	for (size_t i = 0; i < sv->n; i++) {
		n = (size_t)snprintf(p, room, "%s%s", i ? between : "", sv->v[i]);
		p += n;
		room -= n;
	}
	return all;
}

void hvd_strv_free(struct hvd_strv *sv)
{
	if (!sv)
		return;
	for (size_t i = 0; i < sv->n; i++)
		free(sv->v[i]);
	free(sv->v);
	memset(sv, 0, sizeof(*sv));
}

/* The index of the variable; env->n when it is not set. */
static size_t find(const struct hvd_strv *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			return i;
	return env->n;
}

void hvd_env_set(struct hvd_strv *env, const char *name, const char *value)
{
	size_t i = find(env, name);
	char *s = hvd_xasprintf("%s=%s", name, value);

	if (i == env->n) {
		push(env, s);
		return;
	}
	free(env->v[i]);
	env->v[i] = s;
}

void hvd_env_setf(struct hvd_strv *env, const char *name, const char *fmt, ...)
{
	hvd_cleanup_free char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	s = hvd_xvasprintf(fmt, ap);
	va_end(ap);
	hvd_env_set(env, name, s);
}

void hvd_env_unset(struct hvd_strv *env, const char *name)
{
	size_t i;

	while ((i = find(env, name)) < env->n) {
		free(env->v[i]);
		memmove(&env->v[i], &env->v[i + 1], (env->n - i) * sizeof(*env->v));
		env->n--;
	}
}

const char *hvd_env_get(const struct hvd_strv *env, const char *name)
{
	return hvd_envp_get(env->v, name);
}

const char *hvd_envp_get(char *const *envp, const char *name)
{
	size_t len = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

const char *hvd_envp_value(char *const *envp, const char *name)
{
	const char *value = hvd_envp_get(envp, name);

	return value && *value ? value : NULL;
}

char *hvd_shell_quote(const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%^";
	size_t n = 3;
	char *out, *p;

	if (*s && s[strspn(s, plain)] == '\0')
		return hvd_xstrdup(s);
	for (const char *c = s; *c; c++)
		n += *c == '\'' ? 4 : 1;
	out = p = hvd_xcalloc(n, 1);
	*p++ = '\'';
	for (; *s; s++) {
		if (*s == '\'') {
			memcpy(p, "'\\''", 4);
			p += 4;
		} else {
			*p++ = *s;
		}
	}
	*p = '\'';
	return out;
}

int hvd_shell_split(const char *s, struct hvd_strv *words)
{
	hvd_cleanup_free char *word = hvd_xcalloc(strlen(s) + 1, 1);
	char *p, quote;

	for (;;) {
		s += strspn(s, " \t\n");
		if (!*s)
			return 0;
		for (p = word, quote = '\0'; *s && (quote || !strchr(" \t\n", *s)); s++) {
			if (quote ? *s == quote : *s == '\'' || *s == '"')
				quote = quote ? '\0' : *s;
			else if (*s == '\\' && s[1] && (!quote || (quote == '"' && strchr("\\\"$`", s[1]))))
				*p++ = *++s;
			else
				*p++ = *s;
		}
		if (quote)
			return -1;
		*p = '\0';
		hvd_strv_add(words, word);
	}
}

char *hvd_shell_join(char *const *argv)
{
	char *line = hvd_xstrdup("");

	for (; argv && *argv; argv++) {
		hvd_cleanup_free char *word = hvd_shell_quote(*argv);

		hvd_xappendf(&line, "%s%s", *line ? " " : "", word);
	}
	return line;
}
