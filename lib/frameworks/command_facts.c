/* SPDX-License-Identifier: Apache-2.0 */
#include "command_facts.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/interpreter.h"
#include "lib/process/program.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATHS_MOST   64          /* entries of PATH that are looked at */
#define FILE_BYTES   4096        /* that are read of a file */
#define SCRIPT_BYTES (64 * 1024) /* that are read of a script */
#define WORDS_MOST   256         /* of a command */

/* ---- the Python of a command ---- */

/* The first word of `text`, without quotes; the caller frees it. */
static char *first_word(const char *text)
{
	text += strspn(text, " \t\"");
	return hvd_xstrndup(text, strcspn(text, " \t\"\n"));
}

char *hvd_script_python(const char *script)
{
	static const char through_shell[] = "\n'''exec' ";
	const char *shell;
	hvd_cleanup_free char *word = NULL;

	if (strncmp(script, "#!", 2) != 0)
		return NULL;
	script += 2;
	shell = strchr(script, '\n');
	if (shell && strncmp(shell, through_shell, sizeof(through_shell) - 1) == 0)
		script = shell + sizeof(through_shell) - 1;
	word = first_word(script);
	if (strcmp(word, "/usr/bin/env") == 0) {
		script = strstr(script, word) + strlen(word);
		script += strspn(script, " \t");
		if (strncmp(script, "-S", 2) == 0)
			script += 2;
		free(word);
		word = first_word(script);
	}
	return hvd_is_python(word) ? hvd_take_ptr(&word) : NULL;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The path of a program; the caller frees it. NULL: there is none. */
static char *find_program(const char *name, char *const *envp)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv paths = {0};

	if (strchr(name, '/'))
		return hvd_xstrdup(name);
	hvd_program_paths(&paths, name, envp);
	for (size_t k = 0; k < paths.n && k < PATHS_MOST; k++)
		if (paths.v[k][0] == '/' && is_program(paths.v[k]))
			return hvd_xstrdup(paths.v[k]);
	return NULL;
}

/* Does the command run in a file system of its own? */
static bool is_container(const char *command)
{
	static const char *const names[] = {"apptainer", "singularity", "podman",  "podman-hpc", "docker",
					    "enroot",    "ch-run",      "shifter", "sarus",      "udocker",
					    "bwrap",     "proot",       "chroot",  "nerdctl",    "charliecloud"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(basename(command), names[i]) == 0)
			return true;
	return false;
}

/* The Python that runs the command; the caller frees it. NULL: it is none, as far as is known. */
static char *python_of(const char *command, char *const *envp)
{
	hvd_cleanup_free char *program = find_program(command, envp), *named = NULL;
	char text[FILE_BYTES + 1];

	if (!program || hvd_is_python(program))
		return hvd_take_ptr(&program);
	if (!hvd_read_start(program, text, FILE_BYTES))
		return NULL;
	named = hvd_script_python(text);
	return named ? find_program(named, envp) : NULL;
}

/* The Python of the environment. */
static char *python_around(char *const *envp)
{
	static const char *const folders[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
	char *python;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *folder = hvd_envp_get(envp, folders[i]);
		hvd_cleanup_free char *path = folder ? hvd_xasprintf("%s/bin/python", folder) : NULL;

		if (path && is_program(path))
			return hvd_take_ptr(&path);
	}
	python = find_program("python", envp);
	return python ? python : find_program("python3", envp);
}

static unsigned torch_of(const char *command, char *const *envp)
{
	hvd_cleanup_free char *python = NULL;

	if (command && is_container(command))
		return 0;
	python = command ? python_of(command, envp) : NULL;
	if (!python)
		python = python_around(envp);
	return python ? hvd_torch_of_python(python, envp) : 0;
}

/* ---- what it starts ---- */

/* The text of the script that the command runs; empty if it runs none. */
static void read_script(char *const *argv, char *const *envp, char text[SCRIPT_BYTES + 1])
{
	hvd_cleanup_free char *path = NULL;
	size_t i = hvd_is_shell(argv[0]);

	while (i > 0 && argv[i] && argv[i][0] == '-' && !strchr(argv[i], 'c'))
		i++;
	path = argv[i] && argv[i][0] != '-' ? find_program(argv[i], envp) : NULL;
	if (i > 0 && argv[i] && access(argv[i], R_OK) == 0) {
		free(path);
		path = hvd_xstrdup(argv[i]);
	}
	text[0] = '\0';
	if (path)
		hvd_read_start(path, text, SCRIPT_BYTES);
	if (i == 0 && strncmp(text, "#!", 2) != 0)
		text[0] = '\0';
}

static bool mentions(char *const *argv, const char *script, const char *what)
{
	for (size_t i = 0; i < WORDS_MOST && argv[i]; i++)
		if (strstr(argv[i], what))
			return true;
	return strstr(script, what);
}

/* Is it a program in Python that is no launcher? */
static bool is_python_program(char *const *argv, const char *script)
{
	hvd_cleanup_free char *python = hvd_script_python(script);
	const char *name = basename(argv[0]), *dot = strrchr(name, '.');

	if (hvd_is_python(name))
		return !mentions(argv, "", "torch.distributed") && !mentions(argv, "", "torchrun") &&
		       !mentions(argv, "", "accelerate");
	return python && dot && strcmp(dot, ".py") == 0;
}

/* The text of the program that a command such as "python -u train.py" runs. */
static void read_program(char *const *argv, char text[SCRIPT_BYTES + 1])
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv options = {0};

	hvd_python_options(argv, &options);
	text[0] = '\0';
	if (options.n < WORDS_MOST && argv[1 + options.n] && argv[1 + options.n][0] != '-')
		hvd_read_start(argv[1 + options.n], text, SCRIPT_BYTES);
}

/* Does the text of a program in Python show that each of its ranks uses one GPU? */
static bool uses_one_gpu(const char *program)
{
	static const char *const one[] = {"LOCAL_RANK", "init_process_group", "Accelerator("};
	static const char *const more[] = {"spawn",    "import ray",           "from ray", "subprocess",
					   "torchrun", "import jax",           "from jax", "device_map",
					   "vllm",     "multiprocessing as mp"};
	bool found = false;

	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		found = found || strstr(program, one[i]);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		found = found && !strstr(program, more[i]);
	return found;
}

struct hvd_command_facts hvd_command_facts(char *const *argv, char *const *envp)
{
	const char *command = argv ? argv[0] : NULL;
	struct hvd_command_facts facts = {.torch = torch_of(command, envp)};
	hvd_cleanup_free char *script = hvd_xcalloc(SCRIPT_BYTES + 1, 1);

	if (!command)
		return facts;
	read_script(argv, envp, script);
	facts.torchrun = mentions(argv, script, "torchrun") || mentions(argv, script, "torch.distributed.run") ||
			 mentions(argv, script, "torch.distributed.launch");
	facts.no_torchrun = is_python_program(argv, script) || mentions(argv, script, "--standalone");
	facts.ray = strcmp(basename(command), "ray") == 0 || mentions(argv, script, "ray start") ||
		    mentions(argv, script, "ray symmetric-run");
	if (is_python_program(argv, script)) {
		if (hvd_is_python(command))
			read_program(argv, script);
		facts.one_gpu = uses_one_gpu(script);
	}
	return facts;
}
