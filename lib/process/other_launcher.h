/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_launcher.h - the command lines of other launchers: torchrun, accelerate, deepspeed, mpirun, srun, hvdrun itself.
 *
 * A launch that starts one of them as its command gets as many copies of a whole training as it has ranks. And who comes
 * from another launcher writes its options. In both cases the user is told what to write. Uses nothing but libc.
 */
#ifndef HVD_OTHER_LAUNCHER_H
#define HVD_OTHER_LAUNCHER_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

/* An option of another launcher. */
struct hvd_other_option {
	const char *whose;   /* "torchrun" */
	const char *instead; /* what to write in its place; NULL: nothing is known */
	int values;          /* words that belong to it, if none follows its "=" */
	int what;            /* private */
};

/* What a command line of another launcher says. A zeroed struct is empty; clear it with hvd_strv_free(&command). */
struct hvd_other_launch {
	int np, per_host, nodes; /* 0: not given */
	bool module, plain;      /* the command is a module of Python, or needs no Python in front of it */
	struct hvd_strv command; /* what to run, as words */
};

/* The option of torchrun, accelerate or deepspeed that a word such as "--nproc_per_node=4" is, or NULL. In names "_" counts
 * as "-". `equals`: a value follows in the word. */
const struct hvd_other_option *hvd_other_option(const char *word, bool *equals);
/* Take the option's value, if it counts anything, into *launch. */
void hvd_other_option_take(const struct hvd_other_option *option, const char *value, struct hvd_other_launch *launch);
/* Take the words of the command that follow the options. */
void hvd_other_launch_command(struct hvd_other_launch *launch, char *const *words);
/* The command as a line for a shell, cut after some hundred characters. The caller frees it. */
char *hvd_other_launch_text(const struct hvd_other_launch *launch);

/*
 * Refuse a command that is itself a launcher: -1 with HVD_E_USAGE, and a hint with the line to write; 0: it is none, or it
 * may be one. `ranks`: how many copies would run; `crowded`: several of them on a host. torchrun and those like it are
 * allowed once for each host. `launch` is the launch's own command line up to the command ("hvdrun -N2"), and `counts`
 * tells that it says how many ranks there are.
 */
int hvd_other_launcher_refuse(char *const *argv, long ranks, bool crowded, const char *launch, bool counts,
			      struct hvd_err *err);

#endif
