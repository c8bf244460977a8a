/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind_line.h - the line that PyTorch writes to standard error when rank 0 finds the store of the launch at MASTER_PORT
 * and becomes its client (lib/frameworks/emit.c):
 *
 *   [E1127 07:34:54.915245053 TCPStore.cpp:280] [c10d] The server socket on 23457 has failed to bind.
 *   TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.
 *
 * It is no error, and PyTorch has no setting that suppresses it alone. So it is left out of what is passed on.
 */
#ifndef HVD_BIND_LINE_H
#define HVD_BIND_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of such a line with its end, at most. */
#define HVD_BIND_LINE_MAX 256

/* Find the first such line, from its first byte to its line end, in what a process has written. A line that begins
 * before `bytes` or ends behind them is not found. */
bool hvd_bind_line_find(const char *bytes, size_t len, size_t *at, size_t *n);

#endif
