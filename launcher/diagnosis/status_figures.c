/* SPDX-License-Identifier: Apache-2.0 */
#include "status_figures.h"

#include "lib/base/median.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

const struct hvd_status_column hvd_status_columns[HVD_STATUS_COLUMNS] = {
	{"CPU", "cpu", 4, HVD_STATUS_SHARE},       {"AWAIT", "awaited", 5, HVD_STATUS_SHARE},
	{"DELAY", "delay", 5, HVD_STATUS_SHARE},   {"MEM", "memory", 5, HVD_STATUS_BYTES},
	{"MEM/h", "growth", 6, HVD_STATUS_HOURLY}, {"READ", "read", 5, HVD_STATUS_BYTES},
	{"WRITE", "written", 5, HVD_STATUS_BYTES}, {"OUT", "output", 4, HVD_STATUS_SECONDS},
	{"GPU", "gpu", 4, HVD_STATUS_SHARE},       {"GMEM", "gpu_memory", 5, HVD_STATUS_BYTES},
};

double hvd_status_number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void put_bytes(char out[16], double bytes, const char *sign)
{
	static const char units[] = "BKMGTP";
	size_t u = 0;

	while (bytes >= 1000 && u + 1 < sizeof(units) - 1) {
		bytes /= 1024;
		u++;
	}
	if (u == 0)
		snprintf(out, 16, "%s%.0f", bytes > 0 ? sign : "", bytes);
	else
		snprintf(out, 16, bytes < 9.95 ? "%s%.1f%c" : "%s%.0f%c", sign, bytes, units[u]);
}

static void put_seconds(char out[16], double s)
{
	if (s < 100)
		snprintf(out, 16, "%.0fs", s);
	else if (s < 100 * 60)
		snprintf(out, 16, "%.0fm", s / 60);
	else if (s < 100 * 3600.0)
		snprintf(out, 16, "%.0fh", s / 3600);
	else
		snprintf(out, 16, "%.0fd", s / 86400);
}

void hvd_status_figure(char out[16], enum hvd_status_unit unit, double value)
{
	switch (unit) {
	case HVD_STATUS_SHARE:
		snprintf(out, 16, "%.0f%%", value * 100);
		break;
	case HVD_STATUS_BYTES:
		put_bytes(out, value < 0 ? 0 : value, "");
		break;
	case HVD_STATUS_HOURLY:
		put_bytes(out, (value < 0 ? -value : value) * 3600, value < 0 ? "-" : "+");
		break;
	case HVD_STATUS_SECONDS:
		put_seconds(out, value);
		break;
	}
}

double *hvd_status_sorted(const json_t *const *of, size_t n, const char *key, size_t *known)
{
	double *values = hvd_xcalloc(n + 1, sizeof(*values));

	*known = 0;
	for (size_t i = 0; i < n; i++) {
		const json_t *figure = json_object_get(of[i], key);

		if (json_is_number(figure))
			values[(*known)++] = json_number_value(figure);
	}
	hvd_sort_figures(values, *known);
	return values;
}
