/* SPDX-License-Identifier: Apache-2.0 */
/* The DRM clients among the open files of processes: what the kernel writes of them, and what follows from two looks. */
#include "agent/gpu_drm.h"
#include "lib/base/deadline.h"
#include "tests/unit/unit.h"

static struct hvd_drm_client parse(const char *text)
{
	struct hvd_drm_client client;

	assert_int_equal(hvd_drm_parse(text, &client), 0);
	return client;
}

/* As amdgpu writes it. */
#define AMD                                                                                                            \
	"pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t284\ndrm-driver:\tamdgpu\ndrm-client-id:\t14\n"                 \
	"drm-pdev:\t0000:c1:00.0\npasid:\t32771\ndrm-memory-cpu:\t0 KiB\ndrm-memory-gtt:\t4096 KiB\n"                  \
	"drm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t1000000 ns\ndrm-engine-compute:\t%s ns\n"

TEST(a_client_of_amdgpu)
{
	char text[1024];
	struct hvd_drm_client client;

	snprintf(text, sizeof(text), AMD, "5000000");
	client = parse(text);
	assert_string_equal(client.device, "0000:c1:00.0");
	assert_int_equal(client.id, 14);
	assert_int_equal(client.memory, 2048 * 1024);
	assert_int_equal(client.n, 2);
	assert_string_equal(client.engines[1].name, "compute");
	assert_int_equal(client.engines[1].ns, 5000000);
	assert_int_equal(client.engines[1].capacity, 1);
}

/* As the kernel's documentation of xe has it. */
#define XE                                                                                                             \
	"drm-driver:     xe\ndrm-client-id:  3\ndrm-pdev:       0000:03:00.0\ndrm-total-system:       0\n"             \
	"drm-resident-gtt:       192 KiB\ndrm-total-vram0:        30000 KiB\ndrm-resident-vram0:     2 MiB\n"          \
	"drm-resident-vram1:     1 GiB\ndrm-cycles-rcs: 28257900\ndrm-total-cycles-rcs:   7655183225\n"                \
	"drm-cycles-ccs: %d\ndrm-total-cycles-ccs:   %d\ndrm-engine-capacity-ccs:        4\n"

TEST(a_client_of_xe)
{
	char text[1024];
	struct hvd_drm_client last, now;

	snprintf(text, sizeof(text), XE, 1000, 5000);
	last = parse(text);
	assert_int_equal(last.memory, (2LL << 20) + (1LL << 30));
	assert_int_equal(last.n, 2);
	assert_int_equal(last.engines[1].capacity, 4);
	assert_int_equal(last.engines[1].ns, -1);
	snprintf(text, sizeof(text), XE, 3000, 6000);
	now = parse(text);
	/* 2,000 cycles of 1,000 that passed, by four engines. */
	assert_int_equal(hvd_drm_used(&last, &now, 1), 500);
}

TEST(newer_names_of_memory_win)
{
	assert_int_equal(parse("drm-client-id: 1\ndrm-memory-vram: 7 MiB\ndrm-resident-vram: 5 MiB\n").memory, 5 << 20);
	assert_int_equal(parse("drm-client-id: 1\ndrm-resident-local0: 12\n").memory, 12);
	/* A GPU without memory of its own. */
	assert_int_equal(parse("drm-client-id: 1\ndrm-resident-system0: 5 MiB\ndrm-engine-render: 1 ns\n").memory, -1);
}

TEST(what_is_no_client)
{
	static const char *const texts[] = {
		"",
		"pos:\t0\nflags:\t02100002\n",
		"drm-driver:\tnvidia-drm\n",
		"drm-client-id:\t3\n",           /* the driver counts nothing */
		"drm-engine-gfx:\t1000000 ns\n", /* whose? */
		"drm-client-id:\t-1\ndrm-engine-gfx:\t1000000 ns\n",
		"drm-client-id:\t99999999999999999999\ndrm-engine-gfx:\t1 ns\n",
		"drm-client-id:\t1\ndrm-engine-:\t1 ns\n",
		"drm-client-id:\t1\ndrm-engine-a-name-that-is-longer-than-any:\t1 ns\n",
		"drm-client-id:\t1\ndrm-resident-vram: 99999999999999 GiB\n",
	};
	struct hvd_drm_client client;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (hvd_drm_parse(texts[i], &client) == 0)
			fail_msg("this is taken for a client: %s", texts[i]);
}

