/* SPDX-License-Identifier: Apache-2.0 */
/* rank_name.h - a rank as users name it: "3", or in a launch with roles "trainer:3" and of a replica "rollout/1:0". */
#ifndef HVD_RANK_NAME_H
#define HVD_RANK_NAME_H

#include <stdint.h>

#define HVD_ROLE_NAME 48
#define HVD_RANK_NAME (HVD_ROLE_NAME + 21)

struct hvd_rank_name {
	char role[HVD_ROLE_NAME]; /* "": that of the first role, or there are none */
	uint32_t rank;
};

/* -1: the text has another form. */
int hvd_rank_name_parse(const char *text, struct hvd_rank_name *name);

/* Write the name to `text`, which is returned. `role` NULL or "": there are none. */
const char *hvd_rank_name_text(const char *role, int64_t rank, char text[HVD_RANK_NAME]);

#endif
