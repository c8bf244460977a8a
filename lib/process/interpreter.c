/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreter.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"

#include <ctype.h>
#include <string.h>

/* ---- Python ---- */

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

/* ---- shells ---- */

static bool assigns(const char *word)
{
	const char *eq = strchr(word, '=');

	return eq && eq > word && word[0] != '-' && !memchr(word, '/', (size_t)(eq - word));
}

char *const *hvd_behind_env(char *const *argv)
{
	if (argv[0] && strcmp(basename(argv[0]), "env") == 0)
		for (argv++; *argv && assigns(*argv);)
			argv++;
	return argv;
}

bool hvd_is_shell(const char *program)
{
	static const char *const names[] = {"sh", "bash", "dash", "ksh", "zsh", "fish", "csh", "tcsh"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(basename(program), names[i]) == 0)
			return true;
	return false;
}

/* Of a shell's options: -s has it read standard input whatever follows, and -c and --version have it read nothing. */
static bool shell_reads(char *const *words)
{
	for (; *words && (**words == '-' || **words == '+'); words++) {
		const char *letters = *words + 1;

		if (strcmp(*words, "--help") == 0 || strcmp(*words, "--version") == 0)
			return false;
		if (strcmp(*words, "-") == 0 || strcmp(*words, "--") == 0)
			return !words[1];
		if (*letters == '-') {
			if ((strcmp(letters, "-rcfile") == 0 || strcmp(letters, "-init-file") == 0) && words[1])
				words++;
			continue;
		}
		if (**words == '-' && strchr(letters, 'c'))
			return false;
		if (**words == '-' && strchr(letters, 's'))
			return true;
		if ((strchr(letters, 'o') || strchr(letters, 'O')) && words[1])
			words++;
	}
	return !*words;
}

static bool python_reads(char *const *argv)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv options = {0};
	const char *program;

	hvd_python_options(argv, &options);
	for (size_t i = 0; i < options.n; i++)
		if (options.v[i][0] == '-' && options.v[i][strcspn(options.v[i], "Vh?")] &&
		    !strpbrk(options.v[i], "WX"))
			return false;
	program = argv[1 + options.n];
	return !program || strcmp(program, "-") == 0;
}

const char *hvd_interpreter_of_stdin(char *const *argv)
{
	argv = hvd_behind_env(argv);
	if (!argv[0])
		return NULL;
	if (hvd_is_python(argv[0]) ? python_reads(argv) : hvd_is_shell(argv[0]) && shell_reads(argv + 1))
		return argv[0];
	return NULL;
}
