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
#include "launcher/diagnosis/hang_watch.h"
#include "launcher/driver/driver.h"
#include "launcher/driver/relays.h"
#include "launcher/options/config.h"
#include "launcher/run/requeue.h"
#include "launcher/run/secret.h"
#include "launcher/run/time_limit.h"
#include "lib/base/cleanup.h"
#include "lib/base/key.h"
#include "lib/base/log.h"
#include "lib/net/nicspec.h"
#include "lib/process/capture.h"
#include "lib/process/rlimits.h"
#include "lib/process/spawn.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

#define SRUN_FD 3
/* When the start fails, the ranks fail, and srun ends the step. If it has not done so within this time, because no rank
 * could be told, the driver asks Slurm's controller to end the step. After the start nobody is connected who could be
 * told: the controller is asked to send SIGTERM at once. */
#define END_STEP_SECONDS 3.0
/* A host whose connection broke is lost when the step still goes on after this; see launcher/run/run.c. */
#define LOST_HOST_SECONDS 3
/* How long Slurm may take to say whether the job shares its hosts. */
#define ASK_SECONDS 2.0

static const char usage[] =
	"usage: hvd-driver --job=ID --step=ID --nodes=N --tasks=N [--port-range=LO-HI] [--nics=LIST]\n"
	"                  [--start-timeout=SEC] [--rendezvous=auto|launch|batch] [--trace=FILE] [--config=FILE]\n"
	"                  [--store=agent|rank0|off] [--store-relay=auto|always|never] [--frameworks=LIST]\n"
	"                  [--init-timeout=SEC] [--preflight=off|quick|full] [--spares=N] [--hang-timeout=SEC]\n"
	"                  [--hang-action=report|kill|requeue] [--signal-ranks=SIG@SEC] [--requeue-on=LIST]\n"
	"                  [--stderr-lines=N] [--key-file=FILE] [--key-fd=FD] [--verbose[=N]]\n"
	"Started by srun --hvd, not by hand: see spank-hvd(8).\n";

struct program {
	struct event_base *base;
	struct hvd_log log;
	struct hvd_driver_opts opts;
	uint32_t job, step, key_fd; /* key_fd: 0 = none */
	struct event *end_step;
	bool started;
	struct hvd_options settings; /* what the plugin, the configuration files and the environment say */
	struct hvd_launch_spec spec; /* made from `settings` */
	struct hvd_requeue_wish requeue;
	struct hvd_time_limit *limit;
	struct event *host_lost;
	char lost_host[256];
};

static void signal_step(const struct program *prog, int sig)
{
	struct hvd_err err = {0};

	if (hvd_slurm_step_signal(prog->job, prog->step, sig, &err) != 0)
		hvd_log_err(&prog->log, &err);
}

static void on_end_step(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	signal_step(arg, SIGKILL);
}

/* ---- the time limit, lost hosts, and beginning again ---- */

static void on_limit_announced(int sig, double left, void *arg)
{
	struct program *prog = arg;

	hvd_info(&prog->log, "the job's time is over in %.0f s: sending SIG%s to all ranks", left, sigabbrev_np(sig));
	hvd_requeue_want(&prog->requeue, &prog->spec, HVD_REQUEUE_LIMIT, NULL);
	signal_step(prog, sig);
}

static void on_limit_last(double left, void *arg)
{
	struct program *prog = arg;

	if (!hvd_requeue_wanted(&prog->requeue, HVD_REQUEUE_LIMIT))
		return;
	hvd_info(&prog->log, "the job's time is over in %.0f s: ending the ranks, so that it can be requeued", left);
	signal_step(prog, SIGTERM);
	evtimer_add(prog->end_step, &(struct timeval){.tv_sec = (time_t)END_STEP_SECONDS});
}

