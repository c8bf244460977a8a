/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_line.h - which client of the TCPStore waits, and for what, as a line of text: "10.0.0.2 (pid 77) waits for KEY".
 *
 * Relays answer questions with such lines (relay_wire.h), which users read and the launcher parses.
 */
#ifndef HVD_RENDEZVOUS_WAIT_LINE_H
#define HVD_RENDEZVOUS_WAIT_LINE_H

#include "lib/net/addr.h"
#include "slice.h"

#include <stdbool.h>
#include <stdint.h>

/* Append the line to *text, which may be NULL; pid 0: not known. `more`: for so many further keys. */
void hvd_wait_line_add(char **text, const struct hvd_addr *addr, uint32_t pid, struct hvd_slice key, size_t more);

struct hvd_wait_line {
	struct hvd_slice line;
	struct hvd_slice who; /* "10.0.0.2 (pid 77)"; empty: the line is none of these */
	struct hvd_slice key; /* with the words about further keys */
	struct hvd_addr addr;
	uint32_t pid; /* 0: not known */
};

/* Read the next line of *text, which may be NULL, and go on behind it. Empty lines are left out. False: there is none. */
bool hvd_wait_line_next(const char **text, struct hvd_wait_line *line);

#endif
