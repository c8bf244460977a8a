/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_notes.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/process/interpreter.h"

#include <unistd.h>

/* If Slurm is installed and the user chose neither Slurm nor this host, report that the ranks run on this host. */
static void say_where(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	char host[256] = "this host";

	if (launch->spec->hosts.said || launch->spec->output.quiet || !(backend->loopback || launch->one_machine) ||
	    hvd_scheduler_of(launch->envp) != &hvd_scheduler_none || !hvd_launch_installed(launch, "srun"))
		return;
	gethostname(host, sizeof(host) - 1);
	hvd_info(launch->log,
		 "the ranks run on %s, outside of Slurm, because no srun option is given (-n in place of -np, or "
		 "--launcher=srun, starts them through Slurm; --launcher=fork starts them here without this message)",
		 host);
}

/* The command takes a script from standard input, which not all ranks get: the others run nothing, and end well. */
static void say_input(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const char *reader = spec->selftest ? NULL : hvd_interpreter_of_stdin(spec->command);
	const bool one = !backend->one_srun || (spec->as_horovodrun && !spec->srun.input && !spec->srun.pty);

	if (!reader || (!spec->elastic.on && (!one || isatty(STDIN_FILENO) || launch->alloc.slots == 1)))
		return;
	if (spec->elastic.on)
		hvd_warn(launch->log,
			 "%s reads its program from standard input, which ranks of an elastic job do not get: "
			 "they run nothing",
			 reader);
	else
		hvd_warn(launch->log,
			 "%s reads its program from standard input, which only rank 0 gets: all others run "
			 "nothing, and end with status 0",
			 reader);
	hvd_info(launch->log, "put the program into a file, and write %s FILE%s", reader,
		 !spec->elastic.on && (backend->one_srun || hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm)
			 ? "; where srun starts the ranks, --input=all gives it to all of them"
			 : "");
}

void hvd_launch_notes(const struct hvd_launch *launch, const struct hvd_backend *backend)
{
	say_where(launch, backend);
	say_input(launch, backend);
}
