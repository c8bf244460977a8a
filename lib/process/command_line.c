/* SPDX-License-Identifier: Apache-2.0 */
#include "command_line.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_BYTES 65536
#define HIDDEN     "***"

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Does a name of n characters say that its value is a secret? */
static bool is_secret(const char *name, size_t n)
{
	static const char *const ends[] = {"token",      "secret",      "secrets",      "password", "passwd",
					   "passphrase", "apikey",      "_key",         "-key",     ".key",
					   "credential", "credentials", "authorization"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const size_t len = strlen(ends[i]);

		if (n >= len && strncasecmp(name + n - len, ends[i], len) == 0)
			return true;
	}
	return false;
}

/* The name that ends before `at`. */
static bool secret_before(const char *word, const char *at)
{
	const char *begin = at;

	while (begin > word && in_name(begin[-1]))
		begin--;
	return is_secret(begin, (size_t)(at - begin));
}

/* The user and password of a URL, behind "://", up to the "@". 0: it has none. */
static size_t user_of_url(const char *rest)
{
	const size_t n = strcspn(rest, "@/?# \t\n'\"");

	return rest[n] == '@' ? n : 0;
}

/* Appends the word without the secrets in it. */
static void append_word(char **line, const char *word)
{
	const char *done = word;

	for (const char *p = word; *p; p++) {
		size_t from = 1, n = 0;

		if (strncmp(p, "://", 3) == 0) {
			from = 3;
			n = user_of_url(p + 3);
		} else if (*p == '=' && secret_before(word, p)) {
			n = strcspn(p + 1, ",;& \t\n'\"");
		} else if (*p == ':' && secret_before(word, p)) {
			n = strcspn(p + 1, "\n'\"");
		}
		if (n == 0)
			continue;
		hvd_xappendf(line, "%.*s" HIDDEN, (int)(p + from - done), done);
		done = p + from + n;
		p = done - 1;
	}
	hvd_xappendf(line, "%s", done);
}

char *hvd_command_line(char *const *argv)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};

	for (size_t i = 0; argv[i]; i++) {
		hvd_cleanup_free char *word = hvd_xstrdup("");
		const char *before = i ? argv[i - 1] : "";

		if (*before == '-' && !strchr(before, '=') && *argv[i] != '-' && is_secret(before, strlen(before)))
			hvd_xappendf(&word, HIDDEN);
		else
			append_word(&word, argv[i]);
		hvd_strv_add(&words, word);
	}
	return words.n ? hvd_shell_join(words.v) : hvd_xstrdup("");
}

void hvd_command_words_of(pid_t pid, struct hvd_strv *words)
{
	hvd_cleanup_fclose FILE *f = NULL;
	hvd_cleanup_free char *text = hvd_xcalloc(MOST_BYTES + 1, 1);
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	n = f ? fread(text, 1, MOST_BYTES, f) : 0;
	for (size_t at = 0; at < n; at += strlen(text + at) + 1)
		hvd_strv_add(words, text + at);
}

char *hvd_command_line_of(pid_t pid)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};

	hvd_command_words_of(pid, &words);
	return words.n ? hvd_command_line(words.v) : NULL;
}
