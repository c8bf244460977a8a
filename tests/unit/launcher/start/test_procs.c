/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that run the shims of an elastic job's hosts: what starts them is a shell here. */
#include "launcher/start/procs.h"

#include "tests/standins/old_kernel.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/wait.h>

struct world {
	struct event_base *base;
	struct event *child;
	struct hvd_launch_spec spec;
	struct hvd_launch launch;
	struct hvd_backend backend;
	struct hvd_procs_opts procs_opts;
	struct hvd_key key;
	struct hvd_procs *procs;
	char dir[64];
	int lost, cut_short, none_left;
	uint32_t last_lost;
	char why[512];
	int fds;
};

static void on_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->lost++;
	w->last_lost = host;
	snprintf(w->why, sizeof(w->why), "%.200s: %.300s", why->host, why->msg);
}

static void on_cut_short(uint32_t host, void *arg)
{
	((struct world *)arg)->cut_short++;
}

static void on_none_left(void *arg)
{
	((struct world *)arg)->none_left++;
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
	hvd_procs_reap(((struct world *)arg)->procs);
}

/* The name of a host is what its process does; slots, number and so on are in its environment. */
static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[0];
	struct hvd_proc *proc;

	if (strcmp(host->name, "nowhere") == 0)
		return hvd_err_set(err, HVD_E_FAILED, "there is no such host");
	proc = hvd_launch_add(launch, host->name);
	hvd_strv_add(&proc->argv, "/bin/sh");
	hvd_strv_add(&proc->argv, "-c");
	if (strcmp(host->name, "stays") == 0)
		hvd_strv_add(&proc->argv, "echo here >\"$DIR/$HOST\"; exec sleep 100");
	else if (strcmp(host->name, "stubborn") == 0)
		hvd_strv_add(&proc->argv, "trap 'echo asked >\"$DIR/$HOST.asked\"' TERM; echo here >\"$DIR/$HOST\"; "
					  "while :; do sleep 0.1; done");
	else if (strcmp(host->name, "fails") == 0)
		hvd_strv_add(&proc->argv, "exit 3");
	else
		hvd_strv_add(&proc->argv, "echo $SLOTS $JOB $ANOTHER >\"$DIR/$HOST\"; until [ -e \"$DIR/go\" ]; do "
					  "sleep 0.05; done");
	hvd_strv_addf(&proc->env, "HOST=%d", launch->first_host);
	hvd_strv_addf(&proc->env, "SLOTS=%d", host->slots);
	hvd_strv_addf(&proc->env, "JOB=%u", host->slurm_job);
	hvd_strv_addf(&proc->env, "ANOTHER=%d", launch->another);
	return 0;
}

