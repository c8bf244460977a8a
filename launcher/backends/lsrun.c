/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsrun.c - ranks on the hosts of a job of OpenLava and its kin, which have no blaunch: one lsrun per host.
 *
 * What it does was seen on such a scheduler: words arrive as they are, without
 * a shell; its own status is always 0, whatever became of the command; a signal
 * that ends it has the other side kill the shim's group at once, out of which
 * the shim could not end what its ranks have started in sessions of their own.
 * So it ignores the usual signals, statuses and the end come over the shims'
 * connections, and killing it is the last resort.
 *
 * Its helper, nios, looks whether the remote side has connected before it waits
 * for input. If the connection comes in between, nios leaves its stdin unread
 * until it is woken up, and the shim never gets the launch's data. SIGCONT
 * wakes it up: nios passes it on to the shim, which ignores it.
 */
#include "lsf_hosts.h"

#include <signal.h>

static bool suits(const struct hvd_launch *launch)
{
	return hvd_alloc_in_lsf(launch->envp) && hvd_launch_installed(launch, "lsrun") &&
	       !hvd_launch_installed(launch, "blaunch");
}

static void reach(const struct hvd_launch *launch, const char *host, char *const *shim, struct hvd_strv *argv)
{
	(void)launch;
	hvd_strv_add(argv, "lsrun");
	hvd_strv_add(argv, "-m");
	hvd_strv_add(argv, host);
	hvd_strv_add(argv, "--");
	hvd_strv_add_all(argv, shim);
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	if (hvd_lsf_prepare(launch, &hvd_backend_lsrun, err) != 0)
		return -1;
	/* Else stderr comes out on stdout. */
	for (size_t i = 0; i < launch->n_procs; i++)
		hvd_env_set(&launch->procs[i].env, "LSF_INTERACTIVE_STDERR", "y");
	return 0;
}

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool came,
		    struct hvd_err *why)
{
	hvd_lsf_explain(launch, proc, "lsrun -m ", " -- hostname", status, came, why);
}

const struct hvd_backend hvd_backend_lsrun = {
	.name = "lsrun",
	.starts_hosts = true,
	.by_stdin = true,
	.deaf = true,
	.wake_signal = SIGCONT,
	.fan_out = 64,
	.suits = suits,
	.prepare = prepare,
	.reach = reach,
	.elastic = &hvd_backend_lsrun,
	.explain = explain,
};
