/* SPDX-License-Identifier: Apache-2.0 */
/* role_specs.c - makes the launch spec of each role of the words that command line and file have for it. */
#include "role_specs.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "options_rows.h"
#include "rank_commands.h"
#include "role_parts.h"
#include "yaml_text.h"

#include <stdlib.h>
#include <string.h>

#define RESTARTS   3  /* with --on-failure=restart and no --max-restarts */
#define PORTS_MOST 64 /* of a role, or of each of its ranks */

int hvd_role_find(const struct hvd_role_specs *specs, const char *name)
{
	for (size_t i = 0; i < specs->n; i++)
		if (strcmp(specs->v[i].name, name) == 0)
			return (int)i;
	return -1;
}

int hvd_role_specs_ranks(const struct hvd_role_specs *specs)
{
	int64_t n = 0;

	for (size_t i = 0; i < specs->n; i++) {
		const struct hvd_role_spec *role = &specs->v[i];
		const int64_t ranks = role->spec.ranks.n ? role->spec.ranks.n
				      : role->per_host   ? (int64_t)role->per_host * (role->hosts ? role->hosts : 1)
							 : 0;

		n += ranks * role->replicas;
	}
	return n < HVD_MAX_RANKS ? (int)n : HVD_MAX_RANKS;
}

int64_t hvd_role_n_hosts(const struct hvd_role_spec *role, int each)
{
	const int64_t ranks = (int64_t)role->spec.ranks.n * role->replicas;
	const int on_host = role->per_host ? role->per_host : each;

	if (role->hosts)
		return (int64_t)role->hosts * role->replicas;
	return on_host ? (ranks + on_host - 1) / on_host : 0;
}

int hvd_role_base(const struct hvd_role_specs *specs, int role)
{
	while (specs->v[role].with >= 0)
		role = specs->v[role].with;
	return role;
}

void hvd_role_specs_clear(struct hvd_role_specs *specs)
{
	if (!specs)
		return;
	for (size_t i = 0; i < specs->n; i++) {
		hvd_launch_spec_clear(&specs->v[i].spec);
		hvd_options_free(specs->v[i].options);
		free(specs->v[i].options);
		free(specs->v[i].ports);
	}
	free(specs->v);
	hvd_strv_free(&specs->notes);
	hvd_strv_free(&specs->warnings);
	*specs = (struct hvd_role_specs){0};
}

static int check_name(const char *name, struct hvd_err *err)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	if (n <= 32 && n > 0 && !name[n] && name[0] >= 'a' && name[0] <= 'z')
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "\"%.100s\" is not a name of a role", name);
	return hvd_err_hint(err,
			    "write at most 32 of a-z, 0-9, - and _, of which the first is a letter: --role=trainer");
}

/* The option that says something of a role that only a launch of one command can do; NULL: there is none. */
static const char *unsuitable(const struct hvd_options *o)
{
	const struct {
		bool given;
		const char *option;
	} all[] = {
		{hvd_options_mpi(o), "the MPI controller (--mpi, --jsrun)"},
		{o->launcher == HVD_LAUNCHER_mpirun, "--launcher=mpirun"},
		{o->launcher == HVD_LAUNCHER_jsrun || o->erf, "--launcher=jsrun"},
		{o->launcher == HVD_LAUNCHER_join, "--launcher=join"},
		{o->run_func || o->results, "--run-func"},
		{o->selftest, "--selftest"},
		{o->min_np > 0 || o->max_np > 0 || o->reset_limit >= 0,
		 "Horovod's kind of elastic job (--min-np, --max-np)"},
		{o->discovery_script || o->discover, "discovery of hosts"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].given)
			return all[i].option;
	return NULL;
}

static int refuse_unsuitable(const struct hvd_options *o, struct hvd_err *err)
{
	const char *option = unsuitable(o);

	if (!option)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "%s cannot be used with roles", option);
	return hvd_err_hint(err, "leave it out, or start this command by a launch of its own");
}

