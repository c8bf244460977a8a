/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_key.h"

#include "lib/base/key.h"
#include "lib/process/apptainer.h"
#include "lib/protocol/func_key.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int hvd_rank_key_take(const json_t *plan, const struct hvd_session *session, int *fd, struct hvd_err *err)
{
	struct hvd_key key;
	int memory, rc = 0;

	*fd = 0;
	if (!json_is_true(json_object_get(plan, "func_key")))
		return 0;
	key = hvd_func_key(&session->key);
	memory = hvd_key_memfd(&key, err);
	explicit_bzero(&key, sizeof(key));
	if (memory < 0)
		return -1;
	/* Above stdin, stdout and stderr, which may be closed here. */
	*fd = fcntl(memory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (*fd < 0) {
		rc = hvd_err_sys(err, "cannot keep the key of --run-func");
		*fd = 0;
	}
	close(memory);
	return rc;
}

void hvd_rank_key_env(int fd, const char *command, struct hvd_strv *env)
{
	char number[16];

	if (fd == 0)
		return;
	snprintf(number, sizeof(number), "%d", fd);
	hvd_apptainer_setenv(env, command, HVD_FUNC_KEY_ENV, number);
}
