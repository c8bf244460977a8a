/* SPDX-License-Identifier: Apache-2.0 */
#include "lsf_hosts.h"

#include "lib/net/addr.h"
#include "lib/process/spawn.h"

#include <string.h>
#include <sys/wait.h>

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

int hvd_lsf_prepare(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
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

void hvd_lsf_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, const char *before,
		     const char *after, int status, bool registered, struct hvd_err *why)
{
	const char *program = proc->argv.v[0];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	char text[64];

	if (hvd_launch_is_local(launch, proc->host))
		program = "node agent";
	hvd_status_text(status, text, sizeof(text));
	if (!registered && hvd_launch_explain_begin(code, why))
		return;
	if (!registered && !hvd_launch_is_local(launch, proc->host) && !hvd_name_resolves(proc->host)) {
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
