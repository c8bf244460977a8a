/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.c - ports that are reserved for servers in the processes of ranks (lib/net/reserve.h).
 *
 * slurmstepd reserves them before it forks the tasks, and has them until the step ends; so they belong to no process of
 * the user, and outlive hvd-task, which only names them to the driver. Where rank 0 runs is not known in slurmstepd, so
 * each host reserves ports for it. The sockets are close-on-exec.
 */
#include "plugin.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/net/reserve.h"

#include <stdlib.h>

void hvd_step_ports_reserve(struct hvd_plugin *pl, spank_t sp)
{
	char text[HVD_BOOT_MAX];
	struct hvd_boot boot;
	uint32_t tasks = 0;
	size_t n;

	if (!hvd_step_wanted(sp, text) || hvd_boot_parse(text, &boot, NULL) != 0 ||
	    spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
		return;
	n = boot.ports + (size_t)boot.rank_ports * tasks;
	/* Without ports the driver says what it cannot do. */
	if (n > 0)
		hvd_reserve(&pl->reserved, n, boot.port_lo, boot.port_hi, NULL);
}

char *hvd_step_ports_text(const struct hvd_plugin *pl)
{
	struct hvd_strv list = {0};
	char *text, *option;

	if (pl->reserved.n == 0)
		return NULL;
	for (size_t i = 0; i < pl->reserved.n; i++)
		hvd_strv_addf(&list, "%u", pl->reserved.ports[i]);
	text = hvd_strv_join(&list, ",");
	hvd_strv_free(&list);
	option = hvd_xasprintf("--ports=%s", text);
	free(text);
	return option;
}