/* The step goes on without the host, for which srun would wait until Slurm gives it up, too. */
static void on_lost_host(evutil_socket_t fd, short what, void *arg)
{
	struct program *prog = arg;

	(void)fd;
	(void)what;
	hvd_requeue_want(&prog->requeue, &prog->spec, HVD_REQUEUE_NODE, prog->lost_host);
	if (!hvd_requeue_wanted(&prog->requeue, HVD_REQUEUE_NODE))
		return;
	hvd_error(&prog->log, "%s: the connection to its node agent was lost; ending the step", prog->lost_host);
	signal_step(prog, SIGTERM);
	evtimer_add(prog->end_step, &(struct timeval){.tv_sec = (time_t)END_STEP_SECONDS});
}

static void on_rank_exit(const struct hvd_rank_end *end, const char *host, void *arg)
{
	struct program *prog = arg;

	(void)host;
	hvd_requeue_rank_ended(&prog->requeue, &prog->spec, end->status);
}

static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
	struct program *prog = arg;
	struct timeval tv = {.tv_sec = why->code == HVD_E_TIMEOUT ? 0 : LOST_HOST_SECONDS};

	if (evtimer_pending(prog->host_lost, NULL))
		return;
	snprintf(prog->lost_host, sizeof(prog->lost_host), "%s", host);
	evtimer_add(prog->host_lost, &tv);
}

static void on_started(void *arg)
{
	static const struct hvd_time_limit_ops ops = {on_limit_announced, on_limit_last};
	struct program *prog = arg;

	prog->started = true;
	prog->limit = hvd_time_limit_watch(prog->base, &prog->spec, prog->job, &ops, prog, &prog->log);
}

static void end_step(struct program *prog)
{
	struct timeval tv = {.tv_sec = (time_t)END_STEP_SECONDS};

	if (prog->started)
		signal_step(prog, SIGTERM);
	evtimer_add(prog->end_step, &tv);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	hvd_log_err(&((struct program *)arg)->log, why);
	end_step(arg);
}

static void on_hang_end(const struct hvd_err *why, bool requeue, void *arg)
{
	struct program *prog = arg;

	hvd_log_err(&prog->log, why);
	if (requeue)
		hvd_requeue_want(&prog->requeue, &prog->spec, HVD_REQUEUE_HANG, NULL);
	end_step(prog);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct program *prog = arg;

	hvd_hang_report(stall, &prog->spec, &prog->log, on_hang_end, prog);
}

static void on_srun(evutil_socket_t fd, short what, void *arg)
{
	struct program *prog = arg;
	char byte;
	ssize_t n = read(fd, &byte, 1);

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		event_base_loopbreak(prog->base);
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	event_base_loopbreak(((struct program *)arg)->base);
}

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
	if (hvd_nicspec_check_all(o->nics.v, err) != 0)
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
		{"port-range", required_argument, NULL, 'p'},
		{"key-fd", required_argument, NULL, 'K'},
		{"verbose", optional_argument, NULL, 'v'},
		/* Settings. */
		{"nics", required_argument, NULL, 'S'},
		{"start-timeout", required_argument, NULL, 'S'},
		{"rendezvous", required_argument, NULL, 'S'},
		{"store", required_argument, NULL, 'S'},
		{"store-relay", required_argument, NULL, 'S'},
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

