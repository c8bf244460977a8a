/* SPDX-License-Identifier: Apache-2.0 */
/* Host list expressions, as they stand in environments and in the controller's answers. */
#include "fuzz.h"
#include "lib/base/hostlist.h"

#define MOST 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_strv names = {0}, back = {0};
	char *text = fuzz_text(data, size), *compressed;

	if (hvd_hostlist_expand(text, MOST, &names, NULL) == 0) {
		if (names.n < 1 || names.n > MOST)
			abort();
		compressed = hvd_hostlist_compress(names.v, names.n);
		if (hvd_hostlist_expand(compressed, MOST, &back, NULL) < 0 || back.n != names.n)
			abort();
		for (size_t i = 0; i < names.n; i++)
			if (strcmp(names.v[i], back.v[i]) != 0 || strlen(names.v[i]) > 255)
				abort();
		free(compressed);
	} else if (names.n > 0) {
		abort();
	}
	hvd_strv_free(&names);
	hvd_strv_free(&back);
	free(text);
	return 0;
}
