/* SPDX-License-Identifier: Apache-2.0 */
/* What processes use of GPUs. The process that looks is this program, with a stand-in for NVIDIA's library
 * (tests/standins/nvml.c), or with a folder in place of the kernel's of AMD's and Intel's GPUs. */
#include "agent/gpu_usage.h"

#include "agent/gpu_look.h"
#include "lib/base/deadline.h"
#include "lib/process/procfs.h"
#include "tests/unit/unit.h"

#include <limits.h>

struct world {
	char root[64], script[128];
	struct event_base *base;
	struct hvd_gpu_usage *gpu;
	int turns; /* of the event loop's timer */
};

/* `folder` of the programs of tests has the library. */
static void use_library(const char *folder)
{
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	assert_true(n > 0);
	exe[n] = '\0';
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(exe, '/');

		assert_non_null(slash);
		*slash = '\0';
	}
	snprintf(path, sizeof(path), "%s/standins/%s", exe, folder);
	assert_int_equal(access(path, F_OK), 0);
	setenv("LD_LIBRARY_PATH", path, 1);
}

SETUP(set_up, struct world, w)
{
	snprintf(w->root, sizeof(w->root), "/tmp/gpu_usage.XXXXXX");
	assert_non_null(mkdtemp(w->root));
	snprintf(w->script, sizeof(w->script), "%s/script", w->root);
	setenv("NVML_STANDIN", w->script, 1);
	use_library("nvml");
	w->base = event_base_new();
}

/* Nothing is left behind: no process, and no word of a wrong call. */
TEARDOWN(tear_down, struct world, w)
{
	struct hvd_pids children = {0};
	char misused[160];

	hvd_gpu_usage_destroy(w->gpu);
	event_base_free(w->base);
	hvd_pids_add_children(&children, getpid());
	assert_int_equal(children.n, 0);
	free(children.v);
	snprintf(misused, sizeof(misused), "%s.misused", w->script);
	assert_int_equal(access(misused, F_OK), -1);
	remove_tree(w->root);
}

static void script(struct world *w, const char *text)
{
	make_file(w->root, "/script.new", text);
	char from[160];

	snprintf(from, sizeof(from), "%s.new", w->script);
	assert_int_equal(rename(from, w->script), 0);
}

static void begin(struct world *w, const char *node, double seconds)
{
	make_file(w->root, node, "");
	w->gpu = hvd_gpu_usage_create(w->base, w->root, seconds);
	assert_non_null(w->gpu);
}

static void turn(evutil_socket_t fd, short what, void *arg)
{
	((struct world *)arg)->turns++;
}

/* Let the event loop turn a few times. */
static void run(struct world *w)
{
	struct timeval tv = {.tv_usec = 20000};

	event_base_once(w->base, -1, EV_TIMEOUT, turn, w, &tv);
	event_base_loop(w->base, EVLOOP_ONCE);
}

struct figures {
	int64_t used, memory;
};

static struct figures of(struct world *w, pid_t pid)
{
	struct figures figures = {-1, -1};

	hvd_gpu_usage_add(w->gpu, pid, &figures.used, &figures.memory);
	return figures;
}

/* Look again and again until the process has these figures. */
static void await_figures(struct world *w, pid_t pid, int64_t used, int64_t memory)
{
	const hvd_time latest = hvd_deadline_in(30);
	struct figures figures;

	do {
		hvd_gpu_usage_look(w->gpu, &pid, 1);
		run(w);
		figures = of(w, pid);
	} while ((figures.used != used || figures.memory != memory) && hvd_left(latest) > 0);
	assert_int_equal(figures.used, used);
	assert_int_equal(figures.memory, memory);
}

static size_t count_children(void)
{
	struct hvd_pids children = {0};

	hvd_pids_add_children(&children, getpid());
	free(children.v);
	return children.n;
}

/* Its figures are known. */
static void begin_with_one_process(struct world *w, double seconds)
{
	script(w, "gpus 1\nprocess 0 4001 10\nsample 0 4001 100 5\n");
	begin(w, "/dev/nvidia0", seconds);
	await_figures(w, 4001, 50, 10);
}

/* ---- NVIDIA ---- */

