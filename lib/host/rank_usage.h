/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_usage.h - what a rank uses at the moment, as its host reports it to the driver: an element of "ranks" of the message
 * "usage".
 *
 *   {"t":"usage", "ranks":[[ID, CPU, DELAY, MEMORY, READ, WRITTEN, OUTPUT, AWAITED, STEPS, GPU, GPU_MEMORY],…]}
 *
 * Each element is an array of whole numbers, in the order of HVD_RANK_USAGE_FIELDS. ID is that of the rank's process
 * (launcher/world/world.h). A rank is its process and all
 * processes below it. An agent sends such a message every few seconds (the setting `sample`), with the ranks whose
 * numbers have changed noticeably, and each rank at least once in HVD_RANK_USAGE_SECONDS.
 */
#ifndef HVD_RANK_USAGE_H
#define HVD_RANK_USAGE_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdint.h>

/* A rank of which no message came for so much longer is one that is not known. */
#define HVD_RANK_USAGE_SECONDS 60

/* The value of a field that is not known. The others of a rank count even so. */
#define HVD_USAGE_UNKNOWN (-1)

/* FIELD(member, least, most): those with -1 as the least value may be not known.
 *   cpu         thousandths of a processor that it has used
 *   delay       … for which its threads were ready to run, and waited for a processor
 *   memory      resident bytes
 *   read        bytes a second by system calls
 *   written
 *   output      seconds since its last output, or since its start
 *   awaited     thousandths of the looks of the last minute at which its peers waited for it
 *   steps       how often, between two of these looks, it has sent something to its peers; 0 if `awaited` is not known
 *   gpu         thousandths of a GPU that it has used
 *   gpu_memory  bytes */
/* clang-format off */
#define HVD_RANK_USAGE_FIELDS(FIELD) \
	FIELD(cpu, 0, 100000000) FIELD(delay, -1, 100000000) FIELD(memory, 0, INT64_MAX) \
	FIELD(read, -1, INT64_MAX) FIELD(written, -1, INT64_MAX) FIELD(output, -1, INT32_MAX) \
	FIELD(awaited, -1, 1000) FIELD(steps, 0, 100000) FIELD(gpu, -1, 100000000) FIELD(gpu_memory, -1, INT64_MAX)
/* clang-format on */

struct hvd_rank_usage {
	uint32_t rank; /* in the message the id of its process; the driver replaces it */
#define HVD_RANK_USAGE_MEMBER(member, least, most) int64_t member;
	HVD_RANK_USAGE_FIELDS(HVD_RANK_USAGE_MEMBER)
#undef HVD_RANK_USAGE_MEMBER
};

/* A new reference. */
json_t *hvd_rank_usage_json(const struct hvd_rank_usage *usage);
/* Read an element of "ranks". -1 with err set; *usage is zeroed then. Untrusted input is fine. */
int hvd_rank_usage_parse(const json_t *element, struct hvd_rank_usage *usage, struct hvd_err *err);

#endif
