/* SPDX-License-Identifier: Apache-2.0 */
/* median.h - medians and quantiles of a few figures, by sorting them where they are. */
#ifndef HVD_MEDIAN_H
#define HVD_MEDIAN_H

#include <stddef.h>

/* Sort the figures, the least first. `n` may be 0. */
void hvd_sort_figures(double *v, size_t n);

/* Sort the figures; returns the one in the middle, of an even number the larger one. `n` is at least 1. */
double hvd_median(double *v, size_t n);

#endif
