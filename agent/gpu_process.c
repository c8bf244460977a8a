/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_process.h"

#include "lib/base/xalloc.h"

struct hvd_gpu_process *hvd_gpu_process_at(struct hvd_gpu_processes *list, int32_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].pid == pid)
			return &list->v[i];
	if (pid <= 0 || list->n == HVD_GPU_PROCESSES)
		return NULL;
	list->v = hvd_xgrow(list->v, list->n, &list->room, sizeof(*list->v));
	list->v[list->n] = (struct hvd_gpu_process){.pid = pid, .used = -1, .memory = -1};
	return &list->v[list->n++];
}

int64_t hvd_gpu_sum(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

void hvd_gpu_process_add(struct hvd_gpu_processes *list, int32_t pid, int32_t used, int64_t memory)
{
	struct hvd_gpu_process *process = hvd_gpu_process_at(list, pid);
	int64_t sum;

	if (!process)
		return;
	sum = hvd_gpu_sum(process->used, used);
	process->used = (int32_t)(sum < INT32_MAX ? sum : INT32_MAX);
	process->memory = hvd_gpu_sum(process->memory, memory);
}
