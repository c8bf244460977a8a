/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unheard.h - launch processes of an elastic job that do not learn that their node agents have ended.
 *
 * srun waits forever if a host is lost, or if munged does not answer there or on this host. Such a process is ended
 * soon, with a message. The last output of ranks of the last generation may be missing then, and the job has failed;
 * for a host without such ranks this is only a warning.
 */
#ifndef HVD_UNHEARD_H
#define HVD_UNHEARD_H

#include "launcher/run/job.h"
#include "machine.h"

struct hvd_unheard {
	struct hvd_job *job;
	const struct hvd_machine *machine;
	struct event *own;
};

/* Neither is owned. *unheard is zero before. */
void hvd_unheard_init(struct hvd_unheard *unheard, struct hvd_job *job, const struct hvd_machine *machine);
void hvd_unheard_clear(struct hvd_unheard *unheard);

void hvd_unheard_ending(struct hvd_unheard *unheard); /* all are being ended, for the first time */
void hvd_unheard_lost(struct hvd_unheard *unheard, uint32_t host);
void hvd_unheard_without_munge(struct hvd_unheard *unheard, uint32_t host); /* its agent reports that */
void hvd_unheard_cut_short(struct hvd_unheard *unheard, uint32_t host);     /* its process is about to be killed */

#endif
