/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf_hosts.c - ranks on the hosts of an LSF job: one blaunch or lsrun per host, which starts that host's node agent.
 *
 * The node agent reads environment and directory from its stdin (lib/protocol/preamble.h), as with ssh, and reports the
 * ranks' exit statuses over its connection to the driver. The node agent of this host is started without such a command:
 * LSF tracks what a job starts on its first host anyway.
 *
 * blaunch: no documentation says which environment and directory it passes on. By default a shell on the other host
 * reads the command (IBM Spectrum LSF, "blaunch", -no-shell), so each word is quoted once. Nothing here has run with
 * IBM's blaunch.
 *
 * lsrun, where there is no blaunch (OpenLava, Volclava): observed behaviour is that it passes words on unchanged,
 * without a shell. Its exit status is always 0, whatever the command's is. When a signal ends lsrun, the remote side
 * kills the process group of the node agent at once, which then cannot end processes that its ranks have started in
 * other sessions. So lsrun is started with the usual signals ignored, statuses and the order to end are sent over the
 * node agents' connections, and killing lsrun is the last resort.
 *
 * lsrun's helper, nios, checks whether the remote side has connected before it waits for input. If the connection comes
 * in between, nios leaves its stdin unread until a signal wakes it up, and the node agent never gets the launch's data.
 * SIGCONT does that: nios passes it on to the node agent, which ignores it.
 */
#include "backend.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/net/addr.h"
#include "lib/process/spawn.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int missing(const struct hvd_launch *launch, const char *program, const char *host, struct hvd_err *err)
{
	bool chosen = launch->spec->launcher != NULL;

	if (chosen)
		hvd_err_set(err, HVD_E_USAGE, "%s is not in PATH, so it cannot start ranks on %s", program, host);
	else
		hvd_err_set(err, HVD_E_USAGE,
			    "none of LSF's launchers (jsrun, blaunch, lsrun) is in PATH to start ranks on %s", host);
	return hvd_err_hint(err, "source LSF's profile.lsf in the job script before hvdrun; or use --launcher=ssh, if "
				 "you can log in to the hosts");
}

/* A process for each host of the LSF job, or for each that the user listed. Refuses a launch outside of LSF, and one that
 * reaches other hosts where the backend's program is not in PATH. */
static int prepare_hosts(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	const char *program = backend->name;

	if (!hvd_alloc_in_lsf(launch->envp)) {
		hvd_err_set(err, HVD_E_USAGE, "%s starts ranks inside an LSF job only, and this is not one", program);
		return hvd_err_hint(err, "submit a script that calls hvdrun: bsub -n 8 ./job.sh; see hvd-lsf(7)");
	}
	if (hvd_launch_hosts(launch, err) != 0)
		return -1;
	hvd_launch_find_local(launch, &launch->alloc);
	for (int i = 0; i < launch->alloc.n_hosts; i++)
		if (!hvd_launch_is_local(launch, launch->alloc.hosts[i].name) && !hvd_launch_installed(launch, program))
			return missing(launch, program, launch->alloc.hosts[i].name, err);
	hvd_launch_add_hosts(launch, backend->reach);
	return 0;
}

/* `before`, the host's name and `after` together are a command for the user to try. */
static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, const char *before, const char *after,
		    int status, bool registered, struct hvd_err *why)
{
	const char *program = proc->argv.v[0];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	bool local = hvd_launch_is_local(launch, proc->host);
	char text[64];

	if (local)
		program = "node agent";
	hvd_status_text(status, text, sizeof(text));
	if (!registered && hvd_launch_explain_begin(code, why))
		return;
	if (!registered && !local && !hvd_name_resolves(proc->host)) {
		hvd_err_set(why, HVD_E_FAILED,
			    "its %s ended before its ranks did (%s), and its name does not resolve here", program,
			    text);
		hvd_err_hint(why,
			     "getent hosts %s finds nothing: add it to DNS or /etc/hosts, or leave it out with --hosts",
			     proc->host);
		return;
	}
	hvd_err_set(why, HVD_E_FAILED, "its %s ended before its ranks did: %s", program, text);
	if (registered) {
		hvd_err_hint(why, "did the host or its network go down, or was the job ended? (bhosts %s, bjobs -l)",
			     proc->host);
		return;
	}
	hvd_err_hint(why, "this must work in the job: %s%s%s. Is this suite installed there under the same path (%s)?",
		     before, proc->host, after, launch->agent);
}

