/* SPDX-License-Identifier: Apache-2.0 */
#include "python_command.h"

#include <ctype.h>
#include <string.h>

bool hvd_is_python(const char *program)
{
	static const char name[] = "python";

	program = basename(program);
	if (strncmp(program, name, strlen(name)) != 0)
		return false;
	program += strlen(name);
	return !program[strspn(program, "0123456789.")];
}

/* Add the options of a word such as -OWignore. Returns how many words are the interpreter's, with a value that stands in
 * the word after it; 0: the program begins in this word. */
static size_t add_word(const char *word, const char *next, struct hvd_strv *to)
{
	const char *program;

	if (strcmp(word, "--check-hash-based-pycs") == 0 && next) {
		hvd_strv_add(to, word);
		hvd_strv_add(to, next);
		return 2;
	}
	if (word[0] != '-' || !word[1] || word[1] == '-')
		return 0;
	program = word + 1 + strcspn(word + 1, "cmWX");
	if (*program == 'c' || *program == 'm') {
		if (program > word + 1)
			hvd_strv_addf(to, "%.*s", (int)(program - word), word);
		return 0;
	}
	hvd_strv_add(to, word);
	if (!*program || program[1])
		return 1;
	if (next)
		hvd_strv_add(to, next);
	return next ? 2 : 1;
}

void hvd_python_options(char *const *argv, struct hvd_strv *to)
{
	size_t n;

	for (size_t i = 1; argv[0] && argv[i] && (n = add_word(argv[i], argv[i + 1], to)) > 0; i += n)
		;
}

bool hvd_python_modules(const char *list)
{
	bool first = true;

	for (; *list; list++) {
		bool letter = isalpha((unsigned char)*list) || *list == '_' || (*list & 0x80);

		if (!letter && (first || !(isdigit((unsigned char)*list) || *list == '.' || *list == ',')))
			return false;
		first = *list == '.' || *list == ',';
	}
	return !first;
}
