/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blaunch.c - ranks on the hosts of an LSF job: one blaunch per host, which starts that host's node agent.
 *
 * No documentation says which environment and directory blaunch passes on. So
 * the node agent reads them from its stdin (lib/protocol/preamble.h), as with
 * ssh, and reports the ranks' exit statuses over its connection to the driver.
 * By default a shell on the other host reads the command (IBM Spectrum LSF,
 * "blaunch", -no-shell), so each word is quoted once. Nothing here has run with
 * IBM's blaunch.
 *
 * The node agent of this host is started without blaunch: LSF tracks what a job
 * starts on its first host anyway.
 */
#include "lsf_hosts.h"

#include <stdlib.h>

/* In any LSF job, also where blaunch is not installed: its prepare then says what is missing. */
static bool suits(const struct hvd_launch *launch)
{
	return hvd_alloc_in_lsf(launch->envp);
}

static void reach(const struct hvd_launch *launch, const char *host, char *const *shim, struct hvd_strv *argv)
{
	(void)launch;
	hvd_strv_add(argv, "blaunch");
	hvd_strv_add(argv, host);
	for (char *const *word = shim; *word; word++) {
		char *quoted = hvd_shell_quote(*word);

		hvd_strv_add(argv, quoted);
		free(quoted);
	}
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	return hvd_lsf_prepare(launch, &hvd_backend_blaunch, err);
}

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
		    struct hvd_err *why)
{
	hvd_lsf_explain(launch, proc, "blaunch ", " hostname", status, registered, why);
}

const struct hvd_backend hvd_backend_blaunch = {
	.name = "blaunch",
	.mode = HVD_START_HOSTS,
	.by_stdin = true,
	.launch_proc_ignores_signals = true,
	.fan_out = 64,
	.suits = suits,
	.prepare = prepare,
	.reach = reach,
	.elastic = &hvd_backend_blaunch,
	.explain = explain,
};
