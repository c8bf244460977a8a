/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Linux reads so many bytes of a line that begins with #!. */
#define FIRST_LINE 256

void hvd_program_paths(struct hvd_strv *paths, const char *name, char *const *envp)
{
	const char *search = hvd_envp_get(envp, "PATH");

	if (strchr(name, '/')) {
		hvd_strv_add(paths, name);
		return;
	}
	if (!search)
		search = "/usr/local/bin:/usr/bin:/bin";
	for (;;) {
		size_t len = strcspn(search, ":");

		hvd_strv_addf(paths, "%.*s%s%s", (int)len, search, len ? "/" : "", name);
		if (!search[len])
			return;
		search += len + 1;
	}
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool found(const char *name, char *const *envp)
{
	return hvd_program_look(name, envp) == 0;
}

static bool is_elf(const char *start)
{
	return strncmp(start, "\177ELF", 4) == 0;
}

/* The interpreter of a line "#! /bin/sh -e", within `start`, which is cut behind it. NULL: there is no such line. */
static char *interpreter(char *start)
{
	char *word;

	if (strncmp(start, "#!", 2) != 0)
		return NULL;
	word = start + 2 + strspn(start + 2, " \t");
	word[strcspn(word, " \t\n")] = '\0';
	return word;
}

static int look_at(const char *path)
{
	char start[FIRST_LINE], *program;

	if (access(path, F_OK) != 0)
		return errno;
	if (!is_file(path) || access(path, X_OK) != 0)
		return EACCES;
	hvd_read_start(path, start, FIRST_LINE - 1);
	program = interpreter(start);
	return program && *program && access(program, X_OK) != 0 ? errno : 0;
}

int hvd_program_look(const char *name, char *const *envp)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv paths = {0};
	int error = ENOENT;

	hvd_program_paths(&paths, name, envp);
	for (size_t i = 0; i < paths.n; i++) {
		int rc = look_at(paths.v[i]);

		if (rc == 0)
			return 0;
		if (rc == EACCES || paths.n == 1)
			error = rc;
	}
	return error;
}

/* ---- what to write ---- */

static const char *python(char *const *envp)
{
	return !found("python", envp) && found("python3", envp) ? "python3" : "python";
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n > m && strcmp(name + n - m, with) == 0;
}

/* The interpreter with which the file is run; NULL: it is not known. */
static const char *runs_by(const char *path, char *const *envp)
{
	char start[FIRST_LINE];

	hvd_read_start(path, start, FIRST_LINE - 1);
	start[strcspn(start, "\n")] = '\0';
	if (ends(path, ".py") || (strncmp(start, "#!", 2) == 0 && strstr(start, "python")))
		return python(envp);
	if (ends(path, ".sh") || (strncmp(start, "#!", 2) == 0 && strstr(start, "sh")))
		return "bash";
	return NULL;
}

/* Is not in PATH, but is a file of the current directory. */
static int explain_here(const char *name, char *const *envp, struct hvd_err *err)
{
	const char *by = runs_by(name, envp);

	if (is_folder(name))
		return hvd_err_hint(err, "%s is a folder, not a program: write the program in front of it", name);
	if (by)
		return hvd_err_hint(err, "%s is a file in this folder, not a program in PATH: write %s %s", name, by,
				    name);
	return hvd_err_hint(err, "%s is a file in this folder, which is not in PATH: write ./%s%s", name, name,
			    access(name, X_OK) == 0 ? "" : ", and make it executable (chmod +x)");
}

static int explain_not_found(const char *name, char *const *envp, struct hvd_err *err)
{
	if (is_file(name) || is_folder(name))
		return explain_here(name, envp, err);
	if (strcmp(name, "python") == 0 && found("python3", envp))
		return hvd_err_hint(err, "there is no python in PATH, but python3: write python3, or activate the "
					 "environment or load the module that has python");
	return hvd_err_hint(err, "%s was not found in PATH; give its full path or load its module", name);
}

/* The file is there, so what it needs to run is not. */
static int explain_interpreter(const char *path, char *const *envp, struct hvd_err *err)
{
	char start[FIRST_LINE], *program;
	const char *by = runs_by(path, envp);
	size_t n;

	hvd_read_start(path, start, FIRST_LINE - 1);
	if (is_elf(start))
		return hvd_err_hint(err, "%s is there, but not the loader that it was built for: file %s names it",
				    path, path);
	program = interpreter(start);
	if (!program)
		return -1;
	n = strlen(program);
	if (n && program[n - 1] == '\r')
		return hvd_err_hint(err,
				    "the lines of %s end as on Windows, so its first line names a program that does "
				    "not exist: convert it (dos2unix %s)",
				    path, path);
	return hvd_err_hint(err,
			    "the first line of %s (#!) names %s, which does not exist here: correct the line%s%s%s%s",
			    path, program, by ? ", or write " : "", by ? by : "", by ? " " : "", by ? path : "");
}

