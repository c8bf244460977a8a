/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subcommand.h - the subcommands of hvd-agent. Each has a table of its options (lib/base/option_rows.h) and a struct for
 * their values. host and shim have some options in common: where the output of ranks goes, and how the process gets the
 * launcher's data.
 */
#ifndef HVD_SUBCOMMAND_H
#define HVD_SUBCOMMAND_H

#include "lib/base/log.h"
#include "lib/base/option_rows.h"
#include "output.h"

enum {
	HVD_ANY_OPERANDS = 1 << 20
};

struct hvd_subcommand {
	const char *name;
	const char *process;                           /* what ps(1) calls the process, of 15 bytes at most */
	const char *operands;                          /* how the usage writes them; "" = there are none */
	const char *summary;                           /* a line of hvd-agent --help */
	const char *about;                             /* who starts it and what it does, for its own --help */
	const struct hvd_option_row *options, *common; /* NULL = none */
	int least, most;                               /* how many operands it takes */
	bool command; /* the operands are a command, whose own options follow the first of them */
	/* argv[0] is the subcommand's word. Returns the exit status. */
	int (*run)(int argc, char **argv, const struct hvd_log *log);
};

extern const struct hvd_subcommand hvd_subcommand_host, hvd_subcommand_shim, hvd_subcommand_plan,
	hvd_subcommand_connect;

/* Read the options into the zeroed struct `values`, and point *operands to the operands in argv, whose order may
 * change. Returns -1 to go on, or the exit status to end with: 0 after --help, 2 after a message and the usage. */
int hvd_subcommand_parse(const struct hvd_subcommand *subcommand, int argc, char **argv, void *values, char ***operands,
			 const struct hvd_log *log);
/* Report `why` and the usage, and return 2. */
int hvd_subcommand_misused(const struct hvd_subcommand *subcommand, const struct hvd_log *log, const char *why, ...)
	__attribute__((format(printf, 3, 4)));

/* The first member of the structs of values of host and shim, so that the rows below fit both. */
struct hvd_rank_args {
	const char *label, *output_dir;
	bool timestamps;
	int size;
	bool from_stdin; /* driver's address and key, perhaps environment and directory, come on stdin: bootstrap.h */
	bool behind;     /* a session wrapper has started this process */
};

extern const struct hvd_option_row hvd_rank_args_rows[];

struct hvd_output_style hvd_rank_args_style(const struct hvd_rank_args *args);

struct hvd_join;
/* Be the agent that join->args describes, over the agent's connection. Takes ownership of *join. Returns the exit
 * status. */
int hvd_subcommand_host_join(struct hvd_join *join, const struct hvd_log *log);

#endif
