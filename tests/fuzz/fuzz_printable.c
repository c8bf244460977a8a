/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as text for a terminal, with any room: nothing that it obeys is left, and nothing is written past the
 * end. */
#include "fuzz.h"
#include "lib/base/printable.h"

static void harmless(const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		must((*s >= 0x20 && *s != 0x7f) || *s == '\n' || *s == '\t');
	must(!strstr(text, "\xc2\x9b"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t room = size ? 3 + data[0] * 4U : 3, len;
	char *text = fuzz_text(data, size), *out = malloc(room), *twice = malloc(room);

	must(out && twice);
	len = hvd_printable(text, out, room);
	must(len < room && strlen(out) == len);
	harmless(out);
	must(hvd_printable(out, twice, room) == len && strcmp(out, twice) == 0);
	len = hvd_printable_quote(text, out, room);
	must(len >= 2 && len < room && strlen(out) == len && out[0] == '"' && out[len - 1] == '"');
	harmless(out);
	for (size_t i = 1; i < len - 1; i++) {
		must(out[i] != '"' && out[i] != '\n' && out[i] != '\t');
		i += out[i] == '\\'; /* what is behind one is not looked at */
	}
	free(text);
	free(out);
	free(twice);
	return 0;
}
