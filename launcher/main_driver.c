/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-driver - the driver of `srun --hvd`, started by the plugin inside srun.
 *
 * Descriptor 3 is one end of a socket pair whose other end srun has. The driver
 * writes the boot text to it as one line, and ends when it reads end of file,
 * which it does however srun ended. With --key-fd another descriptor holds the
 * launch's key, which srun sends to the tasks in Slurm's launch message; else
 * munge or a key file proves who belongs to the launch.
 */
#include "launcher/options/config.h"
#include "launcher/run/secret.h"
#include "launcher/run/step_run.h"
#include "lib/base/key.h"
#include "lib/base/log.h"
#include "lib/net/nicspec.h"
#include "lib/process/rlimits.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

#define SRUN_FD 3

static const char usage[] =
	"usage: hvd-driver --job=ID --step=ID --nodes=N --tasks=N [--wanted=N] [--per-node]\n"
	"                  [--port-range=LO-HI] [--nics=LIST]\n"
	"                  [--start-timeout=SEC] [--trace=FILE] [--config=FILE]\n"
	"                  [--store=agent|rank0|off] [--frameworks=LIST]\n"
	"                  [--init-timeout=SEC] [--preflight=off|quick|full] [--spares=N] [--hang-timeout=SEC]\n"
	"                  [--hang-action=report|kill|requeue] [--signal-ranks=SIG@SEC] [--requeue-on=LIST]\n"
	"                  [--stderr-lines=N] [--key-file=FILE] [--key-fd=FD] [--verbose[=N]]\n"
	"Started by srun --hvd, not by hand: see spank-hvd(8).\n";

struct program {
	struct hvd_log log;
	struct hvd_driver_opts opts;
	uint32_t job, step, key_fd;  /* key_fd: 0 = none */
	struct hvd_options settings; /* what the plugin, the configuration files and the environment say */
	struct hvd_launch_spec spec; /* made from `settings` */
};

static int number(const char *text, uint32_t *out)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *end || v > UINT32_MAX)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

/* Store an option of the plugin's, which has the name of the setting but for --config. It is as strong as one on a
 * command line. */
static int setting(struct program *prog, const char *option, const char *value)
{
	const char *name = strcmp(option, "config") == 0 ? "config-file" : option;
	struct hvd_err err = {0};

	if (hvd_options_config(&prog->settings, HVD_FROM_COMMAND, name, value, &err) == 0)
		return 0;
	hvd_log_err(&prog->log, &err);
	return -1;
}

/* srun has no option for the workers' controller. A user who chooses it by Horovod's own variable means it for the plan
 * as well. */
static int worker_controller(struct hvd_options *o, struct hvd_err *err)
{
	const char *text = getenv("HOROVOD_CONTROLLER");

	if (!text || !*text || getenv("HVD_CONTROLLER"))
		return 0;
	return hvd_options_config(o, HVD_FROM_ENV, "controller", text, err) == 0
		       ? 0
		       : hvd_err_prefix(err, "HOROVOD_CONTROLLER");
}

/* Read environment and configuration files, which fill in what the plugin's options left open, and make the launch
 * spec. */
static int apply_settings(struct program *prog, struct hvd_err *err)
{
	struct hvd_options *o = &prog->settings;

	if (hvd_options_env(o, environ, err) != 0 || worker_controller(o, err) != 0 || hvd_config_load(o, err) != 0)
		return -1;
	if (hvd_nicspec_check_all(o->nics.v, err) != 0 || hvd_options_check_trace(o, err) != 0)
		return -1;
	for (size_t i = 0; i < o->warnings.n; i++)
		hvd_warn(&prog->log, "%s", o->warnings.v[i]);
	/* Elastic jobs are hvdrun's, even if the site or the environment says something of them. */
	o->max_restarts = -1;
	hvd_launch_spec_make(&prog->spec, o, environ);
	prog->opts.spec = &prog->spec;
	if (o->verbose && prog->log.level < HVD_LOG_VERBOSE)
		prog->log.level = o->verbose > 1 ? HVD_LOG_DEBUG : HVD_LOG_VERBOSE;
	return 0;
}

