/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include "agent.h"
#include "command.h"
#include "lib/base/strv.h"
#include "lib/frameworks/emit.h"
#include "lib/process/apptainer.h"
#include "lib/protocol/munge.h"
#include "link.h"
#include "rank_key.h"
#include "serve.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A driver that does not take the report within this time is not going to act on it. */
#define REPORT_SECONDS 3.0
/* When a task fails srun ends the step, and loses what the task said in the moment before: give it time to arrive. */
#define LAST_WORDS_MS 100

extern char **environ;

struct fetch {
	const struct hvd_log *log;
	const struct hvd_taskinfo *info;
	const struct hvd_boot *boot;
	struct hvd_session session;
	struct hvd_agent *agent;
	struct event_base *base;
	enum hvd_agent_role role;
	struct hvd_strv env; /* NAME=VALUE of the plan; for all ranks of the host: "" behind each rank's */
	int key_fd;          /* for the command, see rank_key.h */
	pid_t task;          /* the rank's, as Slurm knows it */
	int status;          /* -1 while it goes on */
	bool said;           /* an error message went out */
	char parent[32];     /* the program that started this one */
	bool keep;           /* the driver wants to know when this host is lost: stay connected */
};

static void end(struct fetch *fetch, int status)
{
	if (fetch->status < 0)
		fetch->status = status;
	event_base_loopbreak(fetch->base);
}

/* MPI's workers in a step that srun was not told to start an MPI in: each would find itself alone, and go on. With
 * Slurm's own libpmi it is right. */
static void warn_without_pmi(const struct fetch *fetch)
{
	const char *controller = hvd_env_get(&fetch->env, "HOROVOD_CONTROLLER");

	if (fetch->info->rank != 0 || fetch->info->size < 2 || !controller || strcmp(controller, "mpi") != 0 ||
	    getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
		return;
	hvd_warn(fetch->log, "the workers' controller is MPI, but nothing here tells an MPI its rank");
	hvd_info(fetch->log, "srun needs --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI), whatever 'srun "
			     "--mpi=list' has");
}

static void add_env(struct fetch *fetch, const json_t *env)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)env, name, value)
	{
		char *set = json_is_string(value) ? hvd_emit_name(name, environ) : NULL;

		if (set)
			hvd_strv_addf(&fetch->env, "%s=%s", set, json_string_value(value));
		free(set);
	}
}

static void on_failed(const struct hvd_err *why, void *arg);

static void on_plan(const json_t *plan, void *arg)
{
	struct fetch *fetch = arg;
	struct hvd_err why = {0};
	json_t *env;
	size_t i;

	if (hvd_rank_key_take(plan, &fetch->session, &fetch->key_fd, &why) != 0) {
		on_failed(&why, fetch);
		return;
	}
	if (fetch->role == HVD_AGENT_ALL) {
		json_array_foreach(json_object_get(plan, "ranks"), i, env)
		{
			add_env(fetch, env);
			hvd_strv_add(&fetch->env, "");
		}
	} else {
		add_env(fetch, json_object_get(plan, "env"));
	}
	warn_without_pmi(fetch);
	fetch->keep = json_is_true(json_object_get(plan, "keep"));
	end(fetch, 0);
}

static void on_serve(void *arg)
{
	struct fetch *fetch = arg;
	struct hvd_err why = {0};

	if (hvd_serve_spawn(fetch->task, fetch->boot, &why) != 0)
		hvd_agent_send(fetch->agent, json_pack("{s:s, s:s, s:s, s:s}", "t", "cannot", "host", fetch->info->name,
						       "why", why.msg, "hint", why.hint));
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct fetch *fetch = arg;
	struct hvd_err here = *why;

	/* The first rank that ends has srun send this to the others, which are about to end with the same status. */
	signal(SIGTERM, SIG_IGN);
	/* What the driver has told already is not said again by every rank. */
	if (why->code != HVD_E_FAILED && why->msg[0]) {
		if (!here.host[0])
			hvd_err_host(&here, fetch->info->name);
		hvd_log_err(fetch->log, &here);
		fetch->said = true;
	}
	end(fetch, hvd_err_status(why));
}