TEST_WITH(time_and_memory_of_all_gpus_are_added_up, set_up, tear_down)
{
	struct world *w = *state;

	script(w, "gpus 2\nprocess 0 4001 1000\nprocess 0 4002 500\nprocess 1 4001 24\nsample 0 4001 100 40\n"
		  "sample 1 4001 110 25\n");
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 4001, 650, 1024);
	/* A process that has used nothing since the last look has no sample. */
	assert_int_equal(of(w, 4002).used, 0);
	assert_int_equal(of(w, 4002).memory, 500);
	assert_int_equal(of(w, 4003).used, -1);
	assert_int_equal(of(w, 4003).memory, -1);
	assert_int_equal(count_children(), 1);
	/* Samples that have been seen do not count again. */
	await_figures(w, 4001, 0, 1024);
	script(w, "gpus 2\nprocess 0 4001 1000\nprocess 1 4001 24\nsample 0 4001 100 40\nsample 0 4001 200 100\n");
	await_figures(w, 4001, 1000, 1024);
}

TEST_WITH(sums_are_of_what_is_known, set_up, tear_down)
{
	struct world *w = *state;
	struct figures sum = {-1, -1};

	script(w, "gpus 1\nprocess 0 4001 unknown\nprocess 0 4002 500\nsample 0 4001 100 40\nsample 0 4002 90 101\n");
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 4001, 400, -1);
	hvd_gpu_usage_add(w->gpu, 4001, &sum.used, &sum.memory);
	hvd_gpu_usage_add(w->gpu, 4002, &sum.used, &sum.memory);
	hvd_gpu_usage_add(w->gpu, 4003, &sum.used, &sum.memory);
	assert_int_equal(sum.memory, 500);
	assert_int_equal(sum.used, 400); /* 101 % is not believed */
}

TEST_WITH(more_processes_than_there_was_room_for, set_up, tear_down)
{
	struct world *w = *state;
	char text[32768];
	size_t n = (size_t)snprintf(text, sizeof(text), "gpus 1\n");

	for (int pid = 1; pid <= 500; pid++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "process 0 %d %d\nsample 0 %d 100 1\n", pid, pid,
				      pid);
	script(w, text);
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 500, 10, 500);
	assert_int_equal(of(w, 1).memory, 1);
}

TEST_WITH(without_samples_the_time_of_the_gpu_is_that_of_its_only_process, set_up, tear_down)
{
	struct world *w = *state;

	script(w, "gpus 2\nerror nvmlDeviceGetProcessUtilization 3\nrate 0 70\nrate 1 80\nprocess 0 4001 10\n"
		  "process 1 4002 20\nprocess 1 4003 30\n");
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 4001, 700, 10);
	assert_int_equal(of(w, 4002).used, -1);
	assert_int_equal(of(w, 4002).memory, 20);
}

/* nvml.h: with MIG, the time of processes and of the GPU is not supported. */
TEST_WITH(with_mig_the_time_is_not_known, set_up, tear_down)
{
	struct world *w = *state;

	script(w, "gpus 1\nerror nvmlDeviceGetProcessUtilization 3\nprocess 0 4001 10\n");
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 4001, -1, 10);
}

TEST_WITH(the_processes_of_a_gpu_that_is_lost_are_not_known, set_up, tear_down)
{
	struct world *w = *state;

	begin_with_one_process(w, 30);
	script(w, "gpus 1\nerror nvmlDeviceGetComputeRunningProcesses_v3 15\n");
	await_figures(w, 4001, -1, -1);
	assert_int_equal(count_children(), 1);
}

TEST_WITH(an_old_library_is_understood, set_up, tear_down)
{
	struct world *w = *state;

	use_library("nvml_old");
	script(w, "gpus 1\nprocess 0 4001 1000\nprocess 0 4002 500\nsample 0 4002 100 40\n");
	begin(w, "/dev/nvidia0", 30);
	await_figures(w, 4002, 400, 500);
	assert_int_equal(of(w, 4001).memory, 1000);
}

/* ---- what goes wrong ---- */

TEST_WITH(without_a_gpu_nothing_is_started, set_up, tear_down)
{
	struct world *w = *state;
	pid_t pid = getpid();

	make_file(w->root, "/dev/nvidiactl", "");
	assert_null(hvd_gpu_usage_create(w->base, w->root, 30));
	hvd_gpu_usage_look(NULL, &pid, 1);
	assert_int_equal(of(w, pid).used, -1);
	assert_int_equal(count_children(), 0);
}

static void await_no_children(struct world *w)
{
	const hvd_time latest = hvd_deadline_in(30);
	pid_t pid = 4001;

	while (count_children() > 0 && hvd_left(latest) > 0) {
		run(w);
		hvd_gpu_usage_look(w->gpu, &pid, 1); /* which does not start another one for a minute */
	}
	assert_int_equal(count_children(), 0);
}

TEST_WITH(a_host_without_the_driver_is_asked_once, set_up, tear_down)
{
	struct world *w = *state;
	pid_t pid = 4001;

	script(w, "gpus 0\n");
	begin(w, "/dev/nvidia0", 30);
	hvd_gpu_usage_look(w->gpu, &pid, 1);
	await_no_children(w);
	assert_int_equal(of(w, 4001).memory, -1);
}

