/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-agent connect: offer this host to a launch that waits for agents (join.h).
 */
#include "join.h"
#include "session_wrapper.h"
#include "subcommand.h"
#include "subcommand_host.h"

#include <unistd.h>

struct connect_args {
	struct hvd_join_opts opts;
	bool behind;
};

#define AT(field) offsetof(struct connect_args, field)

static const struct hvd_option_row options[] = {
	{"key-file", "FILE|-",
	 "file with the launch's key; -: read it from stdin (64 hex digits and a newline); the end of stdin ends the "
	 "ranks",
	 hvd_option_text, AT(opts.key_file)},
	{"slots", "N", "how many ranks this host takes (1)", hvd_option_text, AT(opts.slots)},
	{"index", "N", "the position of this host among the others, if possible", hvd_option_text, AT(opts.index)},
	{"name", "HOST", "the name of this host (its host name)", hvd_option_text, AT(opts.name)},
	{"timeout", "SECONDS", "how long to try to reach the launcher (30)", hvd_option_text, AT(opts.timeout)},
	{"join", "ADDRESS", NULL, hvd_option_text, AT(opts.address)}, /* hvd-task --join=ADDRESS */
	{"behind", NULL, NULL, hvd_option_flag, AT(behind)},          /* of the monitor */
	{NULL, NULL, NULL, NULL, 0},
};

static int run(int argc, char **argv, const struct hvd_log *log)
{
	struct connect_args args = {.behind = false};
	struct hvd_join join;
	char **address;
	pid_t wrapper = getppid(); /* of the process behind it */
	int status = hvd_subcommand_parse(&hvd_subcommand_connect, argc, argv, &args, &address, log);

	if (status >= 0)
		return status;
	if (*address && args.opts.address)
		return hvd_subcommand_misused(&hvd_subcommand_connect, log, "unexpected argument '%s'", *address);
	if (*address)
		args.opts.address = *address;
	if (!args.opts.address)
		return hvd_subcommand_misused(&hvd_subcommand_connect, log, "ADDRESS is missing");
	if (!args.behind)
		return hvd_session_wrapper_run(argv, HVD_SESSION_WRAPPER_JOIN, log);
	status = hvd_join_wait(&args.opts, &join, log);
	if (status < 0)
		status = hvd_subcommand_host_join(&join, log);
	hvd_session_wrapper_wake(wrapper);
	return status;
}

const struct hvd_subcommand hvd_subcommand_connect = {
	.name = "connect",
	.process = "hvd-agent",
	.operands = "ADDRESS",
	.summary = "offer this host to a launch that waits for agents",
	.about = "Offer this host to hvdrun --launcher=join, which waits for agents at ADDRESS, and run the ranks that "
		 "it\n"
		 "gives to this host. hvdrun prints the address, or writes it into the file of --join-file.",
	.options = options,
	.most = 1,
	.run = run,
};
