/* SPDX-License-Identifier: Apache-2.0 */
#include "digits.h"

#include <string.h>

int64_t hvd_digits(const char *text, size_t len, int64_t max)
{
	int64_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int64_t digit = text[i] - '0';

		if (digit < 0 || digit > 9 || n > (max - digit) / 10)
			return -1;
		n = n * 10 + digit;
	}
	return len ? n : -1;
}

int64_t hvd_take_digits(const char **at, int64_t max)
{
	const char *text = *at;

	*at += strspn(text, "0123456789");
	return hvd_digits(text, (size_t)(*at - text), max);
}

void hvd_hex(const void *bytes, size_t n, char *text)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n; i++) {
		*text++ = digits[p[i] >> 4];
		*text++ = digits[p[i] & 15];
	}
	*text = '\0';
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int hvd_unhex(const char *text, void *bytes, size_t n)
{
	unsigned char *p = bytes;

	if (!text || strlen(text) != 2 * n)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int hi = nibble(text[2 * i]), lo = nibble(text[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -1;
		p[i] = (unsigned char)(hi << 4 | lo);
	}
	return 0;
}
