/* SPDX-License-Identifier: Apache-2.0 */
#include "median.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void hvd_sort_figures(double *v, size_t n)
{
	if (n > 1)
		qsort(v, n, sizeof(*v), by_value);
}

double hvd_median(double *v, size_t n)
{
	hvd_sort_figures(v, n);
	return v[n / 2];
}