TEST(the_busiest_engine_counts_and_counters_that_go_back_do_not)
{
	struct hvd_drm_client last = parse("drm-client-id: 1\ndrm-engine-a: 100 ns\ndrm-engine-b: 100 ns\n");
	struct hvd_drm_client now = parse("drm-client-id: 1\ndrm-engine-a: 350 ns\ndrm-engine-b: 850 ns\n");
	struct hvd_drm_client other = parse("drm-client-id: 1\ndrm-engine-c: 5 ns\n");

	assert_int_equal(hvd_drm_used(&last, &now, 1000), 750);
	assert_int_equal(hvd_drm_used(&now, &last, 1000), 0);
	assert_int_equal(hvd_drm_used(&last, &other, 1000), -1);
	assert_int_equal(hvd_drm_used(&last, &now, 0), -1);
	/* No sum is too large for its type. */
	now.engines[1].ns = INT64_MAX;
	assert_int_equal(hvd_drm_used(&last, &now, 1), 1000000);
}

/* ---- looking ---- */

struct world {
	char root[64];
	struct hvd_drm *drm;
	struct hvd_gpu_processes found;
};

SETUP(set_up, struct world, w)
{
	snprintf(w->root, sizeof(w->root), "/tmp/gpu_drm.XXXXXX");
	assert_non_null(mkdtemp(w->root));
	w->drm = hvd_drm_create(w->root);
}

TEARDOWN(tear_down, struct world, w)
{
	hvd_drm_destroy(w->drm);
	free(w->found.v);
	remove_tree(w->root);
}

/* The process has this open, as descriptor `fd`. */
static void make_open(struct world *w, int pid, int fd, const char *target, const char *info)
{
	char path[128], full[256];

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	make_file(w->root, path, info);
	snprintf(path, sizeof(path), "/proc/%d/fd/none", pid);
	make_file(w->root, path, "");
	snprintf(full, sizeof(full), "%s/proc/%d/fd/%d", w->root, pid, fd);
	unlink(full);
	assert_int_equal(symlink(target, full), 0);
}

static void look(struct world *w)
{
	int32_t pids[] = {30, 20, 10, 20};

	w->found.n = 0;
	hvd_drm_look(w->drm, pids, 4, &w->found);
}

static struct hvd_gpu_process *of(struct world *w, int pid)
{
	for (size_t i = 0; i < w->found.n; i++)
		if (w->found.v[i].pid == pid)
			return &w->found.v[i];
	fail_msg("process %d is not there", pid);
	return NULL;
}

TEST_WITH(clients_are_found_and_each_counts_once, set_up, tear_down)
{
	struct world *w = *state;

	make_open(w, 10, 3, "/dev/dri/renderD128", "drm-client-id: 5\ndrm-resident-vram: 1 MiB\ndrm-engine-a: 0 ns\n");
	make_open(w, 10, 4, "/dev/dri/renderD128", "drm-client-id: 5\ndrm-resident-vram: 1 MiB\ndrm-engine-a: 0 ns\n");
	make_open(w, 10, 5, "/dev/dri/renderD129", "drm-client-id: 6\ndrm-resident-vram: 2 MiB\ndrm-engine-a: 0 ns\n");
	make_open(w, 20, 3, "/dev/dri/renderD128", "drm-client-id: 5\ndrm-resident-vram: 1 MiB\ndrm-engine-a: 0 ns\n");
	make_open(w, 30, 3, "/tmp/text", "drm-client-id: 9\ndrm-resident-vram: 4 MiB\n");
	look(w);
	assert_int_equal(w->found.n, 1);
	assert_int_equal(of(w, 10)->memory, 3 << 20);
	assert_int_equal(of(w, 10)->used, -1);
	/* It has worked for far longer than has passed, which is no matter here. */
	make_open(w, 10, 5, "/dev/dri/renderD129",
		  "drm-client-id: 6\ndrm-resident-vram: 2 MiB\ndrm-engine-a: 90000000000000 ns\n");
	look(w);
	assert_int_equal(of(w, 10)->used, 1000000);
}

TEST_WITH(a_process_that_begins_to_use_a_gpu_is_found_some_looks_later, set_up, tear_down)
{
	struct world *w = *state;
	int looks = 0;

	for (int i = 0; i < 20; i++)
		look(w);
	assert_int_equal(w->found.n, 0);
	make_open(w, 20, 3, "/dev/dri/card0", "drm-client-id: 5\ndrm-resident-vram: 1 MiB\n");
	while (w->found.n == 0 && looks++ < 100)
		look(w);
	assert_int_in_range(looks, 1, 8);
	/* From now on each time. */
	look(w);
	assert_int_equal(of(w, 20)->memory, 1 << 20);
}

RUN_TESTS()
