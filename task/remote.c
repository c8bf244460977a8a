/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include "preamble.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* It comes right behind the command; ssh has its login behind it by then. */
#define PREAMBLE_SECONDS 20

/* The key in a pipe, which nothing that is started inherits. */
static int hand_over_key(struct hvd_boot *boot, const struct hvd_key *key, struct hvd_err *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	if (write(fds[1], key->b, HVD_KEY_LEN) != HVD_KEY_LEN) {
		hvd_err_sys(err, "cannot hand over the launch's key");
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	close(fds[1]);
	snprintf(boot->id, sizeof(boot->id), "fd:%d", fds[0]);
	return 0;
}

static void enter_env(const struct hvd_strv *env)
{
	for (size_t i = 0; i < env->n; i++) {
		char *equals = strchr(env->v[i], '=');

		*equals = '\0';
		setenv(env->v[i], equals + 1, 1);
		*equals = '=';
	}
}

static int enter(const struct hvd_preamble *p, struct hvd_boot *boot, struct hvd_err *err)
{
	if (hvd_boot_parse(p->boot, boot, err) != 0 || hand_over_key(boot, &p->key, err) != 0)
		return HVD_PREAMBLE_UNREADABLE;
	enter_env(&p->env);
	if (chdir(p->directory) == 0)
		return 0;
	hvd_err_sys(err, "cannot change to the directory %s", p->directory);
	return HVD_PREAMBLE_NO_DIRECTORY;
}

int hvd_remote_enter(struct hvd_boot *boot, const char *host, const struct hvd_log *log)
{
	int status = HVD_PREAMBLE_UNREADABLE;
	struct hvd_preamble p;
	struct hvd_err err = {0};

	if (hvd_preamble_read(STDIN_FILENO, hvd_deadline_in(PREAMBLE_SECONDS), &p, &err) == 0) {
		status = enter(&p, boot, &err);
		hvd_preamble_clear(&p);
	}
	if (status != 0) {
		hvd_err_host(&err, host);
		hvd_log_err(log, &err);
	}
	return status;
}
