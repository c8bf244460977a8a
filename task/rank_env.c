/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_env.h"

#include "lib/base/key.h"
#include "lib/frameworks/emit.h"
#include "lib/process/apptainer.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/func_key.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

void hvd_rank_env_add(struct hvd_strv *env, const json_t *plan, const char *command)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)plan, name, value)
	{
		char *set = json_is_string(value) ? hvd_emit_name(name, environ) : NULL;

		if (set)
			hvd_apptainer_setenv(env, command, set, json_string_value(value));
		free(set);
	}
}

void hvd_rank_env_make(struct hvd_strv *env, const json_t *plan, const char *command, int key_fd)
{
	char number[16];

	hvd_strv_add_all(env, environ);
	hvd_env_unset(env, HVD_BOOT_ENV);
	hvd_rank_env_add(env, plan, command);
	if (key_fd == 0)
		return;
	snprintf(number, sizeof(number), "%d", key_fd);
	hvd_apptainer_setenv(env, command, HVD_FUNC_KEY_ENV, number);
}

int hvd_rank_key_take(const json_t *plan, const struct hvd_key *session_key, int *fd, struct hvd_err *err)
{
	struct hvd_key key;
	int memory, rc = 0;

	*fd = 0;
	if (!json_is_true(json_object_get(plan, "func_key")))
		return 0;
	key = hvd_func_key(session_key);
	memory = hvd_key_memfd(&key, err);
	explicit_bzero(&key, sizeof(key));
	if (memory < 0)
		return -1;
	/* The command may find stdin, stdout or stderr closed: the key's descriptor must not take their numbers. */
	*fd = fcntl(memory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (*fd < 0) {
		rc = hvd_err_sys(err, "cannot keep the key of --run-func");
		*fd = 0;
	}
	close(memory);
	return rc;
}
