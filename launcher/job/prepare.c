/* SPDX-License-Identifier: Apache-2.0 */
#include "prepare.h"

#include "elastic.h"
#include "launch_notes.h"
#include "launcher/options/rank_commands.h"
#include "launcher/options/role_specs.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/start/agent_pool.h"
#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/process/multi_prog.h"
#include "lib/process/program.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/munge.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The exit status if the program cannot be run, as a shell has it. */
#define NOT_RUNNABLE 127

static void driver_opts(const struct hvd_launch *launch, const struct hvd_backend *backend,
			struct hvd_driver_opts *opts)
{
	opts->spec = launch->spec;
	opts->mode = backend->mode;
	opts->queued = backend->one_srun;
	if (launch->spec->spares > 0)
		opts->wanted_ranks = (uint32_t)launch->spec->ranks.n;
	opts->ranks_per_host = launch->spec->srun.places_tasks && launch->spec->srun.tasks_per_node;
	opts->loopback = backend->loopback || launch->one_machine;
	opts->clients = launch->agent_pool ? hvd_agent_pool_clients(launch->agent_pool) : NULL;
	if (backend->mode == HVD_START_RANKS)
		return;
	opts->hosts = (uint32_t)launch->alloc.n_hosts;
	for (int i = 0; i < launch->alloc.n_hosts; i++)
		hvd_strv_add(&opts->names, launch->alloc.hosts[i].name);
}

/* --kill-wait, or what the scheduler gives the processes of this job; 0 = not known. */
static void take_kill_wait(const struct hvd_launch_spec *spec, int scheduler, struct hvd_driver_opts *opts)
{
	if (spec->kill_wait >= 0)
		opts->kill_wait = spec->kill_wait;
	else
		opts->kill_wait = scheduler > 0 ? scheduler : HVD_KILL_WAIT;
}

/* Apply Slurm's configuration: the driver listens within srun's range of ports, and without munge srun's tasks get the
 * launch's key on their stdin. */
static int ask_site(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_err *err)
{
	bool keyless = !launch->spec->key_file;
	struct hvd_slurm_site site;
	int rc = hvd_slurm_site_get(&site, hvd_deadline_in(HVD_SLURM_SECONDS), err);

	if (rc != 0)
		hvd_err_hint(err, "does 'scontrol show config' work here? --launcher=fork uses this machine only");
	opts->port_lo = (in_port_t)site.port_lo;
	opts->port_hi = (in_port_t)site.port_hi;
	take_kill_wait(launch->spec, site.kill_wait, opts);
	launch->unbound = !site.binds;
	keyless = keyless && (!site.munge || hvd_munge_here(NULL, NULL) != 0);
	if (rc == 0 && keyless && backend == &hvd_backend_srun)
		rc = hvd_srun_by_stdin(launch, err);
	else if (backend == &hvd_backend_steps)
		launch->by_stdin = keyless;
	return rc;
}

/* The same if the scheduler does not start the ranks, but may have given the hosts. */
static void ask_kill_wait(const struct hvd_launch *launch, struct hvd_driver_opts *opts)
{
	const struct hvd_scheduler *scheduler = hvd_scheduler_of(launch->envp);
	int seconds = 0;

	if (launch->spec->kill_wait < 0 && scheduler->kill_wait)
		seconds = scheduler->kill_wait(hvd_deadline_in(HVD_SLURM_SECONDS));
	take_kill_wait(launch->spec, seconds, opts);
}

int hvd_prepare_output_dir(const struct hvd_launch_spec *spec, struct hvd_err *err)
{
	const char *path = spec->output.dir;

	if (!path || spec->dry_run)
		return 0;
	for (const char *slash = path; slash; slash = strchr(slash + 1, '/')) {
		hvd_cleanup_free char *part = hvd_xstrndup(path, (size_t)(slash - path));

		if (*part && mkdir(part, 0777) != 0 && errno != EEXIST)
			break;
	}
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return 0;
	hvd_err_sys(err, "cannot create the folder %s for the ranks' output", path);
	err->code = HVD_E_USAGE;
	return -1;
}

const struct hvd_backend *hvd_prepare_backend(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_backend *backend = hvd_backend_choose(launch, err);

	if (!backend || !launch->spec->elastic.on)
		return backend;
	/* A script may name other machines, which fork cannot reach. */
	if (backend->loopback && !launch->spec->launcher && launch->spec->discovery.from == HVD_DISCOVER_SCRIPT)
		backend = &hvd_backend_ssh;
	if (!backend->elastic) {
		hvd_err_set(err, HVD_E_USAGE, "%s cannot start the ranks of an elastic job", backend->name);
		hvd_err_hint(err, "use --launcher=srun, blaunch, lsrun, ssh, join or fork");
	}
	return backend->elastic;
}

