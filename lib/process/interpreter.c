/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreter.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "python_command.h"

#include <string.h>

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
