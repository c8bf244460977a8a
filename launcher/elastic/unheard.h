/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unheard.h - processes of an elastic job that do not hear that the node agents which they have started have ended.
 *
 * srun waits for ever where a host is lost, or where munged does not answer: there, or on this host. Such a process is
 * ended soon, and the user is told why. What ranks of the last generation wrote last may be missing then, and the job
 * has failed; a host that had none of them is no matter of the job's.
 */
#ifndef HVD_UNHEARD_H
#define HVD_UNHEARD_H

#include "launcher/run/job.h"
#include "machine.h"

struct hvd_unheard {
	struct hvd_job *job;
	const struct hvd_machine *machine;
	struct event *own;
	bool ending; /* all were told to end */
};

/* Neither is owned. *unheard is zero before. */
void hvd_unheard_init(struct hvd_unheard *unheard, struct hvd_job *job, const struct hvd_machine *machine);
void hvd_unheard_clear(struct hvd_unheard *unheard);

void hvd_unheard_ending(struct hvd_unheard *unheard); /* all were told to end, for the first time */
void hvd_unheard_lost(struct hvd_unheard *unheard, uint32_t host);
void hvd_unheard_without_munge(struct hvd_unheard *unheard, uint32_t host); /* its agent says so */
void hvd_unheard_cut_short(struct hvd_unheard *unheard, uint32_t host);     /* its process is about to be killed */

#endif
