/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prolog.c - the site's TaskProlog, which Slurm runs in each task after the plugins' task_init.
 *
 * Variables that the TaskProlog exports would replace variables of the plan. So hvd-agent runs the site's program, and
 * prints the plan's variables after it (agent/main_agent.c). For this, the task's own copy of Slurm's configuration names
 * hvd-agent as the TaskProlog, just before Slurm reads it. srun tells the tasks which program that is, by a variable: the
 * one pointer of the configuration to its name is the one to change, wherever this release of Slurm has it. In a container
 * of another plugin hvd-agent may not be found; there the site's program stays.
 */
#include "plugin.h"

#include "host_slurm.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/step_plans.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If pyxis is listed after this plugin, it puts the task into the container after this hook. */
static bool pyxis_loaded(void)
{
	hvd_cleanup_fclose FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "pyxis"))
			return true;
	return false;
}

void hvd_prolog_export(void)
{
	hvd_cleanup_free char *site = hvd_host_slurm_value("TaskProlog");

	if (site)
		setenv(HVD_PROLOG_ENV, site, 1);
	else
		unsetenv(HVD_PROLOG_ENV);
}

/* Have hvd-agent run this TaskProlog. */
static bool wrap(const struct hvd_plugin *pl, spank_t sp, const char *site)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	hvd_cleanup_free char *text = NULL, *own = NULL;

	for (size_t i = 0; i < pl->task.plan.n; i++) {
		const char *entry = pl->task.plan.v[i];

		hvd_strv_addf(&names, "%.*s", (int)strcspn(entry, "="), entry);
	}
	text = hvd_strv_join(&names, " ");
	own = hvd_xasprintf("%s/hvd-agent", pl->site.libexecdir);
	if (spank_setenv(sp, HVD_PROLOG_NAMES_ENV, text, 1) != ESPANK_SUCCESS)
		return false;
	if (!hvd_host_slurm_replace(site, own)) {
		spank_unsetenv(sp, HVD_PROLOG_NAMES_ENV);
		return false;
	}
	/* It is never freed: this process soon becomes the user's command. */
	hvd_take_ptr(&own);
	return true;
}

void hvd_prolog_wrap(const struct hvd_plugin *pl, spank_t sp)
{
	char site[PATH_MAX];

	if (pl->task.plan.n == 0 || spank_getenv(sp, HVD_PROLOG_ENV, site, sizeof(site)) != ESPANK_SUCCESS)
		return;
	if (hvd_container_host_root(pl) || pyxis_loaded() || !wrap(pl, sp, site))
		spank_unsetenv(sp, HVD_PROLOG_ENV);
}