/* ---- blaunch ---- */

/* In any LSF job, also where blaunch is not installed: its prepare then says what is missing. */
static bool blaunch_suits(const struct hvd_launch *launch)
{
	return hvd_alloc_in_lsf(launch->envp);
}

static void blaunch_reach(const struct hvd_launch *launch, const char *host, char *const *agent, struct hvd_strv *argv)
{
	(void)launch;
	hvd_strv_add(argv, "blaunch");
	hvd_strv_add(argv, host);
	for (char *const *word = agent; *word; word++) {
		hvd_cleanup_free char *quoted = hvd_shell_quote(*word);

		hvd_strv_add(argv, quoted);
	}
}

static int blaunch_prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	return prepare_hosts(launch, &hvd_backend_blaunch, err);
}

static void blaunch_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
			    struct hvd_err *why)
{
	explain(launch, proc, "blaunch ", " hostname", status, registered, why);
}

const struct hvd_backend hvd_backend_blaunch = {
	.name = "blaunch",
	.mode = HVD_START_HOSTS,
	.by_stdin = true,
	.launch_proc_ignores_signals = true,
	.fan_out = 64,
	.suits = blaunch_suits,
	.prepare = blaunch_prepare,
	.reach = blaunch_reach,
	.elastic = &hvd_backend_blaunch,
	.explain = blaunch_explain,
};

/* ---- lsrun ---- */

static bool lsrun_suits(const struct hvd_launch *launch)
{
	return hvd_alloc_in_lsf(launch->envp) && hvd_launch_installed(launch, "lsrun") &&
	       !hvd_launch_installed(launch, "blaunch");
}

static void lsrun_reach(const struct hvd_launch *launch, const char *host, char *const *agent, struct hvd_strv *argv)
{
	(void)launch;
	hvd_strv_add(argv, "lsrun");
	hvd_strv_add(argv, "-m");
	hvd_strv_add(argv, host);
	hvd_strv_add(argv, "--");
	hvd_strv_add_all(argv, agent);
}

/* Have lsrun find a nios that runs the real one with SIGUSR1 ignored (lsf/server.sh). */
static void shield(const struct hvd_launch *launch, struct hvd_proc *proc)
{
	const char *server = hvd_envp_get(launch->envp, "LSF_SERVERDIR"), *slash = strrchr(launch->agent, '/');
	hvd_cleanup_free char *ours =
		hvd_xasprintf("%.*s/lsf/server", slash ? (int)(slash - launch->agent) : 0, launch->agent);
	hvd_cleanup_free char *nios = hvd_xasprintf("%s/nios", ours);

	if (server && access(nios, X_OK) == 0) {
		hvd_env_set(&proc->env, "HVD_LSF_SERVERDIR", server);
		hvd_env_set(&proc->env, "LSF_SERVERDIR", ours);
	}
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

static int lsrun_prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	if (prepare_hosts(launch, &hvd_backend_lsrun, err) != 0)
		return -1;
	equip(launch);
	return 0;
}

static int lsrun_add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	(void)err;
	hvd_launch_add_hosts(launch, lsrun_reach);
	equip(launch);
	return 0;
}

static void lsrun_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
			  struct hvd_err *why)
{
	explain(launch, proc, "lsrun -m ", " -- hostname", status, registered, why);
}

const struct hvd_backend hvd_backend_lsrun = {
	.name = "lsrun",
	.mode = HVD_START_HOSTS,
	.by_stdin = true,
	.launch_proc_ignores_signals = true,
	.wake_signal = SIGCONT,
	.fan_out = 64,
	.suits = lsrun_suits,
	.prepare = lsrun_prepare,
	.reach = lsrun_reach,
	.add_host = lsrun_add_host,
	.elastic = &hvd_backend_lsrun,
	.explain = lsrun_explain,
};