/* --on-failure and --max-restarts, of which either may imply the other. */
static int set_failure(struct hvd_role_spec *role, struct hvd_options *o, struct hvd_err *err)
{
	const bool restarts = o->max_restarts > 0;

	role->on_failure = o->on_failure >= 0 ? (enum hvd_on_failure)o->on_failure
			   : restarts         ? HVD_FAILURE_RESTARTS
					      : HVD_FAILURE_ENDS;
	if (role->on_failure == HVD_FAILURE_RESTARTS && o->max_restarts < 0)
		o->max_restarts = RESTARTS;
	/* A number from the environment or a file is the default of all roles. */
	if (role->on_failure == HVD_FAILURE_ENDS && o->max_restarts > 0 && !hvd_options_given(o, "max-restarts"))
		o->max_restarts = -1;
	if ((role->on_failure == HVD_FAILURE_RESTARTS) == (o->max_restarts > 0) ||
	    (role->on_failure == HVD_FAILURE_IGNORED))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--on-failure=%s and --max-restarts=%d contradict each other",
		    role->on_failure == HVD_FAILURE_ENDS ? "end" : "restart", o->max_restarts);
	return hvd_err_hint(err, "leave one of them out");
}

static int set_ready(struct hvd_role_spec *role, const struct hvd_options *o, struct hvd_err *err)
{
	role->ready.timeout = o->ready_timeout;
	if (o->ready && hvd_ready_spec_parse(o->ready, &role->ready, err) != 0)
		return hvd_err_prefix(err, "--ready");
	return 0;
}

/* One number up to PORTS_MOST is how many, all else are ports. */
static int set_ports(struct hvd_role_spec *role, const struct hvd_options *o, struct hvd_err *err)
{
	const int64_t each = o->ports.n == 1 ? hvd_digits(o->ports.v[0], strlen(o->ports.v[0]), PORTS_MOST) : -1;

	if (each > 0) {
		role->ports_each = (unsigned)each;
		return 0;
	}
	role->ports = hvd_xcalloc(o->ports.n + 1, sizeof(*role->ports));
	for (size_t i = 0; i < o->ports.n; i++) {
		int64_t port = hvd_digits(o->ports.v[i], strlen(o->ports.v[i]), 65535);

		if (port <= 0 || i >= PORTS_MOST) {
			hvd_err_set(err, HVD_E_USAGE, "--ports: \"%.100s\" is %s", o->ports.v[i],
				    port <= 0 ? "not a port" : "one port too many");
			return hvd_err_hint(err,
					    "write how many free ports each rank needs, as in --ports=2, or at most %d "
					    "numbers of ports from 1 to 65535, as in --ports=8000,8001",
					    PORTS_MOST);
		}
		role->ports[role->n_ports++] = (in_port_t)port;
	}
	if (!role->n_ports && role->ready.port)
		role->ports[role->n_ports++] = role->ready.port;
	return 0;
}

/* Variables of a batch job describe the allocation, and no role. */
static bool said(const struct hvd_options *o, const char *name)
{
	return hvd_options_source(o, name) > HVD_FROM_ENV;
}

