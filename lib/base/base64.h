/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text without blanks and line ends. */
#ifndef HVD_BASE64_H
#define HVD_BASE64_H

#include <stddef.h>

/* How long the text of n bytes is. */
#define HVD_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

/* Write the HVD_BASE64_LENGTH(n) characters of the text, without a zero byte behind them. */
void hvd_base64_encode(const void *bytes, size_t n, void *text);

/* The *n bytes that a text stands for. The caller wipes and frees them. NULL when it is not base64. */
unsigned char *hvd_base64_decode(const void *text, size_t len, size_t *n);

#endif
