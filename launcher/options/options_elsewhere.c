/* SPDX-License-Identifier: Apache-2.0 */
/* options_elsewhere.c - options of torchrun, accelerate and deepspeed among hvdrun's: what to write in their place. */
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/other_launcher.h"
#include "options_rows.h"

#include <string.h>

/* What such a command line says, in hvdrun's words. */
struct translation {
	struct hvd_strv theirs; /* the other launcher's options, without their values */
	const char *instead;    /* of the first of them */
	struct hvd_strv ours;   /* hvdrun's options, which stay */
	bool counts;            /* these say how many ranks there are */
	struct hvd_other_launch launch;
};

static void add_theirs(struct translation *t, struct hvd_optscan *scan, const struct hvd_opthit *hit,
		       const struct hvd_other_option *option)
{
	const char *value = hit->value;

	if (!value && option->values && scan->next < scan->argc)
		value = scan->argv[scan->next++];
	if (!t->instead)
		t->instead = option->instead;
	if (!hvd_strv_has(&t->theirs, hit->spelled))
		hvd_strv_add(&t->theirs, hit->spelled);
	hvd_other_option_take(option, value, &t->launch);
}

bool hvd_options_counts_ranks(const struct hvd_opt *opt)
{
	return opt->at == HVD_AT(num_proc) || opt->at == HVD_AT(ntasks) || opt->at == HVD_AT(ntasks_per_node) ||
	       opt->at == HVD_AT(nodes_min) || opt->at == HVD_AT(hosts) || opt->at == HVD_AT(hostfile) ||
	       opt->at == HVD_AT(slots_per_host);
}

static void add_ours(struct translation *t, const struct hvd_optscan *scan, const struct hvd_opthit *hit)
{
	t->counts = t->counts || (hit->opt && hvd_options_counts_ranks(hit->opt));
	for (int i = hit->first; i < hit->end; i++)
		hvd_strv_add(&t->ours, scan->argv[i]);
}

static void translate(struct translation *t, struct hvd_optscan *scan)
{
	struct hvd_opthit hit;
	bool equals;

	while (hvd_optscan_next(scan, &hit, NULL) > 0) {
		const struct hvd_other_option *option = hit.opt ? NULL : hvd_other_option(hit.spelled, &equals);

		if (option) {
			add_theirs(t, scan, &hit, option);
		} else if (hit.opt && t->theirs.n && hit.opt->letter == 'm' && hit.value) {
			/* torchrun's -m MODULE, after which the module's own arguments follow. */
			t->launch.module = true;
			scan->next = hit.end - 1;
			break;
		} else if (hit.word_ends || hit.end > hit.first) {
			add_ours(t, scan, &hit);
		}
	}
	hvd_other_launch_command(&t->launch, scan->argv + scan->next);
}

/* The options for as many ranks as the other launcher was asked for. */
static char *counts_of(const struct translation *t)
{
	const struct hvd_other_launch *launch = &t->launch;

	if (t->counts)
		return hvd_xstrdup("");
	if (launch->nodes > 1 && launch->per_host)
		return hvd_xasprintf(" -N%d --ntasks-per-node=%d", launch->nodes, launch->per_host);
	if (launch->np || launch->per_host)
		return hvd_xasprintf(" -np %d", launch->np ? launch->np : launch->per_host);
	return hvd_xstrdup(launch->nodes > 1 ? " -np NUMBER" : "");
}

int hvd_options_elsewhere(const char *spelled, int argc, char *const *argv, struct hvd_err *err)
{
	const char *name = basename(argv[0]);
	struct hvd_optscan scan = hvd_optscan_begin(argc, argv);
	bool equals;
	const struct hvd_other_option *option = hvd_other_option(spelled, &equals);
	struct translation t = {0};
	hvd_cleanup_free char *theirs = NULL, *ours = NULL, *counts = NULL, *line = NULL;

	if (!option)
		return 0;
	translate(&t, &scan);
	theirs = hvd_strv_join(&t.theirs, ", ");
	ours = hvd_strv_join(&t.ours, " ");
	counts = counts_of(&t);
	line = hvd_other_launch_text(&t.launch);
	hvd_err_set(err, HVD_E_USAGE, t.theirs.n > 1 ? "%s are options of %s" : "%s is an option of %s", theirs,
		    option->whose);
	if (t.theirs.n > 1)
		hvd_err_hint(err, "write %s%s%s%s %s%s", name, counts, *ours ? " " : "", ours, line,
			     strstr(counts, "-N")
				     ? " (without Slurm: --hosts HOST:NUMBER,HOST:NUMBER in place of -N); the "
				       "launch gives ranks their numbers, MASTER_ADDR and MASTER_PORT"
				     : "; the launch gives ranks their numbers, MASTER_ADDR and MASTER_PORT");
	else
		hvd_err_hint(err, "%s: %s%s%s%s %s", t.instead, name, counts, *ours ? " " : "", ours, line);
	hvd_strv_free(&t.theirs);
	hvd_strv_free(&t.ours);
	hvd_strv_free(&t.launch.command);
	return -1;
}
