/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xalloc.h - allocation that never returns NULL: without memory the process ends with a message and status 1.
 *
 * It is for small structures of the programs themselves. Check a size that a peer or a file can choose against a limit
 * before the call. The caller frees the result with free(3).
 */
#ifndef HVD_XALLOC_H
#define HVD_XALLOC_H

#include <stdarg.h>
#include <stddef.h>

void *hvd_xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *hvd_xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Room for one more in an array of `n` elements, for which *room have memory: the array, at its new place. */
void *hvd_xgrow(void *array, size_t n, size_t *room, size_t size) __attribute__((returns_nonnull));
char *hvd_xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *hvd_xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *hvd_xvasprintf(const char *fmt, va_list ap) __attribute__((malloc, returns_nonnull, format(printf, 1, 0)));
char *hvd_xasprintf(const char *fmt, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* Append to *text, which is allocated text, or NULL for none. The arguments may point into *text. */
void hvd_xappendf(char **text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
