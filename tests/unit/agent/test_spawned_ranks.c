/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks and their output. Each scenario runs in a process of its own, as in hvd-agent: it adopts processes that ranks
 * leave behind, and waits for any child. Its stdout, its stderr and the calls of its callbacks go to files.
 */
#include "agent/spawned_ranks.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/output_frame.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

static char dir[] = "/tmp/hvd-test-ranks-XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) ? chdir(dir) : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"out", "err", "calls", "in", "pid", "ready.0", "ready.1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(names[i]);
	return chdir("/") == 0 ? rmdir(dir) : -1;
}

/* The contents of a file. The caller frees them. */
static char *slurp(const char *name, size_t *len)
{
	FILE *f = fopen(name, "r");
	char *text;
	long size;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, (size_t)size, f), size);
	fclose(f);
	if (len)
		*len = (size_t)size;
	return text;
}

struct scenario {
	const char *script;
	const char *path; /* the command; NULL = a shell with the script */
	int n;            /* ranks */
	enum hvd_label label;
	int end;            /* end the ranks by so many calls */
	bool told;          /* the last of the calls is the launcher's request */
	bool told_twice;    /* the launcher's request comes twice */
	const char *end_at; /* call once this file exists; NULL = at once */
	int sig;            /* signal the ranks at that time; 0 = none */
	bool alone;         /* end rank 0 alone at that time */
	double kill_wait;   /* 0 = longer than alarm()'s time */
	bool ignore_ends;
	bool destroy;                        /* destroy the ranks instead of ending them */
	bool look;                           /* at their standard error, and tell what was found */
	bool joined;                         /* stderr goes where stdout goes */
	const char *dir;                     /* output goes to files in it, too */
	bool began;                          /* tell of ranks that have begun */
	const char *of;                      /* there is a rank 3, too, with this name */
	const struct hvd_rank_place *worlds; /* of an elastic job: rank 0 of each, up to one without slots */
};

/* ---- in the process that has the ranks ---- */

static struct event_base *base;
static struct hvd_spawned_ranks *ranks;
static FILE *calls;

static void on_exited(const struct hvd_rank_process *of, const struct hvd_rank_end *end, void *arg)
{
	const struct scenario *sc = arg;

	fprintf(calls, "exit %d %d\n", of->id, end->status);
	if (sc->worlds && hvd_spawned_ranks_running(ranks) == 0)
		hvd_spawned_ranks_end(ranks);
	if (!sc->look)
		return;
	fprintf(calls, "%s; %s; %s; %s; %s\n", hvd_end_cause_name(end->cause), end->error ? end->error : "no error",
		end->tail ? end->tail : "no tail", end->pid > 0 ? "pid" : "no pid",
		end->failed_at > 0 && end->failed_at <= end->ended_at ? "failed before" : "failed");
}

static void on_all_gone(void *arg)
{
	fprintf(calls, "all gone\n");
	event_base_loopbreak(base);
}

/* In place of the agent's own; its source is the scenario. */
void hvd_agent_rank_began(struct hvd_agent *agent, struct hvd_world_rank rank, pid_t pid)
{
	if (((const struct scenario *)agent->ranks)->began)
		fprintf(calls, "%u began%s\n", (unsigned)rank.rank, kill(pid, 0) == 0 ? "" : " without a process");
}

void hvd_agent_rank_output(struct hvd_agent *agent, struct hvd_world_rank rank, size_t bytes)
{
	if (((const struct scenario *)agent->ranks)->began)
		fprintf(calls, "%zu bytes\n", bytes);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	const struct scenario *sc = arg;
	struct timeval tv = {.tv_usec = 2000};
	struct stat st;

	if (sc->end_at && stat(sc->end_at, &st) != 0) {
		event_base_once(base, -1, EV_TIMEOUT, on_tick, arg, &tv);
		return;
	}
	for (int i = 0; i < sc->end; i++)
		if (i + 1 < sc->end || !sc->told)
			hvd_spawned_ranks_end(ranks);
		else
			hvd_spawned_ranks_end_on_request(ranks);
	if (sc->told_twice)
		hvd_spawned_ranks_end_on_request(ranks);
	if (sc->sig)
		hvd_spawned_ranks_signal(ranks, sc->sig);
	if (sc->alone) {
		hvd_spawned_ranks_end_one(ranks, 1, 0, false); /* of another world */
		hvd_spawned_ranks_end_one(ranks, 0, 0, false);
	}
	if (sc->destroy)
		event_base_loopbreak(base);
}

