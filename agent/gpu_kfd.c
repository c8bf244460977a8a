/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_kfd.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES "/sys/class/kfd/kfd/proc"
#define NODES     "/sys/class/kfd/kfd/topology/nodes"
#define MOST      4096 /* entries of a folder, and uses, that are read */
#define TEXT_MAX  4096

/* A process has memory on a GPU. */
struct use {
	int32_t pid;
	int64_t gpu, bytes;
};

struct uses {
	struct use *v;
	size_t n, room;
};

/* The number at the beginning of a file; -1: there is none. */
static int64_t number_in(const char *path)
{
	char text[32];
	const char *at = text;

	return hvd_read_start(path, text, sizeof(text) - 1) ? hvd_take_digits(&at, INT64_MAX) : -1;
}

/* Call `fn` with each name in the folder. */
static void each_name(const char *folder, void (*fn)(const char *folder, const char *name, void *arg), void *arg)
{
	DIR *dir = opendir(folder);
	struct dirent *de;

	for (int i = 0; dir && i < MOST && (de = readdir(dir)); i++)
		if (de->d_name[0] != '.')
			fn(folder, de->d_name, arg);
	if (dir)
		closedir(dir);
}

/* ---- the processes: proc/PID/vram_GPU ---- */

struct reading {
	struct uses *uses;
	int32_t pid;
};

static void read_vram(const char *folder, const char *name, void *arg)
{
	static const char prefix[] = "vram_";
	const struct reading *reading = arg;
	struct uses *uses = reading->uses;
	hvd_cleanup_free char *path = NULL;
	int64_t gpu, bytes;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || uses->n == MOST)
		return;
	name += strlen(prefix);
	gpu = hvd_digits(name, strlen(name), UINT32_MAX);
	path = hvd_xasprintf("%s/vram_%s", folder, name);
	bytes = gpu < 0 ? -1 : number_in(path);
	if (bytes <= 0)
		return;
	uses->v = hvd_xgrow(uses->v, uses->n, &uses->room, sizeof(*uses->v));
	uses->v[uses->n++] = (struct use){.pid = reading->pid, .gpu = gpu, .bytes = bytes};
}

static void read_process(const char *folder, const char *name, void *arg)
{
	struct reading reading = {.uses = arg, .pid = (int32_t)hvd_digits(name, strlen(name), INT32_MAX)};
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s", folder, name);

	if (reading.pid > 0)
		each_name(path, read_vram, &reading);
}

/* ---- the GPUs ---- */

struct gpu {
	const char *root;
	int64_t id;
	int32_t busy; /* thousandths; -1 = not known */
};

/* Is this node of the topology the GPU? Then its render device says how busy it is. */
static void read_busy(const char *folder, const char *name, void *arg)
{
	static const char key[] = "drm_render_minor ";
	struct gpu *gpu = arg;
	hvd_cleanup_free char *id = hvd_xasprintf("%s/%s/gpu_id", folder, name),
			      *properties = hvd_xasprintf("%s/%s/properties", folder, name), *path = NULL;
	char text[TEXT_MAX];
	const char *at;
	int64_t minor, percent;

	if (number_in(id) != gpu->id || !hvd_read_start(properties, text, sizeof(text) - 1) ||
	    !(at = strstr(text, key)))
		return;
	at += strlen(key);
	minor = hvd_take_digits(&at, INT32_MAX);
	if (minor < 0)
		return;
	path = hvd_xasprintf("%s/sys/class/drm/renderD%d/device/gpu_busy_percent", gpu->root, (int)minor);
	percent = number_in(path);
	gpu->busy = percent >= 0 && percent <= 100 ? (int32_t)(10 * percent) : -1;
}

static int32_t busy(const char *root, int64_t id)
{
	hvd_cleanup_free char *nodes = hvd_xasprintf("%s" NODES, root);
	struct gpu gpu = {.root = root, .id = id, .busy = -1};

	each_name(nodes, read_busy, &gpu);
	return gpu.busy;
}

static bool has_one_user(const struct uses *uses, int64_t gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < uses->n; i++)
		n += uses->v[i].gpu == gpu;
	return n == 1;
}

void hvd_kfd_look(const char *root, struct hvd_gpu_processes *found)
{
	hvd_cleanup_free char *processes = hvd_xasprintf("%s" PROCESSES, root);
	struct hvd_gpu_processes by_kfd = {0};
	struct uses uses = {0};

	each_name(processes, read_process, &uses);
	for (size_t i = 0; i < uses.n; i++)
		hvd_gpu_process_add(&by_kfd, uses.v[i].pid,
				    has_one_user(&uses, uses.v[i].gpu) ? busy(root, uses.v[i].gpu) : -1,
				    uses.v[i].bytes);
	for (size_t i = 0; i < by_kfd.n; i++) {
		struct hvd_gpu_process *process = hvd_gpu_process_at(found, by_kfd.v[i].pid);

		if (!process)
			continue;
		if (by_kfd.v[i].used > process->used)
			process->used = by_kfd.v[i].used;
		if (by_kfd.v[i].memory > process->memory)
			process->memory = by_kfd.v[i].memory;
	}
	free(by_kfd.v);
	free(uses.v);
}
