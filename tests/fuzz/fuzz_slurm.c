/* SPDX-License-Identifier: Apache-2.0 */
/* Host list expressions and GRES texts, as they stand in environments and the controller's answers. */
#include "fuzz.h"
#include "gres.h"
#include "hostlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_strv names = {0};
	char *text = fuzz_text(data, size);
	size_t count;
	int gpus;

	gpus = hvd_gres_gpus(text);
	if (gpus < -1)
		abort();
	if (hvd_hostlist_check(text, 4096, &count, NULL) == 0) {
		if (count < 1 || count > 4096)
			abort();
		if (hvd_hostlist_expand(text, 4096, &names, NULL) == 0) {
			if (names.n != count)
				abort();
			free(hvd_hostlist_compress(names.v, names.n));
		}
	}
	hvd_strv_free(&names);
	free(text);
	return 0;
}
