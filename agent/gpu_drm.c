/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_drm.h"

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
#include <unistd.h>

#define TEXT_MAX     8192
#define MOST_FILES   4096 /* of a process that are looked at */
#define MOST_CLIENTS 1024
#define MOST_PAUSES  7                  /* looks in which a process without a client is left out */
#define MOST_BYTES   ((int64_t)1 << 50) /* of one kind of memory: more is not believed */
#define MOST_USED    1000000

/* ---- the text of one client ---- */

/* Move *at behind the word if the text begins with it. */
static bool takes(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

/* The number behind a key, and its unit. -1: there is none. */
static int64_t take_number(const char *value, const char **unit)
{
	int64_t n;

	value += strspn(value, " \t");
	n = hvd_take_digits(&value, INT64_MAX);
	*unit = value + strspn(value, " \t");
	return n;
}

static int64_t bytes_of(const char *value)
{
	const char *unit;
	int64_t n = take_number(value, &unit), of = 1;

	if (takes(&unit, "KiB"))
		of = 1024;
	else if (takes(&unit, "MiB"))
		of = 1024 * 1024;
	else if (takes(&unit, "GiB"))
		of = 1024 * 1024 * 1024;
	return n >= 0 && n <= MOST_BYTES / of ? n * of : -1;
}

/* The engine of that name, which ends at a colon; a new one if it is not there. NULL: there is no room. */
static struct hvd_drm_engine *engine_of(struct hvd_drm_client *client, const char *name)
{
	const size_t len = strcspn(name, ":\n");
	struct hvd_drm_engine *engine;

	if (len == 0 || len >= sizeof(engine->name))
		return NULL;
	for (size_t i = 0; i < client->n; i++)
		if (strncmp(client->engines[i].name, name, len) == 0 && !client->engines[i].name[len])
			return &client->engines[i];
	if (client->n == HVD_DRM_ENGINES)
		return NULL;
	engine = &client->engines[client->n++];
	*engine = (struct hvd_drm_engine){.ns = -1, .cycles = -1, .total = -1, .capacity = 1};
	memcpy(engine->name, name, len);
	return engine;
}

/* A line "drm-…-ENGINE: NUMBER", at ENGINE. */
static void read_engine(struct hvd_drm_client *client, const char *name, size_t member)
{
	struct hvd_drm_engine *engine = engine_of(client, name);
	const char *value = strchr(name, ':'), *unit;
	int64_t n = engine && value ? take_number(value + 1, &unit) : -1;

	if (n >= 0)
		memcpy((char *)engine + member, &n, sizeof(n));
}

/* The memory on the GPU has one of these names, perhaps with a number; the rest is the host's. */
static bool is_own_memory(const char *region)
{
	return takes(&region, "vram") || takes(&region, "local");
}

/* `older` is the sum of the keys that newer kernels have another name for. */
static void read_line(struct hvd_drm_client *client, const char *line, int64_t *older)
{
	const char *value = strchr(line, ':'), *unit;

	if (!value)
		return;
	value++;
	if (takes(&line, "drm-client-id:"))
		client->id = take_number(value, &unit);
	else if (takes(&line, "drm-pdev:"))
		snprintf(client->device, sizeof(client->device), "%s", value + strspn(value, " \t"));
	else if (takes(&line, "drm-engine-capacity-"))
		read_engine(client, line, offsetof(struct hvd_drm_engine, capacity));
	else if (takes(&line, "drm-engine-"))
		read_engine(client, line, offsetof(struct hvd_drm_engine, ns));
	else if (takes(&line, "drm-total-cycles-"))
		read_engine(client, line, offsetof(struct hvd_drm_engine, total));
	else if (takes(&line, "drm-cycles-"))
		read_engine(client, line, offsetof(struct hvd_drm_engine, cycles));
	else if (takes(&line, "drm-resident-") && is_own_memory(line))
		client->memory = hvd_gpu_sum(client->memory, bytes_of(value));
	else if (takes(&line, "drm-memory-") && is_own_memory(line))
		*older = hvd_gpu_sum(*older, bytes_of(value));
}

int hvd_drm_parse(const char *text, struct hvd_drm_client *client)
{
	int64_t older = -1;
	char line[128];

	*client = (struct hvd_drm_client){.id = -1, .memory = -1};
	for (const char *next; *text; text = next) {
		size_t len = strcspn(text, "\n");

		next = text + len + (text[len] == '\n');
		if (len >= sizeof(line))
			continue;
		memcpy(line, text, len);
		line[len] = '\0';
		read_line(client, line, &older);
	}
	if (client->memory < 0)
		client->memory = older;
	return client->id >= 0 && (client->n > 0 || client->memory >= 0) ? 0 : -1;
}

/* ---- what a client has used ---- */

static const struct hvd_drm_engine *same_engine(const struct hvd_drm_client *client, const char *name)
{
	for (size_t i = 0; i < client->n; i++)
		if (strcmp(client->engines[i].name, name) == 0)
			return &client->engines[i];
	return NULL;
}

/* The share of its time for which the engines of a name have worked; -1 = not known. Drivers' counters may go back a
 * little. */
static double share(const struct hvd_drm_engine *last, const struct hvd_drm_engine *now, int64_t ns)
{
	double worked = -1, passed = 0;

	if (now->ns >= 0 && last->ns >= 0) {
		worked = (double)now->ns - (double)last->ns;
		passed = (double)ns;
	} else if (now->cycles >= 0 && last->cycles >= 0 && now->total >= 0 && last->total >= 0) {
		worked = (double)now->cycles - (double)last->cycles;
		passed = (double)now->total - (double)last->total;
	}
	if (!(passed > 0))
		return -1;
	return worked > 0 ? worked / passed / (now->capacity > 0 ? (double)now->capacity : 1) : 0;
}

int32_t hvd_drm_used(const struct hvd_drm_client *last, const struct hvd_drm_client *now, int64_t ns)
{
	double most = -1;

	for (size_t i = 0; i < now->n; i++) {
		const struct hvd_drm_engine *before = same_engine(last, now->engines[i].name);
		double its = before ? share(before, &now->engines[i], ns) : -1;

		most = its > most ? its : most;
	}
	if (most < 0)
		return -1;
	return most < MOST_USED / 1e3 ? (int32_t)(1000 * most + 0.5) : MOST_USED;
}

/* ---- looking ---- */

/* A process that was looked at. */
struct watched {
	int32_t pid;
	unsigned pause, left; /* looks in which it is left out: how many the last time, and how many are left */
};

struct clients {
	struct hvd_drm_client *v;
	size_t n, room;
};

struct hvd_drm {
	char *root;
	struct watched *processes; /* in ascending order */
	size_t n;
	struct clients last;
	hvd_time looked;
};

struct hvd_drm *hvd_drm_create(const char *root)
{
	struct hvd_drm *drm = hvd_xcalloc(1, sizeof(*drm));

	drm->root = hvd_xstrdup(root);
	return drm;
}

void hvd_drm_destroy(struct hvd_drm *drm)
{
	if (!drm)
		return;
	free(drm->root);
	free(drm->processes);
	free(drm->last.v);
	free(drm);
}

static const struct hvd_drm_client *find_client(const struct clients *clients, const struct hvd_drm_client *which)
{
	for (size_t i = 0; i < clients->n; i++)
		if (clients->v[i].id == which->id && strcmp(clients->v[i].device, which->device) == 0)
			return &clients->v[i];
	return NULL;
}

/* Read the client of an open file. False: it is none. */
static bool read_client(int folder, const char *process, const char *file, struct hvd_drm_client *client)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/fdinfo/%s", process, file);
	char target[32], text[TEXT_MAX];
	ssize_t n = readlinkat(folder, file, target, sizeof(target) - 1);
	const char *at = target;

	target[n > 0 ? n : 0] = '\0';
	return takes(&at, "/dev/dri/") && hvd_read_start(path, text, sizeof(text) - 1) &&
	       hvd_drm_parse(text, client) == 0;
}

