/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_figures.h - the figures of a rank or host in a status (docs/status.md), as the columns of a table.
 *
 * Pure. Anything may be missing from the objects, or have another type.
 */
#ifndef HVD_STATUS_FIGURES_H
#define HVD_STATUS_FIGURES_H

#include <jansson.h>
#include <stddef.h>

/* The number under a key; 0 if there is none. */
double hvd_status_number_of(const json_t *object, const char *key);

enum hvd_status_unit {
	HVD_STATUS_SHARE, /* 0.98 is 98% */
	HVD_STATUS_BYTES,
	HVD_STATUS_HOURLY, /* bytes a second as bytes an hour, with a sign */
	HVD_STATUS_SECONDS,
};

/* A figure in a few characters: "98%", "1.2G", "+10M", "90s". */
void hvd_status_figure(char out[16], enum hvd_status_unit unit, double value);

struct hvd_status_column {
	const char *title, *key;
	int width;
	enum hvd_status_unit unit;
};
#define HVD_STATUS_COLUMNS 10
extern const struct hvd_status_column hvd_status_columns[HVD_STATUS_COLUMNS];

/* The figures of a column that n objects have, the least first, *known of them. The caller frees them. */
double *hvd_status_sorted(const json_t *const *of, size_t n, const char *key, size_t *known);

#endif
