/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/values.h"

#include <stddef.h>
#include <strings.h>

/* In the order of the bits of enum hvd_framework. */
#define CHOICES "horovod|torch|torchrun|jax|deepspeed|accelerate|lightning|tensorflow"

int hvd_frameworks_parse(const char *from, const char *text, unsigned *set, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	unsigned found = HVD_FW_NONE;

	if (strcasecmp(text, "auto") == 0 || strcasecmp(text, "none") == 0) {
		*set = strcasecmp(text, "auto") == 0 ? HVD_FW_AUTO : HVD_FW_NONE;
		return 0;
	}
	if (hvd_value_list(from, text, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		int bit = hvd_value_index(CHOICES, names.v[i]);

		if (bit < 0) {
			hvd_err_set(err, HVD_E_USAGE, "%s: \"%s\" is no framework that is known", from, names.v[i]);
			return hvd_err_hint(err, "known: auto, none, or some of: " HVD_FRAMEWORKS_WORDS);
		}
		found |= 1U << bit;
	}
	*set = found;
	return 0;
}
