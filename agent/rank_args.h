/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_args.h - the options that hvd-agent host and hvd-agent shim have in common: where the output of ranks goes, and
 * how the process gets the launcher's data.
 */
#ifndef HVD_RANK_ARGS_H
#define HVD_RANK_ARGS_H

#include "output.h"
#include "subcommand.h"

/* The first member of both structs of values, so that the rows below fit both. */
struct hvd_rank_args {
	const char *label, *output_dir;
	bool timestamps;
	int size;
	bool from_stdin; /* driver's address and key, perhaps environment and directory, come on stdin: preamble.h */
	bool behind;     /* a session wrapper has started this process */
};

extern const struct hvd_option_row hvd_rank_args_rows[];

struct hvd_output_style hvd_rank_args_style(const struct hvd_rank_args *args);

#endif
