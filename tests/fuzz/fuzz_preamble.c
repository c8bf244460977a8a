/* SPDX-License-Identifier: Apache-2.0 */
/* What a shim reads from its stdin: what is taken is within its limits, and is written again byte for byte. */
#include "fuzz.h"
#include "lib/protocol/preamble.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_preamble p;
	unsigned char *again;
	size_t n;

	if (size >= HVD_PREAMBLE_HEAD && hvd_preamble_length(data, &n, NULL) == 0)
		must(n <= HVD_PREAMBLE_MAX);
	if (hvd_preamble_parse(data, size, &p, NULL) != 0) {
		must(!p.directory && !p.env.v);
		return 0;
	}
	must((p.directory[0] == '/' || !p.directory[0]) && strlen(p.boot) < HVD_BOOT_MAX &&
	     p.env.n <= HVD_PREAMBLE_VARS);
	for (size_t i = 0; i < p.env.n; i++)
		must(strchr(p.env.v[i], '=') > p.env.v[i]);
	must(hvd_preamble_format(&p, &again, &n, NULL) == 0);
	must(n == size + HVD_PREAMBLE_HEAD && memcmp(again + HVD_PREAMBLE_HEAD, data, size) == 0);
	free(again);
	hvd_preamble_clear(&p);
	return 0;
}
