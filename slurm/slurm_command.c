/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_command.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A record of a node has about a kilobyte: enough for the nodes of any cluster. */
#define OUTPUT_MAX   (64u << 20)
#define MESSAGES_MAX (1u << 20)

/* The user's environment, without what changes which records the commands print, and how. In the environment of a step
 * that an srun without configuration files has started (Slurm 22.05), SLURM_CONF is "(null)": a command would look for
 * a file of that name for a minute. */
static void command_env(struct hvd_strv *env)
{
	static const char *const out[] = {"SQUEUE_",
					  "SINFO_",
					  "SCONTROL_",
					  "SCANCEL_",
					  "LC_",
					  "LANG=",
					  "LANGUAGE=",
					  "COLUMNS=",
					  "SLURM_CLUSTERS",
					  "SLURM_TIME_FORMAT=",
					  "SLURM_BITSTR_LEN=",
					  "SLURM_CONF=(null)"};

	for (char **e = environ; *e; e++) {
		bool keep = true;

		for (size_t i = 0; keep && i < sizeof(out) / sizeof(out[0]); i++)
			keep = strncmp(*e, out[i], strlen(out[i])) != 0;
		if (keep)
			hvd_strv_add(env, *e);
	}
	hvd_strv_add(env, "LC_ALL=C");
	hvd_strv_add(env, "SLURM_TIME_FORMAT=%s");
}

/* The last line that the command has written to its stderr, without "scontrol: error: " in front. The caller frees
 * it. */
static char *last_words(int said)
{
	char path[64];
	size_t len;
	hvd_cleanup_free char *text = NULL;
	char *line, *at;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", said);
	text = hvd_read_file(path, MESSAGES_MAX, "messages", &len, NULL);
	if (!text)
		return hvd_xstrdup("");
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if ((at = strstr(line, "error: ")))
		line = at + strlen("error: ");
	else if ((at = strstr(line, "fatal: ")))
		line = at + strlen("fatal: ");
	return hvd_xstrdup(line);
}

/* These texts are the same in all releases. */
static enum hvd_errc code_of(const char *words)
{
	if (strstr(words, "Invalid job id specified") || strstr(words, "already completing or completed"))
		return HVD_E_NOENT;
	if (strstr(words, "ermission denied"))
		return HVD_E_AUTH;
	return HVD_E_FAILED;
}

static void explain(const char *command, int said, int status, struct hvd_err *err)
{
	hvd_cleanup_free char *words = last_words(said);
	char end[64];

	if (*words)
		hvd_err_set(err, code_of(words), "%s", words);
	else
		hvd_err_set(err, HVD_E_FAILED, "%s: %s", command, hvd_status_text(status, end, sizeof(end)));
}

char *hvd_slurm_command(const char *const *argv, const char *what, hvd_time deadline, struct hvd_err *err)
{
	hvd_cleanup_close int said = memfd_create("messages", MFD_CLOEXEC);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
	struct hvd_spawn sp = {.path = argv[0], .argv = (char *const *)argv, .ignore_ends = 1};
	hvd_cleanup_free char *text = NULL;
	struct hvd_err why = {0};
	int status = 0;
	size_t len;

	if (said < 0) {
		hvd_err_sys(&why, "cannot store its messages in memory");
	} else {
		command_env(&env);
		sp.envp = env.v;
		hvd_spawn_fd(&sp, said, STDERR_FILENO);
		text = hvd_capture(&sp, OUTPUT_MAX, deadline, &len, &status, &why);
		if (text && status == 0)
			return hvd_take_ptr(&text);
		if (text)
			explain(argv[0], said, status, &why);
		else if (why.code == HVD_E_NOENT) /* not the job, but the command */
			why.code = HVD_E_SYS;
	}
	if (err)
		*err = why;
	hvd_err_prefix(err, "%s", what);
	return NULL;
}
