/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are a rank's: trees of processes that wait, some of them under the name of Python. Their
 * program is a copy of this one.
 */
#include "agent/stack_find.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MOST   16
#define OTHER  "./program"
#define PYTHON "./python3.11"
/* A job that no real one is. */
#define JOB "4000000007"

static char dir[] = "/tmp/hvd-test-find-XXXXXX";

struct tree {
	const char *program; /* in `dir` */
	int n;
	const struct tree *below;
	const char *step, *rank; /* of JOB; NULL = its parent's, if that has any; "" = none */
};

struct started {
	const struct tree *tree;
	pid_t pid;
};

/* The processes of a tree. */
struct world {
	pid_t root;
	struct started all[MOST];
	int n;
};

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || chdir(dir) != 0)
		return -1;
	return system("cp /proc/$PPID/exe program && cp program python3.11");
}

static int remove_dir(void **state)
{
	(void)state;
	return chdir("/") == 0 ? remove_tree(dir) : -1;
}

/* Start a tree, of which each process ends with its parent. It is complete when nobody has `report` any longer. */
static pid_t start(const struct tree *tree, int report)
{
	struct started started = {tree, fork()};

	assert_true(started.pid >= 0);
	if (started.pid > 0)
		return started.pid;
	started.pid = getpid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (tree->step && !*tree->step)
		unsetenv("SLURM_JOB_ID");
	else if (tree->step) {
		setenv("SLURM_JOB_ID", JOB, 1);
		setenv("SLURM_STEP_ID", tree->step, 1);
		setenv("SLURM_PROCID", tree->rank, 1);
	}
	for (int i = 0; i < tree->n; i++)
		start(&tree->below[i], report);
	if (write(report, &started, sizeof(started)) == sizeof(started))
		execl(tree->program, tree->program, "wait", (char *)NULL);
	_exit(1);
}

static void begin(struct world *w, const struct tree *tree)
{
	int ends[2];

	w->n = 0;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	w->root = start(tree, ends[1]);
	close(ends[1]);
	while (w->n < MOST && read(ends[0], &w->all[w->n], sizeof(w->all[0])) == sizeof(w->all[0]))
		w->n++;
	close(ends[0]);
}

static void end(const struct world *w)
{
	kill(w->root, SIGKILL);
	assert_int_equal(waitpid(w->root, NULL, 0), w->root);
}

static const struct tree *tree_of(const struct world *w, pid_t pid)
{
	for (int i = 0; i < w->n; i++)
		if (w->all[i].pid == pid)
			return w->all[i].tree;
	return NULL;
}

static pid_t pid_of(const struct world *w, const struct tree *tree)
{
	for (int i = 0; i < w->n; i++)
		if (w->all[i].tree == tree)
			return w->all[i].pid;
	return 0;
}

/* The rank is at `main`, and `n_others` processes below it run Python, too. */
static void is_at(const struct tree *root, const struct tree *main, size_t n_others)
{
	pid_t others[MOST];
	struct world w;
	int64_t cpu_ns = -1;
	size_t n;

	begin(&w, root);
	assert_ptr_equal(tree_of(&w, hvd_stack_find_main(w.root, others, MOST, &n, &cpu_ns)), main);
	assert_true(cpu_ns >= 0);
	assert_int_equal(n, n_others);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(tree_of(&w, others[i])->program, PYTHON);
	/* Where there is no room for the others, it is the same process. */
	assert_ptr_equal(tree_of(&w, hvd_stack_find_main(w.root, NULL, 0, &n, &cpu_ns)), main);
	assert_int_equal(n, 0);
	end(&w);
}

static void without_python_it_is_the_last_of_a_chain(void **state)
{
	const struct tree two[] = {{.program = OTHER}, {.program = OTHER}};
	const struct tree program = {.program = OTHER}, shell = {.program = OTHER, .n = 1, .below = &program};
	const struct tree wrapper = {.program = OTHER, .n = 1, .below = &shell};
	const struct tree forks = {.program = OTHER, .n = 2, .below = two};
	const struct tree wrapped = {.program = OTHER, .n = 1, .below = &forks};

	(void)state;
	is_at(&program, &program, 0);
	is_at(&shell, &program, 0);
	is_at(&wrapper, &program, 0);
	is_at(&forks, &forks, 0);
	is_at(&wrapped, &forks, 0);
}

static void it_is_the_first_that_runs_python(void **state)
{
	const struct tree workers[] = {{.program = PYTHON}, {.program = PYTHON}};
	const struct tree trainer = {.program = PYTHON, .n = 2, .below = workers};
	const struct tree shell = {.program = OTHER, .n = 1, .below = &trainer};
	const struct tree beside[] = {{.program = OTHER}, {.program = OTHER, .n = 1, .below = &trainer}};
	const struct tree logged = {.program = OTHER, .n = 2, .below = beside};

	(void)state;
	is_at(&trainer, &trainer, 2);
	is_at(&shell, &trainer, 2);
	is_at(&logged, &trainer, 2);
}

static void finds(const char *target, size_t n, const char *ranks)
{
	struct hvd_found_ranks found = {0};
	char text[MOST * 8] = "";

	assert_int_equal(hvd_stack_find_step(target, &found, NULL), 0);
	for (uint32_t rank = 0; rank < MOST; rank++)
		for (size_t i = 0; i < found.n; i++)
			if (found.v[i].rank.rank == rank)
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u ", rank);
	assert_string_equal(text, ranks);
	assert_int_equal(found.n, n);
	free(found.v);
}

/* Of the processes of a rank only the first counts, even if one that it has started says that it is another rank. */
static void ranks_of_a_step(void **state)
{
	const struct tree worker = {.program = OTHER, .step = "3", .rank = "5"};
	const struct tree below[] = {{.program = OTHER}, {.program = OTHER, .n = 1, .below = &worker, .step = ""}};
	const struct tree tasks[] = {{.program = OTHER, .n = 2, .below = below, .step = "3", .rank = "0"},
				     {.program = OTHER, .step = "3", .rank = "1"},
				     {.program = OTHER, .step = "4", .rank = "2"}};
	const struct tree stepd = {.program = OTHER, .n = 3, .below = tasks};
	struct world w;
	char *step;

	(void)state;
	begin(&w, &stepd);
	finds(JOB ".3", 2, "0 1 ");
	finds(JOB ".4", 1, "2 ");
	finds(JOB ".5", 0, "");
	finds(JOB, 3, "0 1 2 ");
	finds("4000000008", 0, "");
	step = hvd_stack_find_env(pid_of(&w, &tasks[2]), "SLURM_STEP_ID");
	assert_string_equal(step, "4");
	free(step);
	assert_null(hvd_stack_find_env(pid_of(&w, &tasks[2]), "SLURM_STEP"));
	end(&w);
}

static void what_is_no_step(void **state)
{
	static const char *const targets[] = {"", "x", "7.", "7.x", "7.3.1", "7x", ".3", "4294967296", "7.4294967296"};

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct hvd_found_ranks found = {0};
		struct hvd_err err = {0};

		assert_int_equal(hvd_stack_find_step(targets[i], &found, &err), -1);
		assert_int_equal(err.code, HVD_E_USAGE);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_python_it_is_the_last_of_a_chain),
		cmocka_unit_test(it_is_the_first_that_runs_python),
		cmocka_unit_test(ranks_of_a_step),
		cmocka_unit_test(what_is_no_step),
	};

	(void)argv;
	while (argc > 1)
		pause();

	return cmocka_run_group_tests_name("processes of ranks", tests, make_dir, remove_dir);
}
