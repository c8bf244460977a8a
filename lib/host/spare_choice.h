/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spare_choice.h - which hosts a job leaves out as spares, and which of its spares takes the place of a lost host: the
 * worst goes out, the nearest comes in.
 *
 * Pure: descriptions of hosts in, an index out.
 */
#ifndef HVD_SPARE_CHOICE_H
#define HVD_SPARE_CHOICE_H

#include <stddef.h>
#include <stdint.h>

struct hvd_spare_host {
	uint32_t ranks;          /* that it would have; 0 = it is not considered */
	uint32_t links;          /* how many others it reaches; 0 for all hosts where that does not matter */
	double mbps;             /* to and from its neighbours; 0 = not measured */
	const char *switch_path; /* NULL = not known */
};

/* Which of the hosts, in the order of their ranks, to leave out: the one with the fewest links; of equal ones the
 * slowest; of similar ones the last. The others must hold `wanted` ranks, and there must be another host. `n` if there
 * is no such host. */
size_t hvd_spare_worst(const struct hvd_spare_host *v, size_t n, uint32_t wanted);

/* "the slowest, 95 Mbit/s to its neighbours, median 9.4 Gbit/s"; "" if host `i` is as fast as others. */
const char *hvd_spare_slowness(const struct hvd_spare_host *v, size_t n, size_t i, char text[128]);

/* Which of the hosts, in their order of preference, is the nearest to a host with this switch path: the first of those
 * below the most common switches. 0 if n is 0. */
size_t hvd_spare_nearest(const struct hvd_spare_host *v, size_t n, const char *to);

/* "9.4 Gbit/s", "95 Mbit/s" */
const char *hvd_rate_text(double mbps, char text[32]);

#endif