static int to_file(const char *name, int fd)
{
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

	return file >= 0 && dup2(file, fd) == fd && close(file) == 0 ? 0 : -1;
}

static void add_named(const struct scenario *sc)
{
	struct hvd_rank_process of = {.world = 1, .number = 3};
	const struct hvd_rank_place place = {.slots = 1, .share = HVD_WHOLE_HOST};
	json_t *plan = json_object();
	struct hvd_err err = {0};

	snprintf(of.of, sizeof(of.of), "%s", sc->of);
	assert_int_equal(hvd_spawned_ranks_add(ranks, &of, plan, NULL, &place, &err), 0);
	json_decref(plan);
}

/* Start the ranks of an elastic job. */
static void start_worlds(const struct hvd_rank_place *worlds)
{
	for (unsigned w = 0; worlds[w].slots; w++) {
		json_t *plan = json_pack("{s:s, s:s, s:s, s:s}", "WORLD", (char[]){(char)('0' + w), '\0'},
					 "JAX_LOCAL_DEVICE_IDS?", "", "LOCAL_RANK", "3", "LOCAL_WORLD_SIZE", "4");
		struct hvd_rank_process of = {.world = w};
		struct hvd_err err = {0};

		if (hvd_spawned_ranks_add(ranks, &of, plan, NULL, &worlds[w], &err) != 0)
			fprintf(calls, "error %s\n", err.msg);
		json_decref(plan);
	}
}

static int shim(const struct scenario *sc)
{
	static const struct hvd_spawned_ranks_ops ops = {.exited = on_exited, .all_gone = on_all_gone};
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)sc->script, NULL};
	uint32_t numbers[16];
	struct hvd_taskinfo info = {.ranks = numbers};
	struct hvd_agent agent = {.info = &info,
				  .elastic = sc->worlds != NULL,
				  .settings = {.stderr_lines = 2, .kill_wait = sc->kill_wait > 0 ? sc->kill_wait : 100},
				  .ranks = (void *)sc};
	struct hvd_spawned_ranks_opts opts = {
		.argv = argv,
		.output = {.label = sc->label, .dir = sc->dir, .size = sc->n, .read_stderr = sc->look},
		.ignore_ends = sc->ignore_ends};
	struct timeval now = {0};
	struct hvd_err err = {0};
	json_t *plans = json_array();
	int before;

	alarm(30); /* whatever happens */
	if (to_file("out", 1) != 0 || to_file("err", 2) != 0 || (sc->joined && dup2(1, 2) != 2) ||
	    !(calls = fopen("calls", "we")))
		return 1;
	setenv("KEPT", "yes", 1);
	setenv("CHANGED", "old", 1);
	setenv("CUDA_VISIBLE_DEVICES", "6,7,8", 1);
	setenv(HVD_BOOT_ENV, "1;session=", 1);
	if (sc->path)
		argv[0] = (char *)sc->path;
	for (int r = 0; r < sc->n; r++) {
		char number[16];

		assert_in_range(r, 0, 15);
		numbers[r] = (uint32_t)r;
		snprintf(number, sizeof(number), "%d", r);
		json_array_append_new(plans, json_pack("{s:s, s:s, s:s}", "HOROVOD_RANK", number, "CHANGED", "new",
						       "ROLE_NAME", "default"));
	}
	before = open_fds();
	base = agent.base = event_base_new();
	ranks = hvd_spawned_ranks_start(&agent, plans, NULL, &opts, &ops, &err);
	json_decref(plans);
	if (!ranks) {
		fprintf(calls, "error %s\n", err.msg);
	} else {
		if (sc->of)
			add_named(sc);
		if (sc->worlds)
			start_worlds(sc->worlds);
		if (sc->end || sc->sig || sc->alone || sc->destroy)
			event_base_once(base, -1, EV_TIMEOUT, on_tick, (void *)sc, &now);
		event_base_dispatch(base);
	}
	hvd_spawned_ranks_destroy(ranks);
	event_base_free(base);
	if (open_fds() != before)
		fprintf(calls, "%d descriptors are open, %d were\n", open_fds(), before);
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		fprintf(calls, "a child is left\n");
	return fclose(calls);
}

/* ---- in the test's process ---- */

/* Run a scenario. Returns the calls of its callbacks, as text; the caller frees it. */
static char *play(const struct scenario *sc)
{
	int status;
	pid_t pid;

	unlink("pid");
	unlink("ready.0");
	unlink("ready.1");
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(shim(sc));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return slurp("calls", NULL);
}

