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
	 HVD_OPTION_TEXT, AT(opts.key_file)},
	{"slots", "N", "how many ranks this host takes (1)", HVD_OPTION_TEXT, AT(opts.slots)},
	{"index", "N", "the position of this host among the others, if possible", HVD_OPTION_TEXT, AT(opts.index)},
	{"name", "HOST", "the name of this host (its host name)", HVD_OPTION_TEXT, AT(opts.name)},
	{"timeout", "SECONDS", "how long to try to reach the launcher (30)", HVD_OPTION_TEXT, AT(opts.timeout)},
	{"join", "ADDRESS", NULL, HVD_OPTION_TEXT, AT(opts.address)}, /* hvd-task --join=ADDRESS */
	{"behind", NULL, NULL, HVD_OPTION_FLAG, AT(behind)},          /* of the monitor */
	{NULL, NULL, NULL, HVD_OPTION_FLAG, 0},
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
