/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsrun.c - ranks on the hosts of a job of OpenLava or Volclava, which have no blaunch: one lsrun per host.
 *
 * Observed behaviour of these schedulers: lsrun passes words on unchanged,
 * without a shell. Its exit status is always 0, whatever the command's is. When
 * a signal ends lsrun, the remote side kills the process group of the node
 * agent at once, which then cannot end processes that its ranks have started in
 * other sessions. So lsrun is started with the usual signals ignored, statuses
 * and the order to end are sent over the node agents' connections, and killing
 * lsrun is the last resort.
 *
 * lsrun's helper, nios, checks whether the remote side has connected before it
 * waits for input. If the connection comes in between, nios leaves its stdin
 * unread until a signal wakes it up, and the node agent never gets the launch's
 * data. SIGCONT does that: nios passes it on to the node agent, which ignores it.
 */
#include "lsf_hosts.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

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

/* Have lsrun find a nios that runs the real one with SIGUSR1 ignored (lsf/server.sh). */
static void shield(const struct hvd_launch *launch, struct hvd_proc *proc)
{
	const char *server = hvd_envp_get(launch->envp, "LSF_SERVERDIR"), *slash = strrchr(launch->agent, '/');
	char *ours = hvd_xasprintf("%.*s/lsf/server", slash ? (int)(slash - launch->agent) : 0, launch->agent);
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

		if (hvd_launch_is_local(launch, proc->host))
			continue;
		/* Without this lsrun writes stderr to stdout. */
		hvd_env_set(&proc->env, "LSF_INTERACTIVE_STDERR", "y");
		/* lsrun starts the node agent in lsrun's own directory. If the other host does not have it, nothing
		 * starts, and no status shows it. In / the node agent starts, and can report what is missing. */
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

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
		    struct hvd_err *why)
{
	hvd_lsf_explain(launch, proc, "lsrun -m ", " -- hostname", status, registered, why);
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
