/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.c - tasks that another plugin (pyxis) puts into a container.
 *
 * The task_init of pyxis enters the container: another root directory and user namespace, with no way back except a
 * descriptor, and the container's variables in place of variables of the same name. Slurm calls the hooks of plugins in
 * the order of plugstack.conf.
 *
 * If this plugin comes first, hvd-agent runs on the host, and then the container's variables replace those of the plan.
 * Two measures prevent that. The plugin has pyxis keep the plan's variables (PYXIS_CONTAINER_ENV, which pyxis reads in
 * its init_post_opt). And if plugstack.conf lists hvd.so again after pyxis, with the argument "late", that line sets
 * the plan again. Slurm loads the file once, so both lines have the same context.
 *
 * If this plugin comes last, hvd-agent must run with the host's root directory. The hook task_init_privileged, which
 * runs before any task_init, opens that directory; hvd-agent's process makes it its root. The process may do so,
 * because a process that joins a user namespace has all capabilities there until its next exec. The descriptor is
 * close-on-exec.
 */
#include "plugin.h"

#include "lib/base/cleanup.h"
#include "lib/frameworks/emitted.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTAINER_ENV "PYXIS_CONTAINER_ENV"
/* pyxis leaves out a value that does not fit into PATH_MAX. */
#define CONTAINER_ENV_MAX PATH_MAX

bool hvd_container_late_args(int argc, char **argv)
{
	return argc == 1 && strcmp(argv[0], "late") == 0;
}

void hvd_container_keep_names(struct hvd_plugin *pl, spank_t sp)
{
	char boot[HVD_BOOT_MAX], now[CONTAINER_ENV_MAX] = "";
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	hvd_cleanup_free char *text = NULL;

	if (!hvd_step_wanted(sp, boot))
		return;
	if (spank_getenv(sp, CONTAINER_ENV, now, sizeof(now)) == ESPANK_SUCCESS) {
		pl->task.container_env = strdup(now);
		hvd_strv_add(&names, now);
	}
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		hvd_strv_add(&names, e->name);
	text = hvd_strv_join(&names, ",");
	if (strlen(text) < CONTAINER_ENV_MAX && spank_setenv(sp, CONTAINER_ENV, text, 1) == ESPANK_SUCCESS)
		pl->task.container_env_ours = true;
}

void hvd_container_restore_names(struct hvd_plugin *pl, spank_t sp)
{
	if (!pl->task.container_env_ours)
		return;
	pl->task.container_env_ours = false;
	if (pl->task.container_env)
		spank_setenv(sp, CONTAINER_ENV, pl->task.container_env, 1);
	else
		spank_unsetenv(sp, CONTAINER_ENV);
}

/* The network namespace of this process. It uses the host's /proc: a container need not have one. */
static bool find_net(const struct hvd_plugin *pl, struct hvd_netns *net)
{
	struct stat st;

	if (pl->task.root_fd <= 0 || fstatat(pl->task.root_fd, "proc/self/ns/net", &st, 0) != 0)
		return false;
	*net = (struct hvd_netns){.dev = st.st_dev, .ino = st.st_ino};
	return true;
}

void hvd_container_remember_host(struct hvd_plugin *pl, spank_t sp)
{
	char boot[HVD_BOOT_MAX];
	int fd;

	if (!hvd_step_wanted(sp, boot))
		return;
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	pl->task.root_fd = fd;
	find_net(pl, &pl->task.net);
}

int hvd_container_host_root(const struct hvd_plugin *pl)
{
	struct stat host, here;

	if (pl->task.root_fd <= 0 || fstat(pl->task.root_fd, &host) != 0 || stat("/", &here) != 0)
		return 0;
	return host.st_dev == here.st_dev && host.st_ino == here.st_ino ? 0 : pl->task.root_fd;
}

bool hvd_container_other_net(const struct hvd_plugin *pl, struct hvd_netns *now)
{
	const struct hvd_netns *then = &pl->task.net;

	if (!then->ino || !find_net(pl, now))
		return false;
	return now->dev != then->dev || now->ino != then->ino;
}

/* Unset a variable if it has the plan's value, which is wrong in the container. A value of the image stays. */
static void withdraw(spank_t sp, const char *name, const char *ours)
{
	char value[4096];

	if (spank_getenv(sp, name, value, sizeof(value)) == ESPANK_SUCCESS && strcmp(value, ours) == 0)
		spank_unsetenv(sp, name);
}

/* A relay serves ranks over their host's loopback, or when their host's agent finds their sockets. In a network namespace
 * of its own a container has neither. */
static bool is_relay(const char *name)
{
	return strcmp(name, "MASTER_ADDR") == 0 || strcmp(name, "HOROVOD_GLOO_RENDEZVOUS_ADDR") == 0;
}

void hvd_container_repeat_plan(struct hvd_plugin *pl, spank_t sp)
{
	struct hvd_netns now;
	bool other_net = hvd_container_other_net(pl, &now), relay = false;

	for (size_t i = 0; i < pl->task.plan.n; i++) {
		char *entry = pl->task.plan.v[i], *value = strchr(entry, '=');

		*value++ = '\0';
		relay |= is_relay(entry);
		if (other_net && hvd_emitted_flags(entry)->iface)
			withdraw(sp, entry, value);
		else
			spank_setenv(sp, entry, value, 1);
	}
	if (other_net && pl->task.verbose)
		fprintf(stderr, "hvd: the container has a network namespace of its own: no variables that name "
				"interfaces are set in it\n");
	if (other_net && relay)
		fprintf(stderr,
			"hvd: warning: the container has a network namespace of its own, from which the rendezvous "
			"relay cannot be reached: share the node's network with the container\n");
	hvd_strv_free(&pl->task.plan);
}