static void calls_are(const struct scenario *sc, const char *want)
{
	char *got = play(sc);

	assert_string_equal(got, want);
	free(got);
}

static void out_is(const char *name, const char *want)
{
	char *got = slurp(name, NULL);

	assert_string_equal(got, want);
	free(got);
}

/* Assert that the process does not exist whose number a rank has written into the file "pid". */
static void is_gone(void)
{
	char *text = slurp("pid", NULL);
	pid_t pid = (pid_t)atoi(text);

	assert_true(pid > 1);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	free(text);
}

TEST(exit_codes)
{
	struct scenario sc = {.script = "exit $HOROVOD_RANK", .n = 4};
	char *got = play(&sc);

	assert_in(got, "exit 0 0\n");
	assert_in(got, "exit 1 256\n");
	assert_in(got, "exit 2 512\n");
	assert_in(got, "exit 3 768\n");
	assert_in(got, "all gone\n");
	assert_int_equal(strlen(got), strlen("exit 0 0\nexit 1 256\nexit 2 512\nexit 3 768\nall gone\n"));
	free(got);
}

/* In a folder that several ranks have, and that may be there from an earlier job. */
TEST(output_goes_to_files)
{
	struct scenario sc = {.script = "echo rank $HOROVOD_RANK; echo oh >&2", .n = 2, .dir = "files"};

	for (int i = 0; i < 2; i++) {
		free(play(&sc));
		out_is("files/rank.0/stdout", "rank 0\n");
		out_is("files/rank.1/stdout", "rank 1\n");
		out_is("files/rank.1/stderr", "oh\n");
	}
	assert_int_equal(remove_tree("files"), 0);
}

/* Other ranks may have its number. */
TEST(output_of_a_rank_with_a_name)
{
	struct scenario sc = {.script = "echo out; echo err >&2", .n = 1, .dir = "files", .of = "rollout/1"};
	char *out;

	sc.label = HVD_LABEL_HOROVOD;
	free(play(&sc));
	out = slurp("err", NULL);
	assert_in(out, "[0]<stderr>:err\n");
	assert_in(out, "[rollout/1:3]<stderr>:err\n");
	free(out);
	sc.label = HVD_LABEL_SRUN;
	free(play(&sc));
	out = slurp("out", NULL);
	assert_in(out, "0: out\n");
	assert_in(out, "[rollout/1:3] out\n");
	free(out);
	out_is("files/rank.0/stdout", "0: out\n");
	out_is("files/rollout.1/rank.3/stdout", "[rollout/1:3] out\n");
	out_is("files/rollout.1/rank.3/stderr", "[rollout/1:3] err\n");
	assert_int_equal(remove_tree("files"), 0);
}

TEST(a_rank_begins_writes_and_ends)
{
	calls_are(&(struct scenario){.script = "echo oh >&2", .n = 1, .began = true, .joined = true, .dir = "files"},
		  "0 began\n0 bytes\n3 bytes\nexit 0 0\nall gone\n");
	assert_int_equal(remove_tree("files"), 0);
}

TEST(signals)
{
	calls_are(&(struct scenario){.script = "kill -KILL $$", .n = 1}, "exit 0 9\nall gone\n");
	calls_are(&(struct scenario){.script = "sleep 1000", .n = 1, .end = 1}, "exit 0 15\nall gone\n");
	calls_are(&(struct scenario){.script = "trap 'exit 7' USR1; : >ready.0; while :; do sleep 0.01; done",
				     .n = 1,
				     .sig = SIGUSR1,
				     .end_at = "ready.0"},
		  "exit 0 1792\nall gone\n");
	/* A data loader does not get it: the child's status would be 138. */
	unlink("ready.0");
	calls_are(&(struct scenario){.script =
					     "trap 'wait $child; exit $?' USR1; sh -c 'sleep 0.4; exit 5' & child=$!; "
					     ": >ready.0; while :; do sleep 0.01 || :; done",
				     .n = 1,
				     .sig = SIGUSR1,
				     .end_at = "ready.0"},
		  "exit 0 1280\nall gone\n");
}

