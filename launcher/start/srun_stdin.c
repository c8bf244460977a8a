/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_stdin.c - the launch's key for srun's tasks where there is no munge.
 *
 * srun copies its stdin to all of its tasks, over connections that Slurm itself
 * authenticates; what it copies is in no environment and on no command line. So
 * the key comes first on the shims' stdin (lib/protocol/preamble.h), and
 * hvdrun's own stdin follows. srun must send the key to every task, so the
 * shims implement --input.
 */
#include "backend.h"

#include <string.h>

static int refuse(const char *what, struct hvd_err *err)
{
	hvd_err_set(
		err, HVD_E_USAGE,
		"there is no munge here, so the launch's key is sent on the ranks' stdin, which is impossible with %s",
		what);
	return hvd_err_hint(err, "name a key file of mode 0600 that all hosts can read: --key-file=FILE");
}

/* Set *whose to the rank that gets hvdrun's stdin, to "none", or to NULL for all ranks. -1: no such input is
 * possible. */
static int whose_input(const struct hvd_launch *launch, const char **whose, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const char *input = spec->srun.input ? spec->srun.input : spec->as_horovodrun ? "0" : "all";

	*whose = NULL;
	if (spec->srun.pty)
		return refuse("--pty", err);
	if (strcmp(input, "all") == 0)
		return 0;
	if (strcmp(input, "none") != 0 && (!*input || input[strspn(input, "0123456789")]))
		return refuse("a file as --input", err);
	*whose = input;
	return 0;
}

int hvd_srun_by_stdin(struct hvd_launch *launch, struct hvd_err *err)
{
	struct hvd_strv *argv = &launch->procs[0].argv, words = {0};
	const char *whose;
	bool past = false; /* the words that start the shim */

	if (whose_input(launch, &whose, err) != 0)
		return -1;
	for (size_t i = 0; i < argv->n; i++) {
		bool here = !past && strcmp(argv->v[i], launch->agent) == 0;

		if (here && whose)
			hvd_strv_add(&words, "--input=all"); /* the last --input counts */
		hvd_strv_add(&words, argv->v[i]);
		if (!here)
			continue;
		past = true;
		hvd_strv_add(&words, argv->v[++i]); /* the subcommand */
		hvd_strv_add(&words, "--stdin");
		if (whose)
			hvd_strv_addf(&words, "--input=%s", whose);
	}
	hvd_strv_free(argv);
	*argv = words;
	launch->by_stdin = true;
	launch->no_input = whose && strcmp(whose, "none") == 0;
	return 0;
}