TEST_WITH(a_driver_that_hangs_is_given_up, set_up, tear_down)
{
	struct world *w = *state;
	pid_t pid = 4001;

	begin_with_one_process(w, 10);
	script(w, "gpus 1\nhang nvmlDeviceGetComputeRunningProcesses_v3\n");
	w->turns = 0;
	hvd_gpu_usage_look(w->gpu, &pid, 1);
	/* Further looks wait for nothing, and what was known stays so as long as there is hope. */
	for (int i = 0; i < 3; i++) {
		hvd_gpu_usage_look(w->gpu, &pid, 1);
		run(w);
	}
	assert_true(w->turns >= 3);
	assert_int_equal(of(w, 4001).memory, 10);
	await_no_children(w);
	assert_int_equal(of(w, 4001).memory, -1);
}

TEST_WITH(one_that_hangs_from_the_beginning_ends_with_us, set_up, tear_down)
{
	struct world *w = *state;
	pid_t pid = 4001;

	script(w, "gpus 1\nhang nvmlInit_v2\n");
	begin(w, "/dev/nvidia0", 30);
	hvd_gpu_usage_look(w->gpu, &pid, 1);
	run(w);
	assert_int_equal(count_children(), 1);
}

TEST_WITH(a_look_that_was_killed_is_noticed, set_up, tear_down)
{
	struct world *w = *state;
	struct hvd_pids children = {0};

	begin_with_one_process(w, 30);
	hvd_pids_add_children(&children, getpid());
	assert_int_equal(children.n, 1);
	kill(children.v[0], SIGKILL);
	free(children.v);
	await_no_children(w);
	assert_int_equal(of(w, 4001).memory, -1);
}

/* ---- AMD and Intel ---- */

TEST_WITH(clients_of_the_kernels_drivers, set_up, tear_down)
{
	struct world *w = *state;
	char link[128];

	make_file(w->root, "/proc/4001/fdinfo/7",
		  "drm-client-id: 3\ndrm-pdev: 0000:03:00.0\ndrm-resident-vram0: 3 MiB\ndrm-engine-ccs: 0 ns\n");
	make_file(w->root, "/proc/4001/fd/0", "");
	snprintf(link, sizeof(link), "%s/proc/4001/fd/7", w->root);
	assert_int_equal(symlink("/dev/dri/renderD128", link), 0);
	begin(w, "/dev/dri/renderD128", 30);
	await_figures(w, 4001, -1, 3 << 20);
	await_figures(w, 4001, 0, 3 << 20); /* by the second look */
}

#define KFD "/sys/class/kfd/kfd/"

TEST_WITH(rocm_has_the_time_of_a_gpu_that_one_process_uses, set_up, tear_down)
{
	struct world *w = *state;

	make_file(w->root, KFD "topology/nodes/0/gpu_id", "0\n");
	make_file(w->root, KFD "topology/nodes/1/gpu_id", "7777\n");
	make_file(w->root, KFD "topology/nodes/1/properties",
		  "cpu_cores_count 0\nsimd_count 440\ndrm_render_minor 129\n");
	make_file(w->root, KFD "topology/nodes/2/gpu_id", "8888\n");
	make_file(w->root, KFD "topology/nodes/2/properties", "drm_render_minor 130\n");
	make_file(w->root, "/sys/class/drm/renderD129/device/gpu_busy_percent", "93\n");
	make_file(w->root, "/sys/class/drm/renderD130/device/gpu_busy_percent", "50\n");
	make_file(w->root, KFD "proc/4001/vram_7777", "4096\n");
	make_file(w->root, KFD "proc/4001/vram_8888", "4096\n");
	make_file(w->root, KFD "proc/4001/sdma_7777", "5\n");
	make_file(w->root, KFD "proc/4002/vram_7777", "0\n");
	make_file(w->root, KFD "proc/4002/vram_8888", "100\n");
	begin(w, "/dev/dri/renderD129", 30);
	await_figures(w, 4001, 930, 8192);
	assert_int_equal(of(w, 4002).used, -1);
	assert_int_equal(of(w, 4002).memory, 100);
}

/* The process that looks is this program as hvd-agent gpus ROOT. */
int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "gpus") == 0) {
		struct hvd_log log = hvd_log_make("hvd-agent", HVD_LOG_INFO);

		return hvd_gpu_look_run(argv[2], &log);
	}
	return run_unit_tests((struct test_hooks){.none = true});
}