TEST(a_rank_that_does_not_want_to_end)
{
	struct scenario sc = {.script = "trap '' TERM; : >ready.0; while :; do sleep 0.01; done",
			      .n = 1,
			      .end = 1,
			      .told = true,
			      .told_twice = true, /* at once */
			      .end_at = "ready.0"};

	calls_are(&sc, "exit 0 9\nall gone\n");
	/* It is killed after kill_wait. */
	unlink("ready.0");
	sc.told = sc.told_twice = false;
	sc.kill_wait = 0.3;
	calls_are(&sc, "exit 0 9\nall gone\n");
	/* It is killed at once if it began with SIGTERM ignored and has set no handler. */
	unlink("ready.0");
	sc.kill_wait = 0;
	sc.ignore_ends = true;
	sc.script = ": >ready.0; while :; do sleep 0.01; done";
	calls_are(&sc, "exit 0 9\nall gone\n");
	/* Another one of its processes may have set a handler; then it has its time. */
	unlink("ready.0");
	sc.script = "env --default-signal=TERM sh -c 'trap \"sleep 0.6; exit 6\" TERM; : >ready.0; while :; do sleep "
		    "0.01; done'; exit $?";
	calls_are(&sc, "exit 0 1536\nall gone\n");
}

/* One of the rank's processes may heed SIGTERM, or none: then it need not get its time, which is longer than
 * alarm()'s. */
TEST(a_rank_that_is_ended_alone)
{
	struct scenario sc = {.n = 1, .alone = true, .end_at = "ready.0"};

	sc.script = "trap '' TERM; (sleep 1000 & : >ready.0; wait)";
	calls_are(&sc, "exit 0 9\nall gone\n");
	unlink("ready.0");
	sc.script = "trap 'sleep 0.6; exit 5' TERM; : >ready.0; while :; do sleep 0.01; done";
	calls_are(&sc, "exit 0 1280\nall gone\n");
	unlink("ready.0");
	sc.script = "trap '' TERM; env --default-signal=TERM "
		    "sh -c 'trap \"sleep 0.6; exit 6\" TERM; : >ready.0; while :; do sleep 0.01; done'; exit $?";
	calls_are(&sc, "exit 0 1536\nall gone\n");
	unlink("ready.0");
	sc.script = "trap : TERM; : >ready.0; while :; do sleep 0.01; done";
	sc.kill_wait = 0.3;
	calls_are(&sc, "exit 0 9\nall gone\n");
}

/* A signal to this process, and then the launcher's request, as when LSF ends a job. */
TEST(a_rank_that_needs_a_moment_to_end)
{
	struct scenario sc = {.script = "trap 'sleep 0.3; exit 5' TERM; : >ready.0; while :; do sleep 0.01; done",
			      .n = 1,
			      .end = 3,
			      .told = true,
			      .end_at = "ready.0"};

	calls_are(&sc, "exit 0 1280\nall gone\n");
}

TEST(a_stopped_rank_ends_too)
{
	struct scenario sc = {.script = "sleep 0.01; : >ready.0; kill -STOP $$", .n = 1, .end = 1, .end_at = "ready.0"};

	calls_are(&sc, "exit 0 15\nall gone\n");
}

TEST(what_a_rank_leaves_behind)
{
	/* A process in the rank's group with its pipes open; then one in its own session, with and without the
	 * pipes. */
	calls_are(&(struct scenario){.script = "sleep 1000 & echo $! >pid; exit 3", .n = 1, .label = HVD_LABEL_SRUN},
		  "exit 0 768\nall gone\n");
	is_gone();
	calls_are(&(struct scenario){.script = "setsid sh -c 'echo $$ >pid; : >ready.0; exec sleep 1000' & "
					       "while [ ! -e ready.0 ]; do sleep 0.005; done; exit 4",
				     .n = 1,
				     .label = HVD_LABEL_SRUN},
		  "exit 0 1024\nall gone\n");
	is_gone();
	calls_are(&(struct scenario){.script = "setsid sh -c 'trap \"\" TERM; echo $$ >pid; : >ready.0; "
					       "while :; do sleep 0.01; done' >/dev/null 2>&1 & "
					       "while [ ! -e ready.0 ]; do sleep 0.005; done; exit 5",
				     .n = 1},
		  "exit 0 1280\nall gone\n");
	is_gone();
}

TEST(destroying_leaves_nothing)
{
	calls_are(&(struct scenario){.script = "echo $$ >pid; : >ready.0; exec sleep 1000",
				     .n = 1,
				     .destroy = true,
				     .end_at = "ready.0"},
		  "");
	is_gone();
	calls_are(
		&(struct scenario){.script =
					   "setsid sh -c 'echo $$ >pid; : >ready.0; exec sleep 1000' & exec sleep 1000",
				   .n = 1,
				   .destroy = true,
				   .end_at = "ready.0"},
		"");
	is_gone();
}

