/* SPDX-License-Identifier: Apache-2.0 */
#include "digits.h"

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