static int send_boot(const struct hvd_driver *driver, struct hvd_err *err)
{
	struct hvd_boot boot;
	char text[HVD_BOOT_MAX];
	size_t len;

	hvd_driver_boot(driver, &boot);
	if (hvd_boot_format(&boot, text, err) != 0)
		return -1;
	len = strlen(text);
	text[len] = '\n'; /* in place of the NUL: the text is one line */
	if (write(SRUN_FD, text, len + 1) != (ssize_t)len + 1)
		return hvd_err_sys(err, "cannot answer srun");
	return 0;
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

/* Ask Slurm in a process of its own, which writes "0", "1" or why it cannot tell: a controller that does not answer
 * must not hold up the launch for long. */
static pid_t begin_to_ask(const struct program *prog, int out)
{
	struct hvd_err err = {0};
	bool shared = false;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (hvd_slurm_job_shared(prog->job, &shared, &err) == 0)
		snprintf(err.msg, sizeof(err.msg), "%d", shared);
	_exit(write(out, err.msg, strlen(err.msg)) < 0 ? 1 : 0);
}

/* Slurm's answer is of use only where the number of ranks does not decide. srun is starting the tasks meanwhile. */
static void ask_shared(struct program *prog)
{
	struct hvd_driver_opts *opts = &prog->opts;
	hvd_cleanup_free char *said = NULL;
	int fds[2];
	size_t len;
	pid_t pid;

	if (!hvd_relays_ask_shared(opts) || pipe2(fds, O_CLOEXEC) != 0)
		return;
	pid = begin_to_ask(prog, fds[1]);
	close(fds[1]);
	if (pid > 0)
		said = hvd_capture_fd(fds[0], "Slurm", 4096, hvd_deadline_in(ASK_SECONDS), &len, NULL);
	close(fds[0]);
	if (pid > 0)
		hvd_end(pid, 0, NULL);
	opts->hosts_shared = said && strcmp(said, "1") == 0;
	if (!said || (strcmp(said, "0") != 0 && strcmp(said, "1") != 0))
		hvd_verbose(&prog->log, "cannot tell whether other users have processes on these hosts: %s",
			    said ? said : "Slurm does not answer");
}

static int run(struct program *prog, struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {.started = on_started,
						  .failed = on_failed,
						  .rank_exit = on_rank_exit,
						  .host_gone = on_host_gone,
						  .stalled = on_stalled};
	char id_text[HVD_ID_TEXT];
	struct hvd_identity identity;
	struct hvd_session session;
	struct hvd_driver *driver;
	struct event *srun, *term;
	int rc;

	prog->base = event_base_new();
	if (!prog->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	if (identity_of(prog, &identity, id_text, err) != 0 || hvd_session_create(&session, &identity, err) != 0)
		return -1;
	prog->opts.id_text = id_text;
	prog->end_step = evtimer_new(prog->base, on_end_step, prog);
	prog->host_lost = evtimer_new(prog->base, on_lost_host, prog);
	srun = event_new(prog->base, SRUN_FD, EV_READ | EV_PERSIST, on_srun, prog);
	term = evsignal_new(prog->base, SIGTERM, on_term, prog);
	event_add(srun, NULL);
	event_add(term, NULL);
	driver = hvd_driver_create(prog->base, &prog->opts, &session, &ops, prog, &prog->log, err);
	rc = driver ? send_boot(driver, err) : -1;
	if (rc == 0)
		ask_shared(prog);
	if (rc == 0)
		event_base_dispatch(prog->base);
	hvd_driver_destroy(driver);
	event_free(srun);
	event_free(term);
	event_free(prog->end_step);
	event_free(prog->host_lost);
	hvd_time_limit_destroy(prog->limit);
	event_base_free(prog->base);
	return rc;
}

int main(int argc, char **argv)
{
	struct program prog = {.log = hvd_log_make("hvd", HVD_LOG_INFO)};
	struct hvd_err err = {0};

	hvd_options_init(&prog.settings);
	if (parse(argc, argv, &prog) != 0) {
		fputs(usage, stderr);
		return 2;
	}
	hvd_raise_nofile();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* srun decides what Ctrl-C means */
	if (apply_settings(&prog, &err) == 0) {
		prog.requeue.job = prog.job;
		hvd_requeue_begin(&prog.spec, prog.job, &prog.log);
		if (run(&prog, &err) == 0)
			return hvd_requeue_at_end(&prog.spec, &prog.requeue, 0, &prog.log);
	}
	hvd_log_err(&prog.log, &err);
	return hvd_err_status(&err);
}