TEST(what_cannot_be_started)
{
	calls_are(&(struct scenario){.script = "", .path = "/nonexistent", .n = 3},
		  "error rank 0: cannot run /nonexistent: No such file or directory\n");
	calls_are(&(struct scenario){.script = "", .path = "/nonexistent", .n = 3, .label = HVD_LABEL_SRUN},
		  "error rank 0: cannot run /nonexistent: No such file or directory\n");
}

TEST(environment_and_input)
{
	int fd = open("in", O_RDWR | O_CREAT | O_TRUNC, 0600), old = dup(0);
	char *out;

	assert_int_equal(write(fd, "input\n", 6), 6);
	lseek(fd, 0, SEEK_SET);
	dup2(fd, 0);
	close(fd);
	free(play(&(struct scenario){.script = "read x; echo \"$x $KEPT $CHANGED ${" HVD_BOOT_ENV "-unset}\"",
				     .n = 2,
				     .label = HVD_LABEL_SRUN}));
	dup2(old, 0);
	close(old);
	out = slurp("out", NULL);
	assert_in(out, "0: input yes new unset\n");
	assert_in(out, "1:  yes new unset\n"); /* only the first rank gets stdin */
	free(out);
}

/* The only CPU in the line of a world, "WORLD CPUS GPUS"; -1: there are several. */
static int cpu_of(const char *out, char world)
{
	const char *line = out;
	int cpu, end = 0;

	while (line && *line != world)
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
	assert_non_null(line);
	return sscanf(line + 1, " %d%n", &cpu, &end) == 1 && line[1 + end] == ' ' ? cpu : -1;
}

TEST(worlds_share_a_host)
{
	static const struct hvd_rank_place worlds[] = {
		{0, 1, {{0, 1}, {0, 2}}, "ldoms"},
		{0, 1, {{1, 1}, {2, 1}}, "ldoms"},
		{0, 1, {{0, 1}, {0, 0}}, "none"},
		{0, 2, {{0, -1}, {0, -1}}, NULL},
		{0, 1, {{100000, 3}, {0, -1}}, "ldoms"},
		{0, 1, {{0, 1}, {2, 2}}, "ldoms"},
		{0},
	};
	char *told = play(&(struct scenario){.script =
						     "echo \"$WORLD $(sed -n 's/^Cpus_allowed_list:.//p' "
						     "/proc/self/status) $CUDA_VISIBLE_DEVICES,$JAX_LOCAL_DEVICE_IDS\"",
					     .worlds = worlds}),
	     *out = slurp("out", NULL);
	char want[120];
	cpu_set_t cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	snprintf(want, sizeof(want), "rank 0: asked for 3 CPUs from number 100000 on, but ranks may use %d",
		 CPU_COUNT(&cpus));
	assert_in(told, want);
	assert_in(told, "rank 0: asked for 2 GPUs from number 2 on, but CUDA_VISIBLE_DEVICES lists 3\n");
	/* The variables of the frameworks agree with the list that the rank sees. */
	assert_in(out, " 6,7,1\n");
	assert_in(out, " 8,0\n");
	assert_in(out, " ,3\n");
	assert_in(out, " 6,7,8,0\n");
	if (CPU_COUNT(&cpus) > 1) {
		assert_true(cpu_of(out, '0') >= 0 && CPU_ISSET(cpu_of(out, '0'), &cpus));
		assert_true(cpu_of(out, '1') >= 0 && CPU_ISSET(cpu_of(out, '1'), &cpus));
		assert_int_not_equal(cpu_of(out, '0'), cpu_of(out, '1'));
		assert_int_equal(cpu_of(out, '2'), -1);
		assert_int_equal(cpu_of(out, '3'), -1);
	}
	free(told);
	free(out);
}

/* ---- output ---- */

TEST(labels)
{
	struct scenario sc = {
		.script = "printf 'one\\n\\ntwo\\nno newline'; printf 'to\\nerr' >&2", .n = 1, .label = HVD_LABEL_SRUN};

	free(play(&sc));
	out_is("out", "0: one\n0: \n0: two\n0: no newline\n");
	out_is("err", "0: to\n0: err\n");
	sc.label = HVD_LABEL_HOROVOD;
	free(play(&sc));
	out_is("out", "[0]<stdout>:one\n[0]<stdout>:\n[0]<stdout>:two\n[0]<stdout>:no newline\n");
	out_is("err", "[0]<stderr>:to\n[0]<stderr>:err\n");
	sc.label = HVD_LABEL_NONE;
	free(play(&sc));
	out_is("out", "one\n\ntwo\nno newline");
	out_is("err", "to\nerr");
	free(play(&(struct scenario){.script = ":", .n = 1, .label = HVD_LABEL_SRUN}));
	out_is("out", "");
}

