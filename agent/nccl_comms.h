/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_comms.h - what NCCL's RAS says of the communicators of a job, in short: who is behind, and who is missing.
 *
 * NCCL counts, for each rank of a communicator, the operations that it has begun. Ranks of which one has not called a
 * collective operation that the others have called differ in these counts.
 */
#ifndef HVD_NCCL_COMMS_H
#define HVD_NCCL_COMMS_H

#include <jansson.h>

/* Make a summary of a status in the JSON of NCCL's src/ras/client_support.cc; `earlier` is a status of some seconds before,
 * or NULL. A new reference, NULL if it is no status. Untrusted input is fine: what has another form is left out.
 *   {"version":TEXT, "twice":B, "comms":N, "begun":N, "most":N, "missing":N, "even":N, "still":N, "odd":[COMM,…]}
 * twice: there was an earlier one; begun: the operations of all ranks of all communicators; most: those of one rank in one
 * of them; missing: ranks from which NCCL has no answer; even: communicators whose ranks have begun as many operations,
 * with no rank missing; still: those of them in which none has begun since `earlier`. A COMM is one of the others, the
 * largest first:
 *   {"size":N, "moves":B, "behind":N, "missing":N, "ranks":[RANK,…], "op":TEXT, "count":N, "most":N, "lost":[RANK,…]}
 * moves: some rank has begun an operation since `earlier`; null without that. ranks: those that are behind, the first ones
 * of so many (behind): `count` operations of the last of them, `most` of others; `op` is one that it lacks. lost: those
 * from which NCCL has no answer, of so many (missing). A RANK is
 *   {"number":N, "address":TEXT, "pid":P, "dead":B}
 * its number in the communicator, the address of its host, its process in that one's own pid namespace, and whether NCCL
 * has given it up. */
json_t *hvd_nccl_comms(const json_t *status, const json_t *earlier);

#endif
