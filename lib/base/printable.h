/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printable.h - text from outside, made safe to show on a terminal.
 *
 * A terminal obeys control characters: they move the cursor, hide or replace text, and on some terminals type commands.
 * Text from a peer, a file, a script, the environment or a user may contain them. Errors (err.h) and messages (log.h)
 * escape such text by themselves. All other text for people has to pass these functions, except the ranks' output,
 * which is not escaped.
 *
 * Escaped as \xNN are: control characters except tab and newline; Unicode's further control characters (U+0080 to
 * U+009F); the marks that change the direction of text; bytes that are not UTF-8.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_PRINTABLE_H
#define HVD_PRINTABLE_H

#include <stddef.h>

/* Write `text`, escaped, to `out`: at most size - 1 bytes, with no character or escape cut in half, and a zero byte.
 * `size` is at least 1; `out` must not overlap `text`. Returns the length. Escaping twice changes nothing. */
size_t hvd_printable(const char *text, char *out, size_t size);

/* The same on one line: tabs and newlines become spaces. */
size_t hvd_printable_line(const char *text, char *out, size_t size);

/* The same as hvd_printable(), within double quotes and on one line, for text of a peer that has not proven its identity. Quotes,
 * backslashes, tabs and newlines are escaped too, so the text can imitate neither the end of the quotation nor a
 * message of hvd. `size` is at least 3. */
size_t hvd_printable_quote(const char *text, char *out, size_t size);

#endif
