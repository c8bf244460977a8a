/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digits.h - digits in text: decimal numbers from outside, without sign, blank and overflow; bytes as hexadecimal digits.
 */
#ifndef HVD_DIGITS_H
#define HVD_DIGITS_H

#include <stddef.h>
#include <stdint.h>

/* Returns the number that the `len` bytes of text spell, from 0 to max. Returns -1 if the text is empty, has a byte
 * that is no digit, or spells a larger number. Untrusted input is fine; text needs no terminating zero byte. */
int64_t hvd_digits(const char *text, size_t len, int64_t max);
/* The same for the digits at *at; moves *at behind them, also if their number is too large. */
int64_t hvd_take_digits(const char **at, int64_t max);

/* Write 2 * n lower-case digits and a terminating zero byte to text, which has room for 2 * n + 1 bytes. */
void hvd_hex(const void *bytes, size_t n, char *text);

/* Read n bytes from text. Returns 0, or -1 if text is NULL or is not exactly 2 * n digits, of either case; the contents
 * of bytes are then undefined. Untrusted input is fine. */
int hvd_unhex(const char *text, void *bytes, size_t n);

#endif
