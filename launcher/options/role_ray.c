/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_ray.c - makes the roles of --ray from its command line, which hvd-ray (python/ray/hvd_ray.py) runs:
 *
 *   ray      a service: Ray's processes, once on each host
 *   driver   the command, on the first of these hosts, when all of them are ready
 *
 * The tables read the words of both as if the user had written them.
 */
#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/process/interpreter.h"
#include "lib/process/own_program.h"
#include "options_rows.h"
#include "role_parts.h"

#include <string.h>

#define HVD_RAY "ray/hvd_ray.py"

enum place {
	DRIVER,
	RAY,
	NEITHER,
};

static enum place place_of(const struct hvd_opt *row)
{
	static const struct {
		size_t at;
		enum place place;
	} places[] = {
		{HVD_AT(nodes_min), RAY},   {HVD_AT(cpus_per_task), RAY},       {HVD_AT(gpus_per_task), RAY},
		{HVD_AT(het_group), RAY},   {HVD_AT(ready_timeout), RAY},       {HVD_AT(num_proc), NEITHER},
		{HVD_AT(ntasks), NEITHER},  {HVD_AT(ntasks_per_node), NEITHER}, {HVD_AT(multi_prog), NEITHER},
		{HVD_AT(preload), NEITHER},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (row->at == places[i].at)
			return places[i].place;
	return row->whose == HVD_OF_ROLES_ONLY ? NEITHER : DRIVER;
}

static int refuse(const struct hvd_opthit *hit, struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_USAGE, "%s cannot be used with --ray", hit->spelled);
	if (hit->opt->whose == HVD_OF_ROLES_ONLY)
		return hvd_err_hint(err, "--ray makes the roles itself: leave one of them out");
	return hvd_err_hint(err,
			    "leave it out: Ray starts once on each host, and the command once; -N is the number of "
			    "hosts, and -c and --gpus-per-task what Ray has on each");
}

/* Share out the options of a role on the command line, which have been read once. */
static int share_options(const struct hvd_strv *options, struct hvd_strv *ray, struct hvd_strv *driver,
			 enum hvd_opt_family primary, struct hvd_err *err)
{
	struct hvd_optscan scan = {.argc = (int)options->n, .argv = options->v, .primary = primary};
	struct hvd_opthit hit;
	int rc;

	while ((rc = hvd_optscan_next(&scan, &hit, err)) > 0) {
		const enum place place = place_of(hit.opt);

		if (place == NEITHER)
			return refuse(&hit, err);
		hvd_opthit_words(&hit, options->v, place == RAY ? ray : driver);
	}
	return rc;
}

/* --ray=OPTIONS, for `ray start`, of which hvd-ray gives some itself. */
static int add_ray_options(struct hvd_strv *command, const char *text, struct hvd_err *err)
{
	static const char *const own[] = {"--head", "--address", "--node-ip-address", "--block"};
	const size_t first = command->n;

	if (hvd_shell_split(text, command) != 0) {
		hvd_err_set(err, HVD_E_USAGE, "--ray=%.200s has a quote that is not closed", text);
		return hvd_err_hint(err, "as in --ray='--num-cpus=8 --resources={\\\"disk\\\":1}'");
	}
	for (size_t i = first; i < command->n; i++) {
		const size_t n = strcspn(command->v[i], "=");

		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
			if (strlen(own[k]) != n || strncmp(command->v[i], own[k], n) != 0)
				continue;
			hvd_err_set(err, HVD_E_USAGE, "--ray=%.200s: %s is what the launch decides", text, own[k]);
			return hvd_err_hint(err, "leave it out: Ray's head is on the first host, at the address that "
						 "all hosts reach");
		}
	}
	return 0;
}

/* Append the beginning of a command of hvd-ray. Its Python is that of the user's command, which has the module ray. */
static void add_program(struct hvd_strv *to, const struct hvd_strv *command, const char *verb)
{
	hvd_cleanup_free char *program = hvd_own_program("../libexec/hvd/" HVD_RAY, HVD_LIBEXECDIR "/" HVD_RAY);
	const char *first = hvd_behind_env(command->v)[0];

	hvd_strv_add(to, first && hvd_is_python(first) ? first : "python3");
	hvd_strv_add(to, program);
	hvd_strv_add(to, verb);
}

static void add_all(struct hvd_strv *to, const char *const *words)
{
	for (; *words; words++)
		hvd_strv_add(to, *words);
}

int hvd_role_ray_expand(struct hvd_role_parts *parts, struct hvd_err *err)
{
	/* Ray's workers are no ranks of this launch: hvd-ray drops the variables of torch. */
	static const char *const ray_options[] = {"--role=ray",          "--service",
						  "--ntasks-per-node=1", "--ready=notify",
						  "--on-failure=end",    "--hvd-frameworks=torch",
						  "--hvd-store=off",     NULL};
	static const char *const driver_options[] = {
		"--role=driver", "--with=ray", "--num-proc=1", "--after=ray", "--hvd-frameworks=none", NULL};
	struct hvd_role_part given = parts->v[0], *ray, *driver;
	int rc = -1;

	if (parts->n > 1 || parts->file || !given.command.n) {
		hvd_err_set(err, HVD_E_USAGE, "--ray is for one command%s",
			    parts->n > 1  ? ", not for roles"
			    : parts->file ? ", not for roles of a file"
					  : ", and there is none");
		return hvd_err_hint(err, "as in hvdrun --ray -N4 python driver.py");
	}
	parts->n = 0;
	hvd_role_parts_add(parts);
	hvd_role_parts_add(parts);
	ray = &parts->v[0];
	driver = &parts->v[1];
	ray->named = driver->named = true;
	add_all(&ray->options, ray_options);
	add_all(&driver->options, driver_options);
	add_program(&ray->command, &given.command, "host");
	add_program(&driver->command, &given.command, "run");
	hvd_strv_add_all(&driver->command, given.command.v);
	rc = share_options(&given.options, &ray->options, &driver->options, parts->primary, err);
	if (rc == 0)
		rc = add_ray_options(&ray->command, parts->ray, err);
	hvd_strv_free(&given.options);
	hvd_strv_free(&given.command);
	return rc;
}
