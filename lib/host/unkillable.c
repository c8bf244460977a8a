/* SPDX-License-Identifier: Apache-2.0 */
#include "unkillable.h"

#include "lib/base/xalloc.h"
#include "lib/process/procfs.h"
#include "lib/protocol/wire.h"

#include <limits.h>
#include <string.h>

#define GPUS "/dev/nvidia"

/* States of threads in proc(5). */
static const char states[] = "RSDTtWXZPI";

static char known(char state)
{
	return state && strchr(states, state) ? state : '?';
}

void hvd_unkillable_look(struct hvd_unkillable *what, pid_t pid)
{
	what->pid = pid;
	what->state = known(hvd_process_state(pid, "/proc"));
	what->gpus = hvd_process_has_open(pid, "/proc", GPUS);
}

json_t *hvd_unkillable_json(const struct hvd_unkillable *what)
{
	const char state[2] = {what->state, '\0'};

	return json_pack("{s:i, s:s, s:b, s:b}", "pid", (int)what->pid, "state", state, "gpus", what->gpus, "left",
			 what->left);
}

int hvd_unkillable_parse(const json_t *msg, struct hvd_unkillable *what, struct hvd_err *err)
{
	const char *state;
	int64_t pid;

	*what = (struct hvd_unkillable){0};
	if (hvd_get_int(msg, "pid", 1, INT_MAX, &pid, err) != 0 || hvd_get_str(msg, "state", 1, &state, err) != 0)
		return -1;
	what->pid = (pid_t)pid;
	what->state = known(*state);
	what->gpus = json_is_true(json_object_get(msg, "gpus"));
	what->left = json_is_true(json_object_get(msg, "left"));
	return 0;
}

char *hvd_unkillable_text(const struct hvd_unkillable *what, int rank)
{
	return hvd_xasprintf("%srank %d cannot be killed: process %d has not ended %d s after SIGKILL (state %c)%s",
			     what->left ? "a process of " : "", rank, (int)what->pid, HVD_UNKILLABLE_SECONDS,
			     what->state, what->gpus ? ", and has GPUs open" : "");
}
