/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy_hang.h - does a job hang whose ranks use their processors, but do nothing else? Samples of the stacks decide.
 *
 * Pure. A job computes, and does not hang, if anything in the Python stacks of its ranks has changed between two samples.
 * Otherwise the ranks are told apart by what they did meanwhile:
 *   waits       it used next to no processor time, or its host does not answer
 *   collective  it used a processor within a function of torch.distributed or Horovod, as a rank does that waits by polling
 *   spins       it used a processor, and held Python's global interpreter lock in both samples: a loop in Python, which
 *               never left its line
 *   computes    it used a processor outside of the interpreter: a long call of a library, or a loop of short ones in a line
 * A rank that spins while others wait hangs the job; so do ranks that poll while another one waits elsewhere. A long call
 * in one rank for which others wait looks the same as one that never ends, so the job only may hang. Ranks that are all in
 * the same call compute together.
 */
#ifndef HVD_BUSY_HANG_H
#define HVD_BUSY_HANG_H

#include <jansson.h>

enum hvd_busy_verdict {
	HVD_BUSY_WORKS,   /* the stacks change, or all ranks compute in the same call */
	HVD_BUSY_UNKNOWN, /* the lines of a busy rank are not known */
	HVD_BUSY_MAY_HANG,
	HVD_BUSY_HANGS,
};

/* The samples are answers as of stack_groups.h, at least `seconds` apart. *text gets a line for people that the caller
 * frees: which ranks are busy, and where, or why it is another verdict. Texts of ranks are escaped. */
enum hvd_busy_verdict hvd_busy_hang_judge(const json_t *first, const json_t *second, double seconds, char **text);

#endif