/* Hosts, ranks, and what each rank needs. */
static int set_counts(struct hvd_role_spec *role, const struct hvd_options *o, struct hvd_err *err)
{
	role->hosts = said(o, "nodes") ? o->nodes_min : 0;
	role->per_host = said(o, "ntasks-per-node") && o->ntasks_per_node > 0 ? o->ntasks_per_node : 0;
	role->cpus = said(o, "cpus-per-task") && o->cpus_per_task > 0 ? o->cpus_per_task : 0;
	role->gpus = said(o, "gpus-per-task") ? hvd_gpu_asked(o->gpus_per_task) : -1;
	role->het_group = o->het_group ? (int)hvd_digits(o->het_group, strlen(o->het_group), HVD_MAX_HOSTS) : -1;
	role->replicas = o->replicas;
	role->service = o->service;
	if (said(o, "nodes") && (o->nodes_min < 1 || o->nodes_max != o->nodes_min || o->nodes_min > HVD_MAX_HOSTS)) {
		hvd_err_set(err, HVD_E_USAGE, "the number of hosts of a role is one number from 1 to %d",
			    HVD_MAX_HOSTS);
		return hvd_err_hint(err, "as in -N4");
	}
	if (role->per_host > HVD_MAX_HOST_RANKS || role->cpus > HVD_MAX_RANKS) {
		hvd_err_set(err, HVD_E_USAGE, "%d %s are more than a host can have",
			    role->cpus > HVD_MAX_RANKS ? role->cpus : role->per_host,
			    role->cpus > HVD_MAX_RANKS ? "CPUs of a rank" : "ranks");
		return hvd_err_hint(err, "ask for at most %d ranks on a host, and %d CPUs for each", HVD_MAX_HOST_RANKS,
				    HVD_MAX_RANKS);
	}
	if (said(o, "gpus-per-task") && role->gpus < 0)
		return hvd_err_set(err, HVD_E_USAGE, "--gpus-per-task=%.100s is not [TYPE:]NUMBER", o->gpus_per_task);
	if (o->het_group && role->het_group < 0) {
		hvd_err_set(err, HVD_E_USAGE, "--het-group=%.100s is not one component of the job", o->het_group);
		return hvd_err_hint(err, "each role is in one of them: --het-group=0");
	}
	return 0;
}

/* Read the options of a role. They are parsed with those of the launch in front, which are so the same in all roles. */
static int read_options(struct hvd_options *o, const char *program, const struct hvd_strv *launch,
			const struct hvd_role_part *part, char *const *envp, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};

	hvd_strv_add(&argv, program);
	hvd_strv_add_all(&argv, launch->v);
	hvd_strv_add_all(&argv, part->options.v);
	hvd_strv_add(&argv, "--");
	hvd_strv_add_all(&argv, part->command.v);
	hvd_options_init(o);
	o->of_role = true;
	if (hvd_options_parse(o, (int)argv.n, argv.v, err) != 0)
		return o->role ? hvd_err_prefix(err, "role %.100s", o->role) : -1;
	if (o->ray) {
		hvd_err_set(err, HVD_E_USAGE, "--ray is for one command, not for roles");
		return hvd_err_hint(err, "as in hvdrun --ray -N4 python driver.py");
	}
	if (hvd_options_env(o, envp, err) || hvd_config_load(o, err))
		return -1;
	if (o->action == HVD_RUN)
		return 0;
	return hvd_err_set(err, HVD_E_USAGE,
			   "an option that starts nothing, as --help, cannot be among those of roles");
}

static int make_role(struct hvd_role_spec *role, char *const *envp, struct hvd_err *err)
{
	struct hvd_options *o = role->options;

	if (set_failure(role, o, err) || hvd_options_check(o, err) || refuse_unsuitable(o, err) ||
	    hvd_rank_command_check(o->command.v, err) || set_counts(role, o, err) || set_ready(role, o, err) ||
	    set_ports(role, o, err))
		return -1;
	hvd_launch_spec_make(&role->spec, o, envp);
	if (role->spec.output.label == HVD_LABEL_NONE)
		role->spec.output.label = HVD_LABEL_SRUN;
	role->spec.max_restarts = o->max_restarts > 0 ? o->max_restarts : 0;
	/* A service may have nothing to do. */
	if (role->service && !hvd_options_given(o, "hang-timeout"))
		role->spec.hang_timeout = 0;
	return 0;
}

static void add_messages(struct hvd_strv *all, const struct hvd_strv *some)
{
	for (size_t i = 0; i < some->n; i++)
		if (!hvd_strv_has(all, some->v[i]))
			hvd_strv_add(all, some->v[i]);
}

static int add_role(struct hvd_role_specs *specs, const char *program, const struct hvd_role_parts *parts, size_t i,
		    char *const *envp, struct hvd_err *err)
{
	const struct hvd_role_part *part = &parts->v[i];
	struct hvd_role_spec *role = &specs->v[i];

	role->options = hvd_xcalloc(1, sizeof(*role->options));
	role->with = -1;
	specs->n++;
	if (read_options(role->options, program, &parts->launch, part, envp, err) != 0 ||
	    check_name(role->options->role, err) != 0)
		return part->where ? hvd_err_prefix(err, "%s", part->where) : -1;
	role->name = role->options->role;
	if (make_role(role, envp, err) != 0)
		return part->where ? hvd_err_prefix(err, "%s: role %s", part->where, role->name)
				   : hvd_err_prefix(err, "role %s", role->name);
	add_messages(&specs->notes, &role->options->notes);
	add_messages(&specs->warnings, &role->options->warnings);
	return 0;
}

