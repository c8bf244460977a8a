/* SPDX-License-Identifier: Apache-2.0 */
#include "printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The length in bytes of the UTF-8 character at the start of `s`, and its number in *c; 0 when the bytes are not
 * UTF-8. */
static size_t decode(const unsigned char *s, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : (*s & 0xf8) == 0xf0 ? 4 : 0;

	*c = n == 1 ? *s : *s & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	return n && *c >= least[n] && *c <= 0x10ffff && !(*c >= 0xd800 && *c < 0xe000) ? n : 0;
}

/* Does a terminal obey the character instead of showing it? */
static bool obeyed(uint32_t c)
{
	return (c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e ||
	       c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* With `quoted`, tabs, newlines, double quotes and backslashes are escaped too. */
static size_t convert(const char *text, char *out, size_t size, bool quoted)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;

	while (*s) {
		char piece[20];
		uint32_t c;
		size_t n = decode(s, &c), len = 0;

		if (n == 0 || obeyed(c))
			for (size_t i = 0; i < (n ? n : 1); i++)
				len += (size_t)snprintf(piece + len, sizeof(piece) - len, "\\x%02x", s[i]);
		else if (quoted && (c == '"' || c == '\\'))
			len = (size_t)snprintf(piece, sizeof(piece), "\\%c", (int)c);
		else if (quoted && (c == '\n' || c == '\t'))
			len = (size_t)snprintf(piece, sizeof(piece), "\\%c", c == '\n' ? 'n' : 't');
		else
			memcpy(piece, s, len = n);
		if (at + len >= size)
			break;
		memcpy(out + at, piece, len);
		at += len;
		s += n ? n : 1;
	}
	out[at] = '\0';
	return at;
}

size_t hvd_printable(const char *text, char *out, size_t size)
{
	return convert(text, out, size, false);
}

size_t hvd_printable_line(const char *text, char *out, size_t size)
{
	size_t len = hvd_printable(text, out, size);

	for (char *p = out; *p; p++)
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	return len;
}

size_t hvd_printable_quote(const char *text, char *out, size_t size)
{
	size_t len = convert(text, out + 1, size - 2, true) + 1;

	out[0] = '"';
	out[len++] = '"';
	out[len] = '\0';
	return len;
}
