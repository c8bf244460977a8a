/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_look.h"

#include "gpu_drm.h"
#include "gpu_kfd.h"
#include "gpu_nvml.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RENDER "renderD"

/* Is there a GPU of a driver that describes its clients? NVIDIA's describes none. */
static bool has_drm(const char *root)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/dev/dri", root);
	DIR *dir = opendir(path);
	struct dirent *de;
	bool found = false;

	while (dir && !found && (de = readdir(dir)))
		found = strncmp(de->d_name, RENDER, strlen(RENDER)) == 0;
	if (dir)
		closedir(dir);
	return found;
}

bool hvd_gpu_look_has_gpus(const char *root)
{
	return hvd_gpu_count(root, NULL) > 0 || has_drm(root);
}

/* True: *question is the next one. */
static bool take_question(struct hvd_gpu_question *question)
{
	ssize_t n;

	do
		n = recv(STDIN_FILENO, question, sizeof(*question), 0);
	while (n < 0 && errno == EINTR);
	return n >= (ssize_t)sizeof(question->n) && question->n <= HVD_GPU_PIDS &&
	       n == (ssize_t)(offsetof(struct hvd_gpu_question, pids) + question->n * sizeof(question->pids[0]));
}

static bool answer(const struct hvd_gpu_processes *found)
{
	hvd_cleanup_free struct hvd_gpu_answer *answer = hvd_xcalloc(1, sizeof(*answer));
	const size_t len = offsetof(struct hvd_gpu_answer, processes) + found->n * sizeof(answer->processes[0]);

	answer->n = found->n;
	if (found->n)
		memcpy(answer->processes, found->v, found->n * sizeof(answer->processes[0]));
	return send(STDIN_FILENO, answer, len, MSG_NOSIGNAL) == (ssize_t)len;
}

int hvd_gpu_look_run(const char *root, const struct hvd_log *log)
{
	struct hvd_gpu_question *question = hvd_xcalloc(1, sizeof(*question));
	struct hvd_err err = {0};
	struct hvd_nvml *nvml = hvd_nvml_open(HVD_NVML_SONAME, &err);
	struct hvd_drm *drm = has_drm(root) ? hvd_drm_create(root) : NULL;
	bool goes_on = nvml || drm;

	if (!goes_on)
		hvd_log_err(log, &err);
	while (goes_on && take_question(question)) {
		struct hvd_gpu_processes found = {0};

		if (nvml)
			hvd_nvml_look(nvml, &found);
		if (drm) {
			hvd_drm_look(drm, question->pids, question->n, &found);
			hvd_kfd_look(root, &found);
		}
		goes_on = answer(&found);
		free(found.v);
	}
	hvd_nvml_close(nvml);
	hvd_drm_destroy(drm);
	free(question);
	return nvml || drm ? 0 : 1;
}
