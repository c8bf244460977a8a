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

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/job/this_host.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Have lsrun find another nios, which is the real one with SIGUSR1 ignored (lsf/server.sh). */
static void shield(const struct hvd_launch *launch, struct hvd_proc *proc)
{
	const char *server = hvd_envp_get(launch->envp, "LSF_SERVERDIR"), *slash = strrchr(launch->task, '/');
	char *ours = hvd_xasprintf("%.*s/lsf/server", slash ? (int)(slash - launch->task) : 0, launch->task);
	char *nios = hvd_xasprintf("%s/nios", ours);

	if (server && access(nios, X_OK) == 0) {
		hvd_env_set(&proc->env, "HVD_LSF_SERVERDIR", server);
		hvd_env_set(&proc->env, "LSF_SERVERDIR", ours);
	}
	free(nios);
	free(ours);
}

static void equip(struct hvd_launch *launch)
{
	for (size_t i = 0; i < launch->n_procs; i++) {
		struct hvd_proc *proc = &launch->procs[i];

		if (hvd_is_this_host(proc->host))
			continue;
		/* Else stderr comes out on stdout. */
		hvd_env_set(&proc->env, "LSF_INTERACTIVE_STDERR", "y");
		/* lsrun takes its directory along, and where the other host has none of that name the shim does not
		 * start, without a status that says so. The shim itself can tell the driver. */
		proc->cwd = "/";
		shield(launch, proc);
	}
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	if (hvd_lsf_prepare(launch, &hvd_backend_lsrun, err) != 0)
		return -1;
	equip(launch);
	return 0;
}

static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	(void)err;
	hvd_launch_add_hosts(launch, reach);
	equip(launch);
	return 0;
}

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool came,
		    struct hvd_err *why)
{
	hvd_lsf_explain(launch, proc, "lsrun -m ", " -- hostname", status, came, why);
}

const struct hvd_backend hvd_backend_lsrun = {
	.name = "lsrun",
	.mode = HVD_START_HOSTS,
	.by_stdin = true,
	.launch_proc_ignores_signals = true,
	.wake_signal = SIGCONT,
	.fan_out = 64,
	.suits = suits,
	.prepare = prepare,
	.reach = reach,
	.add_host = add_host,
	.elastic = &hvd_backend_lsrun,
	.explain = explain,
};