static int parse(int argc, char **argv, struct program *prog)
{
	static const struct option options[] = {
		{"job", required_argument, NULL, 'j'},
		{"step", required_argument, NULL, 's'},
		{"nodes", required_argument, NULL, 'N'},
		{"tasks", required_argument, NULL, 'n'},
		{"wanted", required_argument, NULL, 'w'},
		{"per-node", no_argument, NULL, 'P'},
		{"port-range", required_argument, NULL, 'p'},
		{"key-fd", required_argument, NULL, 'K'},
		{"verbose", optional_argument, NULL, 'v'},
		/* Settings. */
		{"nics", required_argument, NULL, 'S'},
		{"start-timeout", required_argument, NULL, 'S'},
		{"store", required_argument, NULL, 'S'},
		{"frameworks", required_argument, NULL, 'S'},
		{"init-timeout", required_argument, NULL, 'S'},
		{"preflight", required_argument, NULL, 'S'},
		{"spares", required_argument, NULL, 'S'},
		{"hang-timeout", required_argument, NULL, 'S'},
		{"hang-action", required_argument, NULL, 'S'},
		{"signal-ranks", required_argument, NULL, 'S'},
		{"requeue-on", required_argument, NULL, 'S'},
		{"stderr-lines", required_argument, NULL, 'S'},
		{"trace", required_argument, NULL, 'S'},
		{"config", required_argument, NULL, 'S'},
		{"key-file", required_argument, NULL, 'S'},
		{NULL, 0, NULL, 0},
	};
	struct hvd_driver_opts *opts = &prog->opts;
	unsigned lo, hi;
	int c, i = 0, bad = 0;

	while ((c = getopt_long(argc, argv, "", options, &i)) != -1) {
		switch (c) {
		case 'j':
			bad |= number(optarg, &prog->job);
			break;
		case 's':
			bad |= number(optarg, &prog->step);
			break;
		case 'N':
			bad |= number(optarg, &opts->hosts);
			break;
		case 'n':
			bad |= number(optarg, &opts->ranks);
			break;
		case 'w':
			bad |= number(optarg, &opts->wanted_ranks);
			break;
		case 'P':
			opts->ranks_per_host = true;
			break;
		case 'p':
			if (sscanf(optarg, "%u-%u", &lo, &hi) != 2 || lo < 1 || lo > hi || hi > 65535) {
				bad = 1;
				break;
			}
			opts->port_lo = (in_port_t)lo;
			opts->port_hi = (in_port_t)hi;
			break;
		case 'S':
			bad |= setting(prog, options[i].name, optarg);
			break;
		case 'K':
			bad |= number(optarg, &prog->key_fd);
			break;
		case 'v':
			prog->log.level = optarg && atoi(optarg) > 1 ? HVD_LOG_DEBUG : HVD_LOG_VERBOSE;
			break;
		default:
			bad = 1;
		}
	}
	return bad || optind < argc ? -1 : 0;
}

/* How the ranks prove that they belong to this launch: a key file, the key that srun distributes, or munge. */
static int identity_of(const struct program *prog, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
		       struct hvd_err *err)
{
	if (prog->spec.key_file || !prog->key_fd)
		return hvd_secret_identity(prog->spec.key_file, identity, id_text, err);
	*identity = (struct hvd_identity){.kind = HVD_ID_KEY};
	snprintf(id_text, HVD_ID_TEXT, "fd:%d", HVD_KEY_FD);
	return hvd_key_read_fd((int)prog->key_fd, &identity->key, err);
}

static int run(struct program *prog, struct hvd_err *err)
{
	char id_text[HVD_ID_TEXT];
	struct hvd_identity identity;
	struct hvd_session session;
	struct hvd_step_run_opts opts = {.job = prog->job,
					 .step = prog->step,
					 .srun = SRUN_FD,
					 .driver = &prog->opts,
					 .session = &session,
					 .log = &prog->log};

	if (identity_of(prog, &identity, id_text, err) != 0 || hvd_session_create(&session, &identity, err) != 0)
		return -1;
	prog->opts.id_text = id_text;
	return hvd_step_run(&opts, err);
}

int main(int argc, char **argv)
{
	struct program prog = {.log = hvd_log_make("hvd", HVD_LOG_INFO)};
	struct hvd_err err = {0};
	int status;

	hvd_options_init(&prog.settings);
	if (parse(argc, argv, &prog) != 0) {
		fputs(usage, stderr);
		return 2;
	}
	hvd_raise_nofile();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* srun decides what Ctrl-C means */
	status = apply_settings(&prog, &err) == 0 ? run(&prog, &err) : -1;
	if (status >= 0)
		return status;
	hvd_log_err(&prog.log, &err);
	return hvd_err_status(&err);
}
