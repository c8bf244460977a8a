/* SPDX-License-Identifier: Apache-2.0 */
/* options_help.c - what hvdrun shows of its options. */
#include "lib/base/xalloc.h"
#include "options_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum hvd_opt_family primary_of(const struct hvd_options *o)
{
	return o->as_horovodrun ? HVD_FAMILY_HOROVOD : HVD_FAMILY_SRUN;
}

char *hvd_options_usage(const struct hvd_options *o)
{
	const char *name = hvd_options_program(o);

	return hvd_xasprintf("Usage: %s [options] command [arguments]\n"
			     "       %s -np 4 python train.py\n"
			     "       %s -N 2 --ntasks-per-node=4 --gpus-per-node=4 python train.py\n"
			     "Options are srun's, horovodrun's, and its own: see %s --help=all.\n",
			     name, name, name, name);
}

#define COMMON_HEAD                                                                                                    \
	"Usage: hvdrun [options] command [arguments]\n"                                                                \
	"Start the ranks of a training job in this job, in a new one, or on listed hosts.\n"                           \
	"\n"                                                                                                           \
	"Examples:\n"                                                                                                  \
	"  hvdrun python train.py                              in a batch job\n"                                       \
	"  hvdrun -N2 --ntasks-per-node=4 python train.py      as a new Slurm job\n"                                   \
	"  hvdrun --hosts n1:8,n2:8 python train.py            through ssh\n"
#define COMMON_FOOT                                                                                                    \
	"\n"                                                                                                           \
	"--help=all shows all options, with defaults and variables; --help=srun those of\n"                            \
	"srun, --help=horovod those of horovodrun, --help=tunables those for Horovod's\n"                              \
	"workers. See hvdrun(1).\n"

static bool is_of_topic(const struct hvd_opt *o, int topic)
{
	/* The options that most jobs need, and useful ones that few users know. */
	static const char common[] =
		" num-proc launcher keep-going dry-run selftest hosts hostfile network-interfaces frameworks "
		"store start-timeout preflight spares config-file output-filename verbose stacks hang-timeout "
		"hang-action signal-ranks requeue-on min-np max-np max-restarts discover help version ";
	char word[64];

	switch ((enum hvd_help_topic)topic) {
	case HVD_HELP_COMMON:
		snprintf(word, sizeof(word), " %s ", o->name);
		/* Without a value, --help is an option of srun, which has no topic. */
		return strstr(common, word) && (o->family != HVD_FAMILY_SRUN || strcmp(o->name, "help") != 0);
	case HVD_HELP_SRUN:
		return o->family == HVD_FAMILY_SRUN;
	case HVD_HELP_HOROVOD:
		return o->family == HVD_FAMILY_HOROVOD;
	case HVD_HELP_TUNABLES:
		return o->group >= HVD_G_TUNE && o->group <= HVD_G_LOGGING;
	case HVD_HELP_ALL:
		break;
	}
	return true;
}

char *hvd_options_help(const struct hvd_options *o, int width)
{
	const struct hvd_optset set = hvd_options_set();
	const bool brief = o->help_topic == HVD_HELP_COMMON && !o->as_horovodrun;
	const enum hvd_help_topic topic = o->help_topic || brief ? o->help_topic : HVD_HELP_HOROVOD;
	char *head = brief ? hvd_xstrdup(COMMON_HEAD) : hvd_options_usage(o);
	char *rows = hvd_opt_help(&set, primary_of(o), is_of_topic, topic, brief, width);
	char *text = hvd_xasprintf("%s%s%s", head, rows, brief ? COMMON_FOOT : "");

	free(rows);
	free(head);
	return text;
}

char *hvd_options_man(const struct hvd_options *o)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_man(&set, primary_of(o));
}

char *hvd_options_plugin_man(void)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_alias_man(&set);
}

char *hvd_options_completion(const struct hvd_options *o)
{
	const struct hvd_optset set = hvd_options_set();

	return hvd_opt_completion(&set, primary_of(o));
}