/* Last words go out to the driver; returns when they are out, at most after their second. */
static void part(struct fetch *fetch)
{
	hvd_agent_destroy(fetch->agent);
	fetch->agent = NULL;
	if (fetch->base) {
		event_base_dispatch(fetch->base);
		event_base_free(fetch->base);
	}
	fetch->base = NULL;
	if (fetch->said)
		poll(NULL, 0, LAST_WORDS_MS);
}

/* Get the plan. 0 with fetch->env filled, or an exit status. The connection is there still until part(). */
static int fetch_plan(struct fetch *fetch, const struct hvd_boot *boot)
{
	static const struct hvd_agent_ops ops = {.plan = on_plan, .serve = on_serve, .failed = on_failed};
	struct hvd_err why = {0};

	fetch->status = -1;
	fetch->boot = boot;
	fetch->base = event_base_new();
	if (!fetch->base || hvd_agent_session(boot, &fetch->session, &why) != 0)
		on_failed(&why, fetch);
	else if (!(fetch->agent = hvd_agent_create(fetch->base, boot, &fetch->session, fetch->info, fetch->role,
						   hvd_deadline_in(boot->timeout), &ops, fetch, fetch->log, &why)))
		on_failed(&why, fetch);
	else if (fetch->status < 0)
		event_base_dispatch(fetch->base);
	return fetch->status < 0 ? 1 : fetch->status;
}

static enum hvd_agent_role role_of(const struct hvd_taskinfo *info)
{
	return info->local_rank ? HVD_AGENT_RANK : HVD_AGENT_NODE;
}

int hvd_rank_print_plan(const struct hvd_boot *boot, const struct hvd_taskinfo *info, bool all,
			const struct hvd_log *log)
{
	struct fetch fetch = {.log = log,
			      .info = info,
			      .role = all ? HVD_AGENT_ALL : role_of(info),
			      .task = getppid()}; /* the plugin, in the task */
	int status = fetch_plan(&fetch, boot);

	part(&fetch);
	if (!all)
		hvd_strv_add(&fetch.env, "");
	for (size_t i = 0; status == 0 && i < fetch.env.n; i++)
		if (fwrite(fetch.env.v[i], strlen(fetch.env.v[i]) + 1, 1, stdout) != 1)
			status = 1;
	if (status == 0 && fflush(stdout) != 0)
		status = 1;
	hvd_strv_free(&fetch.env);
	return status;
}

struct last_word {
	struct event_base *base;
	json_t *msg;
};

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct last_word *word = arg;

	hvd_conn_send(conn, json_incref(word->msg));
	hvd_conn_finish(conn, hvd_deadline_in(REPORT_SECONDS));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	(void)why; /* the driver went first: then it was not this rank that ended the job */
	event_base_loopbreak(((struct last_word *)arg)->base);
}

/* Over a connection of its own, where none was kept. */
static void report_anew(const struct fetch *fetch, json_t *msg)
{
	struct last_word word = {.base = event_base_new(), .msg = msg};
	struct hvd_session session;
	struct hvd_link *link;

	if (word.base && hvd_agent_session(fetch->boot, &session, NULL) == 0) {
		link = hvd_link_create(word.base, fetch->boot, &session, hvd_deadline_in(REPORT_SECONDS), on_up,
				       on_down, &word);
		event_base_dispatch(word.base);
		hvd_link_destroy(link);
	}
	if (word.base)
		event_base_free(word.base);
	json_decref(msg);
}

/* What a kept connection is given goes out with the goodbye. `msg` is taken over. */
static void report(const struct fetch *fetch, json_t *msg)
{
	if (fetch->agent)
		hvd_agent_send(fetch->agent, msg);
	else
		report_anew(fetch, msg);
}

