/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy_hang.h - does a job hang whose ranks use their processors, but do nothing else? Samples of the stacks decide.
 *
 * Pure. A job computes, and does not hang, if anything in the Python stacks of its ranks has changed between two samples,
 * or if its ranks have called operations of NCCL.
 * Otherwise the ranks are told apart by what they did meanwhile:
 *   waits       it used next to no processor time, or its host does not answer
 *   collective  it used a processor within a function of torch.distributed or Horovod, as a rank does that waits by polling
 *   spins       it used a processor, and held Python's global interpreter lock in both samples: a loop in Python, which
 *               never left its line
 *   gpu         it used a processor within torch.cuda.synchronize() or the like: its GPU works, or waits for others
 *   computes    it used a processor outside of the interpreter: a long call of a library, or a loop of short ones in a line
 * A rank that spins while others wait hangs the job; so do ranks that poll while another one waits elsewhere. A long call
 * in one rank for which others wait looks the same as one that never ends, so the job only may hang. Ranks that are all in
 * the same call compute together.
 *
 * NCCL's counts (nccl_evidence.h) add to this, and decide nothing without the stacks:
 *   - a rank that has called fewer operations than others, and does not compute, hangs the job, whatever the others do. One
 *     that computes may come to its operation;
 *   - if all ranks have called as many, and are in collectives, or wait for GPUs in a job that mostly calls operations all
 *     the time, all of them hang together. This needs a second sample a minute later (HVD_BUSY_HANGS_TOGETHER), because
 *     GPUs may compute before they come to the operation.
 */
#ifndef HVD_BUSY_HANG_H
#define HVD_BUSY_HANG_H

#include <jansson.h>

enum hvd_busy_verdict {
	HVD_BUSY_WORKS,   /* the stacks change, or all ranks compute in the same call */
	HVD_BUSY_UNKNOWN, /* the lines of a busy rank are not known */
	HVD_BUSY_MAY_HANG,
	HVD_BUSY_HANGS_TOGETHER, /* if a sample that is taken much later says the same */
	HVD_BUSY_HANGS,
};

/* The samples are answers as of stack_groups.h, at least `seconds` apart; `age`: how long the job has run. *text gets a line
 * for people that the caller frees: which ranks are busy, and where, or why it is another verdict. Texts of ranks are
 * escaped. */
enum hvd_busy_verdict hvd_busy_hang_judge(const json_t *first, const json_t *second, double seconds, double age,
					  char **text);

#endif
