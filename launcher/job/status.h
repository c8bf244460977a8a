/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the state of a job at the moment, for hvdrun --status: an object, which docs/status.md describes.
 *
 * It is made of the events of the launch, the hosts, the ranks and what they use (launcher/world/usage.h), when somebody
 * asks. The store is asked who waits there, and agents whose processes these are and what a rank has written last.
 */
#ifndef HVD_JOB_STATUS_H
#define HVD_JOB_STATUS_H

struct hvd_job;
struct hvd_job_status;

/* Of a job that begins: it has its hosts, world, policy and result, which outlive the status. */
struct hvd_job_status *hvd_job_status_create(struct hvd_job *job);
void hvd_job_status_destroy(struct hvd_job_status *status); /* NULL is fine */

/* Of all ranks (NULL), or of one (lib/host/rank_name.h) and its last lines. `done` is called once, at once or some seconds from now, with a text of JSON, which is taken over. There is one who
 * asks. A job of many ranks makes the answer in several turns of the event loop. */
void hvd_job_status_ask(struct hvd_job_status *status, const char *rank, void (*done)(char *answer, void *arg),
			void *arg);
/* Whoever has asked gets no answer. */
void hvd_job_status_forget(struct hvd_job_status *status);

#endif
