/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_commands.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/process/multi_prog.h"
#include "lib/process/other_launcher.h"
#include "options.h"

/* The option that excludes --multi-prog; NULL: there is none. */
static const char *excluding(const struct hvd_options *o)
{
	return o->selftest ? "--selftest" : o->run_func ? "--run-func" : o->preload ? "--preload" : NULL;
}

static int refuse(const struct hvd_options *o, struct hvd_err *err)
{
	const char *other = excluding(o);

	if (other) {
		hvd_err_set(err, HVD_E_USAGE,
			    "%s cannot be used with --multi-prog: it is about one program for all ranks", other);
		return hvd_err_hint(err, "leave one of them out");
	}
	if (!hvd_options_elastic(o) || o->max_restarts >= 0)
		return 0;
	hvd_err_set(
		err, HVD_E_USAGE,
		"--multi-prog cannot be used with Horovod's kind of elastic job: its ranks change their numbers while "
		"they run");
	return hvd_err_hint(err, "add --max-restarts=NUMBER, which starts all ranks anew with their new numbers; or "
				 "leave out --min-np, --max-np, --discover and --host-discovery-script");
}

/* Do options say how many ranks there are, if neither -np nor -n does? */
static bool counted_otherwise(const struct hvd_options *o)
{
	return o->ntasks_per_node > 0 || o->ntasks_per_gpu > 0 || o->ntasks_per_socket > 0 || o->ntasks_per_core > 0;
}

/* Compare the file with the most ranks that the job may have. */
static int check_ranks(struct hvd_options *o, struct hvd_err *err)
{
	const bool elastic = hvd_options_elastic(o), bounds = elastic && (o->min_np > 0 || o->max_np > 0);
	const bool given = o->num_proc > 0 || hvd_options_given(o, "ntasks");
	int most = bounds ? o->max_np : given ? hvd_options_np(o) : 0;

	if (most > 0)
		return hvd_multi_prog_check(o->programs, most, err);
	if (hvd_multi_prog_open(o->programs))
		return 0;
	if (bounds) {
		hvd_err_set(err, HVD_E_USAGE, "%s has no line for all other ranks (*), but the job may have any number",
			    hvd_multi_prog_name(o->programs));
		return hvd_err_hint(err, "add a last line for them: * PROGRAM ARGUMENTS; or give --max-np");
	}
	/* Otherwise the hosts or srun count the ranks, and the file is compared when their number is known. */
	if (!elastic && (hvd_options_np(o) > 0 || counted_otherwise(o)))
		return 0;
	o->num_proc = hvd_multi_prog_ranks(o->programs);
	return hvd_multi_prog_check(o->programs, o->num_proc, err);
}

int hvd_rank_command_check(char *const *argv, struct hvd_err *err)
{
	for (; *argv; argv++) {
		json_t *word = json_string(*argv);

		if (!word)
			return hvd_err_set(err, HVD_E_USAGE, "\"%.100s\" is no UTF-8", *argv);
		json_decref(word);
	}
	return 0;
}

int hvd_rank_commands_check(const struct hvd_multi_prog *programs, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	int number;

	for (size_t i = 0; (number = hvd_multi_prog_line(programs, i, &argv)) > 0; i++) {
		if (hvd_rank_command_check(argv.v, err) != 0)
			return hvd_err_prefix(err, "line %d of %s", number, hvd_multi_prog_name(programs));
		hvd_strv_free(&argv);
	}
	return 0;
}

int hvd_rank_commands_load(struct hvd_options *o, struct hvd_err *err)
{
	if (refuse(o, err) != 0)
		return -1;
	o->programs = hvd_multi_prog_read(o->command.v[0], o->command.v + 1, err);
	if (!o->programs || hvd_rank_commands_check(o->programs, err) != 0)
		return -1;
	return check_ranks(o, err);
}

int hvd_rank_commands_refuse(const struct hvd_launch_spec *spec, long ranks, bool crowded, struct hvd_err *err)
{
	const char *own = spec->own_line ? spec->own_line : "srun --hvd";
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	int number;

	if (!spec->programs)
		return spec->selftest || !spec->command || !spec->command[0]
			       ? 0
			       : hvd_other_launcher_refuse(spec->command, ranks, crowded, own, spec->counts_ranks, err);
	for (size_t i = 0; (number = hvd_multi_prog_line(spec->programs, i, &argv)) > 0; i++) {
		if (hvd_other_launcher_refuse(argv.v, ranks, crowded, own, spec->counts_ranks, err) != 0) {
			hvd_err_prefix(err, "line %d of %s", number, hvd_multi_prog_name(spec->programs));
			return hvd_err_hint(
				err, "write the program that each rank is to run itself, as in: 0-3 python train.py");
		}
		hvd_strv_free(&argv);
	}
	return 0;
}

json_t *hvd_rank_command(const struct hvd_launch_spec *spec, int rank, bool any)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};

	if (spec->programs)
		hvd_multi_prog_command(spec->programs, rank, &argv);
	else if (any)
		hvd_strv_add_all(&argv, spec->command);
	return argv.n ? hvd_json_words(&argv) : NULL;
}