TEST(any_bytes)
{
	static const char want[] = "0: a\0b\r\377\376\n0: \0\n";
	size_t len;
	char *out;

	free(play(&(struct scenario){
		.script = "printf 'a\\000b\\r\\377\\376\\n\\000\\n'", .n = 1, .label = HVD_LABEL_SRUN}));
	out = slurp("out", &len);
	assert_int_equal(len, sizeof(want) - 1);
	assert_memory_equal(out, want, len);
	free(out);
}

/* A line longer than the buffer: nothing is lost, and nothing is put in between. */
TEST(a_line_without_end)
{
	const size_t n = 3 * HVD_FRAME_LINE + 12345;
	char script[128], *out;
	size_t len;

	snprintf(script, sizeof(script), "head -c %zu /dev/zero | tr '\\0' x; echo; echo next", n);
	free(play(&(struct scenario){.script = script, .n = 1, .label = HVD_LABEL_SRUN}));
	out = slurp("out", &len);
	assert_int_equal(len, 3 + n + 1 + strlen("0: next\n"));
	assert_int_equal(strspn(out + 3, "x"), n);
	assert_string_equal(out + 3 + n, "\n0: next\n");
	free(out);
}

/* Ranks that write half lines at the same time: each line is whole, and the lines of each rank are in order. */
TEST(many_ranks)
{
	enum {
		RANKS = 8,
		LINES = 100
	};
	int next[RANKS] = {0};
	char *out, *save = NULL;

	free(play(&(struct scenario){.script = "i=0; while [ $i -lt 100 ]; do printf \"line \"; printf \"$i of \"; "
					       "echo $HOROVOD_RANK; i=$((i+1)); done",
				     .n = RANKS,
				     .label = HVD_LABEL_SRUN}));
	out = slurp("out", NULL);
	for (char *line = strtok_r(out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int label, i, rank, end = 0;

		assert_int_equal(sscanf(line, "%d: line %d of %d%n", &label, &i, &rank, &end), 3);
		assert_int_equal(line[end], '\0');
		assert_int_equal(label, rank);
		assert_int_in_range(rank, 0, RANKS - 1);
		assert_int_equal(i, next[rank]++);
	}
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(next[r], LINES);
	free(out);
}

TEST(standard_error_is_looked_at)
{
	static const char script[] = "echo out; printf 'a\\377\\nTraceback (most recent call last):\\n  File x\\n"
				     "ValueError: y' >&2; exit 3";
	struct scenario sc = {.script = script, .n = 1, .look = true};
	char *told = play(&sc);

	out_is("out", "out\n");
	out_is("err", "a\377\nTraceback (most recent call last):\n  File x\nValueError: y");
	assert_string_equal(told, "exit 0 768\nnone; ValueError: y;   File x\nValueError: y; pid; failed before\n"
				  "all gone\n");
	free(told);
	sc.script = "printf x >&2";
	told = play(&sc);
	out_is("err", "x");
	assert_string_equal(told, "exit 0 0\nnone; no error; no tail; pid; failed\nall gone\n");
	free(told);
}

TEST(the_error_file_is_read)
{
	struct scenario sc = {.script = "echo '{\"message\": \"it broke\"}' >$TORCHELASTIC_ERROR_FILE; kill -9 $$",
			      .n = 1,
			      .look = true};
	char *told = play(&sc);

	assert_string_equal(told, "exit 0 9\nnone; it broke; no tail; pid; failed before\nall gone\n");
	free(told);
}

TEST(both_streams_into_one_file_stay_in_order)
{
	struct scenario sc = {
		.script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done", .n = 1, .look = true, .joined = true};

	free(play(&sc));
	out_is("out", "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
}

TEST(an_end_by_this_process_is_told)
{
	struct scenario sc = {.script = "sleep 60", .n = 1, .look = true, .end = 1};
	char *told = play(&sc);

	assert_string_equal(told, "exit 0 15\nwith-all; no error; no tail; pid; failed\nall gone\n");
	free(told);
}

RUN_TESTS(.group_setup = make_dir, .group_teardown = remove_dir)
