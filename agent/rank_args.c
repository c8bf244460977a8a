/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_args.h"

#include <string.h>

#define AT(field) offsetof(struct hvd_rank_args, field)

const struct hvd_option_row hvd_rank_args_rows[] = {
	{"stdin", NULL, "the launcher sends the driver's address and the key on stdin", hvd_option_flag,
	 AT(from_stdin)},
	{"behind", NULL, "a monitor has started this process", hvd_option_flag, AT(behind)},
	{"label", "srun|horovod|none", "pass on whole lines, labelled as this program does", hvd_option_text,
	 AT(label)},
	{"timestamps", NULL, "start each line with the time", hvd_option_flag, AT(timestamps)},
	{"output-dir", "DIR", "also write DIR/rank.N/stdout and DIR/rank.N/stderr", hvd_option_text, AT(output_dir)},
	{"size", "N", "the job has N ranks; pads the names of folders to the same length", hvd_option_number, AT(size)},
	{NULL, NULL, NULL, NULL, 0},
};

struct hvd_output_style hvd_rank_args_style(const struct hvd_rank_args *args)
{
	bool whole = args->label && strcmp(args->label, "none") == 0;

	return (struct hvd_output_style){
		.label = !args->label || whole                 ? HVD_LABEL_NONE
			 : strcmp(args->label, "horovod") == 0 ? HVD_LABEL_HOROVOD
							       : HVD_LABEL_SRUN,
		.whole = whole,
		.timestamps = args->timestamps,
		.dir = args->output_dir,
		.size = args->size,
	};
}
