/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printable.h - text from outside, as a terminal may show it.
 *
 * A terminal obeys control bytes: they move the cursor, hide or replace what
 * is there, and with some terminals type commands. What a peer, a file, a
 * script, the environment or a user says may hold any of them. So whatever is
 * written for people goes through here: errors (err.h) and messages (log.h) do
 * by themselves. What the ranks print does not: that is theirs.
 *
 * Escaped as \xNN are: control characters, but for tab and newline; the same of
 * Unicode (U+0080 to U+009F); marks that turn the direction of text; and bytes
 * that are no UTF-8.
 */
#ifndef HVD_PRINTABLE_H
#define HVD_PRINTABLE_H

#include <stddef.h>

/* `text` as it may be shown, at most size - 1 bytes of it (never half a character or escape) and a zero byte. `out` is
 * not `text`; size > 0. Returns the length. Done twice it is the same as done once. */
size_t hvd_printable(const char *text, char *out, size_t size);

/* The same between double quotes, in one line: for what somebody says who has not proven who he is. It cannot look like
 * the end of the quotation, or a message of its own. At least 3 bytes. */
size_t hvd_printable_quote(const char *text, char *out, size_t size);

#endif
