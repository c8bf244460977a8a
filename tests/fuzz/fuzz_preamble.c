/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent reads from its stdin: what is taken is within its limits, and is written again byte for byte. */
#include "fuzz.h"
#include "lib/base/base64.h"
#include "lib/protocol/preamble.h"

/* The text that stands for the input; hvd_preamble_parse() sees the input itself, too. */
static int parse(const uint8_t *data, size_t size, struct hvd_preamble *p, unsigned char **text, size_t *n)
{
	*n = HVD_BASE64_LENGTH(size) + 1;
	*text = calloc(*n, 1);
	hvd_base64_encode(data, size, *text);
	(*text)[*n - 1] = '\n';
	if (hvd_preamble_parse(data, size, p, NULL) == 0)
		hvd_preamble_clear(p);
	return hvd_preamble_parse(*text, *n, p, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *text, *again;
	struct hvd_preamble p;
	size_t n, length;

	if (size >= HVD_PREAMBLE_HEAD && hvd_preamble_length(data, &n, NULL) == 0)
		must(n <= HVD_BASE64_LENGTH(HVD_PREAMBLE_MAX) + 1);
	if (hvd_preamble_parse_whole(data, size, &p, NULL) == 0)
		hvd_preamble_clear(&p);
	if (parse(data, size, &p, &text, &length) != 0) {
		must(!p.directory && !p.env.v && !p.args.v);
		free(text);
		return 0;
	}
	must((p.directory[0] == '/' || !p.directory[0]) && strlen(p.boot) < HVD_BOOT_MAX &&
	     p.env.n <= HVD_PREAMBLE_VARS);
	for (size_t i = 0; i < p.env.n; i++)
		must(strchr(p.env.v[i], '=') > p.env.v[i]);
	must(hvd_preamble_format(&p, &again, &n, NULL) == 0);
	must(n == length + HVD_PREAMBLE_HEAD && memcmp(again + HVD_PREAMBLE_HEAD, text, length) == 0);
	free(again);
	free(text);
	hvd_preamble_clear(&p);
	return 0;
}
