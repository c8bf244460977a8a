/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digits.h - decimal numbers in text from outside: no sign, no blank, no overflow.
 */
#ifndef HVD_DIGITS_H
#define HVD_DIGITS_H

#include <stddef.h>
#include <stdint.h>

/* Returns the number that the `len` bytes of text spell, from 0 to max. Returns -1 if the text is empty, has a byte
 * that is no digit, or spells a larger number. Untrusted input is fine; text needs no terminating zero byte. */
int64_t hvd_digits(const char *text, size_t len, int64_t max);

#endif
