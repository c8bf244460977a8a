/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_evidence.h - do the ranks still call operations of NCCL, and is one behind? From two samples of its counts.
 *
 * Pure. NCCL counts an operation when a rank calls it (agent/nccl_comms.h), but none that a CUDA graph calls. So counts that
 * do not change say that no rank calls operations, and not that one hangs.
 */
#ifndef HVD_NCCL_EVIDENCE_H
#define HVD_NCCL_EVIDENCE_H

#include <jansson.h>
#include <stdbool.h>

enum hvd_nccl_evidence {
	HVD_NCCL_NONE,   /* NCCL was not asked in both samples, or does not know of all ranks */
	HVD_NCCL_MOVES,  /* operations were called in between */
	HVD_NCCL_BEHIND, /* none were, and some ranks have called fewer than others */
	HVD_NCCL_EVEN    /* none were, and the ranks of each communicator have called as many */
};

/* The samples are answers as of stack_groups.h. */
enum hvd_nccl_evidence hvd_nccl_evidence(const json_t *first, const json_t *second);

/* Is this rank of the launch behind, in a communicator? And: are all that are behind known as ranks of the launch? */
bool hvd_nccl_is_behind(const json_t *answers, json_int_t rank);
bool hvd_nccl_knows_behind(const json_t *answers);

/* Of the largest communicator in which ranks are behind: the operations that the last one has called, and others. */
void hvd_nccl_counts(const json_t *answers, json_int_t *count, json_int_t *most);

/* How many operations a rank has called, at most, in one communicator. */
json_int_t hvd_nccl_called(const json_t *answers);

#endif
