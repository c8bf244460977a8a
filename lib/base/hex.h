/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hex.h - bytes as hexadecimal digits, and back.
 */
#ifndef HVD_HEX_H
#define HVD_HEX_H

#include <stddef.h>

/* Write 2 * n lower-case digits and a terminating zero byte to text, which has room for 2 * n + 1 bytes. */
void hvd_hex(const void *bytes, size_t n, char *text);

/* Read n bytes from text. Returns 0, or -1 if text is NULL or is not exactly 2 * n digits, of either case; the contents
 * of bytes are then undefined. Untrusted input is fine. */
int hvd_unhex(const char *text, void *bytes, size_t n);

#endif