static int unknown_role(const struct hvd_role_specs *specs, const char *role, const char *option, const char *name,
			struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	hvd_cleanup_free char *list = NULL;

	for (size_t i = 0; i < specs->n; i++)
		hvd_strv_add(&names, specs->v[i].name);
	list = hvd_strv_join(&names, ", ");
	hvd_err_set(err, HVD_E_USAGE, "role %s: there is no role \"%.100s\" (--%s)", role, name, option);
	return hvd_err_hint(err, "the roles are %.400s", list);
}

/* The roles that others name. */
static int find_named(struct hvd_role_specs *specs, struct hvd_err *err)
{
	for (size_t i = 0; i < specs->n; i++) {
		struct hvd_role_spec *role = &specs->v[i];
		const struct hvd_options *o = role->options;

		if (o->with && (role->with = hvd_role_find(specs, o->with)) < 0)
			return unknown_role(specs, role->name, "with", o->with, err);
		for (size_t k = 0; k < o->after.n; k++) {
			int other = hvd_role_find(specs, o->after.v[k]);

			if (other < 0)
				return unknown_role(specs, role->name, "after", o->after.v[k], err);
			role->after |= UINT64_C(1) << other;
		}
	}
	return 0;
}

static int make(struct hvd_role_specs *specs, const char *program, const struct hvd_role_parts *parts,
		char *const *envp, struct hvd_err *err)
{
	if (parts->n > HVD_MAX_RANK_WORLDS) {
		hvd_err_set(err, HVD_E_USAGE, "%zu roles are more than %d", parts->n, HVD_MAX_RANK_WORLDS);
		return hvd_err_hint(err, "start some of them by a launch of their own");
	}
	specs->v = hvd_xcalloc(parts->n ? parts->n : 1, sizeof(*specs->v));
	for (size_t i = 0; i < parts->n; i++)
		if (add_role(specs, program, parts, i, envp, err) != 0)
			return -1;
	return find_named(specs, err) != 0 ? -1 : hvd_role_specs_check(specs, err);
}

/* `text` NULL: the text of the file, if one is named. */
static int load(struct hvd_role_specs *specs, int argc, char *const *argv, char *const *envp, const char *text,
		size_t len, struct hvd_err *err)
{
	const char *program = argc > 0 ? argv[0] : "hvdrun";
	HVD_CLEANUP(hvd_role_parts_clear) struct hvd_role_parts parts = {0};
	hvd_cleanup_free char *read = NULL;
	int rc = hvd_role_line_split(&parts, argc, argv, err);

	*specs = (struct hvd_role_specs){0};
	if (rc == 0 && parts.ray)
		rc = hvd_role_ray_expand(&parts, err);
	if (rc == 0 && parts.file && !text) {
		text = read = hvd_yaml_read(parts.file, "the file of roles", &len, err);
		rc = read ? 0 : -1;
	}
	if (rc == 0 && parts.file)
		rc = hvd_role_file_parse(&parts, text, len, parts.file, err);
	if (rc == 0)
		rc = make(specs, program, &parts, envp, err);
	if (rc != 0)
		hvd_role_specs_clear(specs);
	return rc;
}

int hvd_role_specs_load(struct hvd_role_specs *specs, int argc, char *const *argv, char *const *envp,
			struct hvd_err *err)
{
	return load(specs, argc, argv, envp, NULL, 0, err);
}

int hvd_role_specs_parse(struct hvd_role_specs *specs, int argc, char *const *argv, char *const *envp, const char *text,
			 size_t len, struct hvd_err *err)
{
	return load(specs, argc, argv, envp, text, len, err);
}
