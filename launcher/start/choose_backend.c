/* SPDX-License-Identifier: Apache-2.0 */
/* choose_backend.c - the table of all backends, and which of them starts a launch. */
#include "backend.h"

#include "slurm/alloc_slurm.h"

#include <string.h>

#define HVD_ROW(name) &hvd_backend_##name,
static const struct hvd_backend *const table[] = {HVD_LAUNCHERS(HVD_ROW)};

#define N_BACKENDS (sizeof(table) / sizeof(table[0]))

const struct hvd_backend *hvd_backend_choose(const struct hvd_launch *launch, struct hvd_err *err)
{
	const char *wanted = launch->spec->launcher;

	for (size_t i = 0; i < N_BACKENDS; i++) {
		const struct hvd_backend *backend = table[i];

		if (wanted ? strcmp(backend->name, wanted) == 0 : backend->suits(launch))
			return backend->check && backend->check(launch, err) != 0 ? NULL : backend;
	}
	hvd_err_set(err, HVD_E_USAGE, "there is no launch backend named %s", wanted ? wanted : "auto");
	return NULL;
}

static int check_binding(const char *bind, struct hvd_err *err)
{
	if (strcmp(bind, "none") == 0 || strcmp(bind, "cores") == 0 || strcmp(bind, "ldoms") == 0)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--cpu-bind=%s needs srun, but srun does not start the ranks", bind);
	return hvd_err_hint(err, "other launchers accept none, cores and ldoms (the default)");
}

/* Refuse an option that only srun knows if srun does not start the ranks: it would have no effect. */
static int reject_srun_options(const struct hvd_launch *launch, struct hvd_err *err)
{
	const char *name = launch->spec->srun.only_option, *unknown = launch->spec->srun.unknown_option;
	bool slurm = hvd_alloc_in_slurm(launch->envp) || hvd_launch_installed(launch, "srun");

	if (name && slurm) {
		hvd_err_set(err, HVD_E_USAGE, "--%s is an option of srun, but srun does not start the ranks", name);
		return hvd_err_hint(err, "leave the option out, or have srun start them: --launcher=srun");
	}
	if (name) {
		hvd_err_set(err, HVD_E_USAGE, "--%s is an option of srun, but srun is not in PATH", name);
		return hvd_err_hint(err, "load the module that puts srun into PATH, or leave the option out to start "
					 "the ranks without Slurm");
	}
	if (unknown) {
		hvd_err_set(err, HVD_E_USAGE, "unknown option %s", unknown);
		return hvd_err_hint(err, "see hvdrun --help; options that only srun's plugins know need a Slurm job%s",
				    slurm ? " or --launcher=srun" : "");
	}
	return check_binding(launch->spec->binding.ranks, err);
}

static int check_preload(const struct hvd_backend *backend, const struct hvd_launch_spec *spec, struct hvd_err *err)
{
	if (!spec->preload || backend->mode == HVD_START_HOSTS)
		return 0;
	hvd_err_set(err, HVD_E_USAGE,
		    "--preload cannot be used here: %s starts the ranks, which hvdrun then cannot fork", backend->name);
	return hvd_err_hint(err,
			    "leave it out, or have hvdrun start the ranks: with --max-restarts in a Slurm job, or by "
			    "--launcher=ssh, fork, join, blaunch or lsrun");
}

int hvd_backend_prepare(const struct hvd_backend *backend, struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (!backend->one_srun && reject_srun_options(launch, err) != 0)
		return -1;
	if (check_preload(backend, spec, err) != 0)
		return -1;
	if (spec->spares > 0 && backend == &hvd_backend_join) {
		hvd_err_set(err, HVD_E_USAGE, "--spares cannot be used with join in a job of fixed size");
		return hvd_err_hint(err, "leave it out, or let all ranks start again: --max-restarts");
	}
	if (spec->spares > 0 && (backend->mode == HVD_START_SUPERVISED_RANKS || backend == &hvd_backend_mpirun)) {
		hvd_err_set(err, HVD_E_USAGE, "--spares cannot be used with %s, which starts all ranks itself",
			    backend->name);
		return hvd_err_hint(err,
				    "leave it out, or start the ranks by srun, ssh, blaunch or lsrun (--launcher)");
	}
	if (backend->prepare)
		return backend->prepare(launch, err);
	if (!spec->hosts.listed && !hvd_launch_has_granted(launch)) {
		hvd_err_set(err, HVD_E_USAGE, "%s needs a list of hosts", backend->name);
		return hvd_err_hint(err, "list them with --hosts HOST:SLOTS,… or in a --hostfile");
	}
	if (hvd_launch_hosts(launch, err) != 0)
		return -1;
	hvd_launch_add_hosts(launch, backend->reach);
	return 0;
}