static void report_exit(const struct fetch *fetch, int status)
{
	report(fetch,
	       json_pack("{s:s, s:I, s:i}", "t", "exit", "rank", (json_int_t)fetch->info->rank, "status", status));
}

/* A connection that ends without this tells the driver that the host was lost. Without munged the step daemon cannot
 * tell srun that the rank has ended. */
static void say_done(struct fetch *fetch)
{
	if (fetch->agent)
		hvd_agent_send(fetch->agent,
			       json_pack("{s:s, s:b}", "t", "done", "munge",
					 strcmp(fetch->boot->id, "munge") != 0 || hvd_munge_listens(NULL)));
	part(fetch);
}

/* The step daemon has gone, and with it the way of the rank's output, of signals to it and of the news of its end. */
static void on_orphaned(void *arg)
{
	struct fetch *fetch = arg;

	if (!fetch->agent)
		return;
	hvd_agent_send(fetch->agent, json_pack("{s:s, s:s}", "t", "orphan", "parent", fetch->parent));
	event_base_loop(fetch->base, EVLOOP_NONBLOCK);
}

/* The name of the program that started this one. */
static void name_parent(char name[32])
{
	FILE *f;
	char path[64];

	snprintf(name, 32, "what started the ranks");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)getppid());
	f = fopen(path, "re");
	if (f && fgets(name, 32, f))
		name[strcspn(name, "\n")] = '\0';
	if (f)
		fclose(f);
}

int hvd_rank_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, char *const *argv,
		 const struct hvd_output_style *style, bool follow, const struct hvd_log *log)
{
	struct fetch fetch = {.log = log, .info = info, .role = role_of(info), .task = getpid()};
	struct hvd_output_losses losses = {.log = log, .host = info->name};
	struct hvd_output_style sized = *style;
	struct hvd_command command = {
		.argv = argv, .rank = (int)info->rank, .style = &sized, .follow = follow, .parent = getppid()};
	struct hvd_strv env = {0};
	struct hvd_err err = {0};
	int status, rc;

	if (!follow) {
		command.orphaned = on_orphaned;
		command.arg = &fetch;
		name_parent(fetch.parent);
	}
	status = fetch_plan(&fetch, boot);
	if (status != 0 || !fetch.keep)
		part(&fetch);
	if (status != 0)
		return status;
	hvd_strv_add_all(&env, environ);
	hvd_env_unset(&env, HVD_BOOT_ENV);
	for (size_t i = 0; i < fetch.env.n; i++) {
		char *value = strchr(fetch.env.v[i], '=');

		*value = '\0';
		hvd_apptainer_setenv(&env, argv[0], fetch.env.v[i], value + 1);
	}
	hvd_strv_free(&fetch.env);
	hvd_rank_key_env(fetch.key_fd, argv[0], &env);
	command.envp = env.v;
	command.key_fd = fetch.key_fd;
	sized.size = (int)info->size;
	sized.losses = &losses;
	rc = hvd_command_run(&command, &status, &err);
	if (fetch.key_fd)
		close(fetch.key_fd);
	hvd_strv_free(&env);
	if (rc != 0) {
		hvd_err_host(&err, info->name);
		hvd_log_err(log, &err);
		report_exit(&fetch, 127 << 8);
		say_done(&fetch);
		return 127;
	}
	/* The scheduler would take another status of this task for a failure, and end the others. */
	if (losses.any)
		report(&fetch, json_pack("{s:s}", "t", "output-lost"));
	/* A rank that was ended with all others is not what ended the job, and the scheduler says why. */
	if (status != 0 && !hvd_command_signalled_with_us(status))
		report_exit(&fetch, status);
	say_done(&fetch);
	if (follow)
		hvd_command_end_left();
	return hvd_command_mirror(status);
}