/* Add what the clients of a process use, each once: processes may share one. False: it has none. */
static bool look_at(const struct hvd_drm *drm, int32_t pid, int64_t ns, struct clients *clients,
		    struct hvd_gpu_processes *found)
{
	hvd_cleanup_free char *process = hvd_xasprintf("%s/proc/%d", drm->root, (int)pid);
	hvd_cleanup_free char *files = hvd_xasprintf("%s/fd", process);
	DIR *dir = opendir(files);
	struct dirent *de;
	bool any = false;

	for (int i = 0; dir && i < MOST_FILES && clients->n < MOST_CLIENTS && (de = readdir(dir)); i++) {
		const struct hvd_drm_client *last;
		struct hvd_drm_client client;

		if (!read_client(dirfd(dir), process, de->d_name, &client))
			continue;
		any = true;
		if (find_client(clients, &client))
			continue;
		last = find_client(&drm->last, &client);
		hvd_gpu_process_add(found, pid, last ? hvd_drm_used(last, &client, ns) : -1, client.memory);
		clients->v = hvd_xgrow(clients->v, clients->n, &clients->room, sizeof(*clients->v));
		clients->v[clients->n++] = client;
	}
	if (dir)
		closedir(dir);
	return any;
}

static int ascending(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

void hvd_drm_look(struct hvd_drm *drm, int32_t *pids, size_t n, struct hvd_gpu_processes *found)
{
	struct watched *now = hvd_xcalloc(n + 1, sizeof(*now));
	const hvd_time at = hvd_now();
	struct clients clients = {0};
	size_t n_now = 0, before = 0;

	if (n)
		qsort(pids, n, sizeof(*pids), ascending);
	for (size_t i = 0; i < n; i++) {
		struct watched *process = &now[n_now];

		if (n_now > 0 && now[n_now - 1].pid == pids[i])
			continue;
		while (before < drm->n && drm->processes[before].pid < pids[i])
			before++;
		process->pid = pids[i];
		if (before < drm->n && drm->processes[before].pid == pids[i])
			*process = drm->processes[before];
		n_now++;
		if (process->left > 0) {
			process->left--;
		} else if (look_at(drm, pids[i], at - drm->looked, &clients, found)) {
			process->pause = 0;
		} else {
			process->pause = process->pause < MOST_PAUSES ? 2 * process->pause + 1 : MOST_PAUSES;
			process->left = process->pause;
		}
	}
	free(drm->processes);
	free(drm->last.v);
	drm->processes = now;
	drm->n = n_now;
	drm->last = clients;
	drm->looked = at;
}