static int explain_denied(const char *path, char *const *envp, struct hvd_err *err)
{
	const char *by = runs_by(path, envp);
	struct statvfs fs;

	if (is_folder(path))
		return hvd_err_hint(err, "%s is a folder, not a program", path);
	if (!is_file(path))
		return -1;
	if (access(path, X_OK) != 0)
		return hvd_err_hint(err, "%s is not executable: %s%s%s%s%schmod +x %s", path, by ? "write " : "",
				    by ? by : "", by ? " " : "", by ? path : "", by ? ", or " : "", path);
	if (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOEXEC)
		return hvd_err_hint(err, "the file system of %s does not allow to run programs (it is mounted noexec)",
				    path);
	return -1;
}

static int explain_format(const char *path, char *const *envp, struct hvd_err *err)
{
	const char *by = runs_by(path, envp);
	char start[FIRST_LINE];

	hvd_read_start(path, start, FIRST_LINE - 1);
	if (is_elf(start))
		return hvd_err_hint(err, "%s was built for another processor: file %s says for which", path, path);
	return hvd_err_hint(err, "%s is no program, and has no first line with #! and an interpreter: write %s %s",
			    path, by ? by : "bash", path);
}

/* The path that execve(2) was last refused. */
static const char *refused_path(const struct hvd_strv *paths, int error)
{
	for (size_t i = 0; i < paths->n; i++)
		if (look_at(paths->v[i]) == error || (error == ENOEXEC && look_at(paths->v[i]) == 0))
			return paths->v[i];
	return paths->v[0];
}

void hvd_program_explain(const char *name, char *const *envp, int error, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv paths = {0};
	const char *path;

	if (!*name)
		return;
	hvd_program_paths(&paths, name, envp);
	path = refused_path(&paths, error);
	if (error == EACCES)
		explain_denied(path, envp, err);
	else if (error == ENOEXEC)
		explain_format(path, envp, err);
	else if (error == ENOENT && is_file(path))
		explain_interpreter(path, envp, err);
	else if (error == ENOENT && !strchr(name, '/'))
		explain_not_found(name, envp, err);
}

int hvd_program_error(const char *name, char *const *envp, int error, struct hvd_err *err)
{
	errno = error;
	hvd_err_sys(err, "cannot run %s", name);
	hvd_program_explain(name, envp, error, err);
	return -1;
}

/* Does slurmstepd write lines like this? "slurmstepd-HOST: error: …", and since 26.05 "[TIME] error: …". */
static bool is_step_daemons(const char *line)
{
	return strncmp(line, "slurmstepd", 10) == 0 || (*line == '[' && line[1] >= '0' && line[1] <= '9');
}

/* Where slurmstepd's line has these words, and not one of the rank's own; NULL if there is none. */
static const char *find_refusal(const char *text, const char *mark)
{
	for (const char *at = text; at && (at = strstr(at, mark)); at++) {
		const char *line = at;

		while (line > text && line[-1] != '\n')
			line--;
		if (is_step_daemons(line))
			return at;
	}
	return NULL;
}

bool hvd_program_refused(const char *text, int code, char *const *envp, struct hvd_err *err)
{
	static const char mark[] = "error: execve(): ", bad[] = "bad interpreter(";
	const char *at = find_refusal(text, mark), *why = strerror(code);
	hvd_cleanup_free char *name = NULL;
	size_t n;

	if (code <= 0 || !at)
		return false;
	at += strlen(mark);
	n = strcspn(at, "\n");
	if (n <= strlen(why) + 2 || strncmp(at + n - strlen(why), why, strlen(why)) != 0)
		return false;
	name = hvd_xstrndup(at, n - strlen(why) - 2);
	errno = code;
	if (strncmp(name, bad, strlen(bad)) != 0) {
		hvd_program_error(name, envp, code, err);
	} else {
		hvd_err_sys(err, "cannot run %.*s", (int)strcspn(name + strlen(bad), ")"), name + strlen(bad));
		hvd_err_hint(err, "the first line of the program (#!) names it");
	}
	return true;
}