SETUP(begin, struct world, w)
{
	static const struct hvd_procs_ops ops = {.lost = on_lost, .cut_short = on_cut_short, .none_left = on_none_left};
	static char path[] = "PATH=/usr/bin:/bin", dir[80];
	static char *envp[] = {path, dir, NULL};

	w->fds = open_fds();
	snprintf(w->dir, sizeof(w->dir), "/tmp/test_procs.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(dir, sizeof(dir), "DIR=%s", w->dir);
	w->base = event_base_new();
	w->launch = (struct hvd_launch){.spec = &w->spec, .envp = envp};
	w->backend = (struct hvd_backend){.name = "shell", .mode = HVD_START_HOSTS, .add_host = add_host};
	w->procs_opts = (struct hvd_procs_opts){.boot = "boot", .key = &w->key, .nofile = 1024, .elastic = true};
	w->procs = hvd_procs_create(w->base, &w->launch, &w->backend, &w->procs_opts, &ops, w);
	w->child = evsignal_new(w->base, SIGCHLD, on_child, w);
	event_add(w->child, NULL);
}

static int end(void **state)
{
	struct world *w = *state;
	int leaked;

	hvd_procs_destroy(w->procs);
	event_free(w->child);
	event_base_free(w->base);
	remove_tree(w->dir);
	/* Nothing that it has started is left. */
	leaked = open_fds() - w->fds + (waitpid(-1, NULL, WNOHANG) != -1);
	free(w);
	return leaked ? -1 : 0;
}

/* Until the condition holds, which processes bring about; or what happens to them later. */
#define until(w, condition)       until_at((w), 0.002, condition)
#define until_later(w, condition) until_at((w), 0.05, condition)
#define until_at(w, pass, condition)                                                                                   \
	for (time_t begun = time(NULL); !(condition);) {                                                               \
		usleep(2000);                                                                                          \
		test_clock_pass((w)->base, pass);                                                                      \
		assert_true(time(NULL) - begun < 40);                                                                  \
	}

static int start(struct world *w, uint32_t host, const char *name)
{
	const struct hvd_alloc_host listed = {.name = (char *)name, .slots = 2, .slurm_job = 77};
	struct hvd_err err = {0};
	int rc = hvd_procs_start_host(w->procs, host, &listed, &err);

	if (rc != 0)
		snprintf(w->why, sizeof(w->why), "%.200s: %.300s", err.host, err.msg);
	return rc;
}

/* What the process of a host has written; "" while it has not. */
static const char *wrote(const struct world *w, const char *file)
{
	static char text[64];
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", w->dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

TEST_IN(each_host_has_a_process, struct world *w)
{
	assert_int_equal(start(w, 0, "a"), 0);
	assert_int_equal(start(w, 5, "b"), 0);
	assert_int_equal(hvd_procs_running(w->procs), 2);
	until(w, *wrote(w, "0") && *wrote(w, "5"));
	assert_string_equal(wrote(w, "0"), "2 77 0\n");
	assert_string_equal(wrote(w, "5"), "2 77 1\n");
	/* Their shims were told to end, and do. */
	hvd_procs_end(w->procs, 10);
	make_file(w->dir, "/go", "");
	until(w, w->none_left);
	assert_int_equal(w->none_left, 1);
	assert_int_equal(hvd_procs_running(w->procs), 0);
	assert_int_equal(w->lost + w->cut_short, 0);
}

TEST_IN(one_ends_that_is_wanted, struct world *w)
{
	assert_int_equal(start(w, 3, "fails"), 0);
	hvd_procs_registered(w->procs, 3);
	until(w, w->none_left);
	assert_int_equal(w->lost, 1);
	assert_int_equal(w->last_lost, 3);
	assert_string_equal(w->why, "fails: its node agent ended before its ranks did: exit code 3");
	/* The same host again. */
	assert_int_equal(start(w, 3, "fails"), 0);
	until(w, w->lost == 2);
	assert_string_equal(w->why, "fails: its node agent could not be started: exit code 3");
}

TEST_IN(one_ends_that_is_released, struct world *w)
{
	assert_int_equal(start(w, 0, "a"), 0);
	hvd_procs_release(w->procs, 0, false);
	hvd_procs_release(w->procs, 0, false);     /* it is not wanted already */
	hvd_procs_release(w->procs, 9, false);     /* none */
	assert_int_equal(start(w, 0, "stays"), 0); /* the host is used again meanwhile */
	make_file(w->dir, "/go", "");
	until(w, hvd_procs_running(w->procs) == 1);
	assert_int_equal(w->lost + w->none_left, 0);
}

/* Nobody could tell the shim: the process that runs it is asked, and that is all that stays of it. */
TEST_IN(one_is_released_hard, struct world *w)
{
	assert_int_equal(start(w, 0, "stays"), 0);
	until(w, *wrote(w, "0"));
	hvd_procs_release(w->procs, 0, true);
	until(w, w->none_left);
	assert_int_equal(w->lost, 0);
}

/* Its host was given up, so the end of the job does not wait for it as for one that works. */
TEST_IN(one_that_was_released_hard_does_not_end_with_the_job, struct world *w)
{
	assert_int_equal(start(w, 0, "stubborn"), 0);
	until(w, *wrote(w, "0"));
	hvd_procs_release(w->procs, 0, true);
	until(w, *wrote(w, "0.asked"));
	hvd_procs_end(w->procs, 100);
	test_clock_pass(w->base, 4);
	until(w, w->none_left);
	assert_int_equal(w->cut_short + w->lost, 0);
}

/* Its host has no ranks: there is a message, but it need not be waited for. */
TEST_IN(one_of_an_idle_host_does_not_end_with_the_job, struct world *w)
{
	assert_int_equal(start(w, 0, "stubborn"), 0);
	assert_int_equal(start(w, 1, "stubborn"), 0);
	until(w, *wrote(w, "0") && *wrote(w, "1"));
	hvd_procs_end(w->procs, 100);
	hvd_procs_idle(w->procs, 1);
	test_clock_pass(w->base, 4);
	assert_int_equal(w->cut_short, 0);
	test_clock_pass(w->base, 2);
	assert_int_equal(w->cut_short, 1);
	until_later(w, w->none_left);
}

TEST_IN(one_does_not_end, struct world *w)
{
	assert_int_equal(start(w, 0, "stubborn"), 0);
	until(w, *wrote(w, "0"));
	hvd_procs_release(w->procs, 0, true);
	until(w, *wrote(w, "0.asked"));
	until_later(w, w->none_left); /* killed */
	assert_int_equal(w->lost, 0);
}

/* At the end of the job what a killed process would have passed on is missed. */
TEST_IN(one_does_not_end_with_the_job, struct world *w)
{
	assert_int_equal(start(w, 2, "stubborn"), 0);
	until(w, *wrote(w, "2"));
	hvd_procs_end(w->procs, 10);
	hvd_procs_signal(w->procs, SIGTERM); /* the user asks again: by a signal */
	until(w, *wrote(w, "2.asked"));
	assert_int_equal(w->none_left, 0);
	hvd_procs_drop_output(w->procs); /* and does not want to wait any longer */
	until_later(w, w->none_left);
	assert_int_equal(w->cut_short + w->lost, 0);
}

/* Its shim is gone, and it cannot hear of that. */
TEST_IN(one_waits_in_vain, struct world *w)
{
	assert_int_equal(start(w, 2, "stubborn"), 0);
	until(w, *wrote(w, "2"));
	assert_false(hvd_procs_stuck(w->procs, 2)); /* it is wanted */
	hvd_procs_end(w->procs, 30);
	assert_true(hvd_procs_stuck(w->procs, 2));
	assert_false(hvd_procs_stuck(w->procs, 2));
	until_later(w, w->none_left);
	assert_int_equal(w->cut_short + w->lost, 0);
}

TEST_IN(one_cannot_be_started, struct world *w)
{
	assert_int_equal(start(w, 0, "nowhere"), -1);
	assert_string_equal(w->why, "nowhere: there is no such host");
	assert_int_equal(hvd_procs_running(w->procs), 0);
	assert_int_equal(w->none_left, 0);
	hvd_procs_end(w->procs, 10); /* with none there is nothing to wait for */
	assert_int_equal(w->none_left, 0);
}

TEST_IN(they_go_with_their_owner, struct world *w)
{
	assert_int_equal(start(w, 0, "stays"), 0);
	assert_int_equal(start(w, 1, "stubborn"), 0);
	until(w, *wrote(w, "0") && *wrote(w, "1"));
	test_clock_look = 10000000; /* a child without a pidfd is looked at every 10 ms */
	hvd_procs_destroy(w->procs);
	test_clock_look = 0;
	w->procs = NULL;
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* The last test: there is no way back. */
TEST_IN(on_an_old_kernel_they_go_too, struct world *w)
{
	assert_int_equal(old_kernel_begin(), 0);
	they_go_with_their_owner_in(w);
}

RUN_TESTS(.setup = begin, .teardown = end)