/* A node agent would refuse so many ranks; say so before anything is started. */
static int check_size(const struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	for (int i = 0; backend->mode == HVD_START_HOSTS && i < launch->alloc.n_hosts; i++) {
		const struct hvd_alloc_host *host = &launch->alloc.hosts[i];

		if (host->slots <= HVD_MAX_HOST_RANKS)
			continue;
		hvd_err_set(err, HVD_E_LIMIT, "%d ranks on %s are more than the %d that one host may have", host->slots,
			    host->name, HVD_MAX_HOST_RANKS);
		return hvd_err_hint(err, "start fewer ranks (-np), or spread them over more hosts");
	}
	return 0;
}

/* Is the command a launcher itself? Where srun or mpirun starts the ranks, the driver looks once more when it knows how
 * many there are on each host; but a job may have to queue for that. */
static int check_launcher(const struct hvd_launch *launch, const struct hvd_launch_spec *spec,
			  const struct hvd_backend *backend, struct hvd_err *err)
{
	long ranks = spec->ranks.n, most = spec->srun.per_node;
	const bool counted = launch->alloc.slots > 0 && !backend->one_srun && spec->spares == 0 && !spec->elastic.on;

	for (int i = 0; backend->mode == HVD_START_HOSTS && i < launch->alloc.n_hosts; i++) {
		ranks = launch->alloc.slots;
		if (launch->alloc.hosts[i].slots > most)
			most = launch->alloc.hosts[i].slots;
	}
	if (spec->programs && counted && hvd_multi_prog_check(spec->programs, launch->alloc.slots, err) != 0)
		return -1;
	return hvd_rank_commands_refuse(spec, ranks > most ? ranks : most, most > 1, err);
}

static bool can_run_program(const struct hvd_launch *launch, const char *program)
{
	struct hvd_err why = {0};
	int error = hvd_program_look(program, launch->envp);

	if (!error)
		return true;
	hvd_program_error(program, launch->envp, error, &why);
	hvd_log_err(launch->log, &why);
	return false;
}

/* Is this the host that runs the program, and can it do so? That is said before anything is started. */
static bool can_run(const struct hvd_launch *launch, const struct hvd_launch_spec *spec,
		    const struct hvd_backend *backend)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	bool can = true;

	if (!backend->loopback || spec->selftest || spec->dry_run)
		return true;
	if (!spec->programs)
		return can_run_program(launch, spec->command[0]);
	for (size_t i = 0; can && hvd_multi_prog_line(spec->programs, i, &argv) > 0; i++) {
		can = can_run_program(launch, argv.v[0]);
		hvd_strv_free(&argv);
	}
	return can;
}

/* Is something wrong with what the ranks of the launch, or of one of its roles, run? As hvd_prepare(). */
static int check_commands(const struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	const size_t n = launch->roles ? launch->roles->n : 1;

	for (size_t i = 0; i < n; i++) {
		const struct hvd_launch_spec *spec = launch->roles ? &launch->roles->v[i].spec : launch->spec;

		if (check_launcher(launch, spec, backend, err) != 0)
			return launch->roles ? hvd_err_prefix(err, "role %s", launch->roles->v[i].name) : -1;
		if (!can_run(launch, spec, backend))
			return NOT_RUNNABLE;
	}
	return 0;
}

static int open_agent_pool(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const struct hvd_agent_pool_opts opts = {.key_file = spec->key_file,
						 .join_file = spec->join_file,
						 .nics = spec->interfaces.v,
						 .progress = spec->output.progress,
						 .agent = launch->agent,
						 .log = launch->log};

	launch->nofile = hvd_raise_nofile(); /* there may be many agents */
	launch->agent_pool = hvd_agent_pool_open(&opts, err);
	return launch->agent_pool ? 0 : -1;
}

int hvd_prepare(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	const bool by_slurm =
		backend == &hvd_backend_steps || backend->one_srun ||
		(backend->mode != HVD_START_HOSTS && hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm);
	int rc;

	if (backend == &hvd_backend_join && !spec->dry_run && open_agent_pool(launch, err) != 0)
		return -1;
	if (spec->elastic.on)
		rc = spec->dry_run ? hvd_elastic_preview(launch, backend, err) : 0;
	else
		rc = hvd_backend_prepare(backend, launch, err);
	if (rc != 0 || check_size(launch, backend, err) != 0)
		return -1;
	rc = check_commands(launch, backend, err);
	if (rc != 0)
		return rc;
	hvd_launch_notes(launch, backend);
	driver_opts(launch, backend, opts);
	if (spec->dry_run)
		return 0;
	opts->ask_paused = hvd_batch_job_paused;
	if (by_slurm && ask_site(launch, backend, opts, err) != 0)
		return -1;
	if (!by_slurm)
		ask_kill_wait(launch, opts);
	return 0;
}
