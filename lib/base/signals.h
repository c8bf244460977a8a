/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h - the names of signals, which the C library has only since glibc 2.32 (sigabbrev_np()).
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_SIGNALS_H
#define HVD_SIGNALS_H

#include <stddef.h>

/* "TERM" for SIGTERM; NULL for a number that no signal has, and for signals without a name (real-time signals). */
const char *hvd_signal_name(int sig);

/* The number of the signal of which the first `len` bytes of `text` are the name, of either case, with or without "SIG",
 * or the number; 0 = there is none. */
int hvd_signal_number(const char *text, size_t len);

#endif
