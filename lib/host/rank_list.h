/* SPDX-License-Identifier: Apache-2.0 */
/* rank_list.h - numbers of ranks in messages. */
#ifndef HVD_RANK_LIST_H
#define HVD_RANK_LIST_H

#include <stddef.h>

/* "ranks 4, 5, 8-15", "rank 3"; of a long list "… and 70 more". Sorts the ranks. The caller frees it. */
char *hvd_rank_list(int *ranks, size_t n);

#endif
