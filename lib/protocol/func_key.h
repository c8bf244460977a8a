/* SPDX-License-Identifier: Apache-2.0 */
/*
 * func_key.h - proves that a function, a result or an error of hvdrun --run-func belongs to this launch.
 *
 * Functions and results pass through the rendezvous as pickles. Any process on a host of the job can write to the
 * rendezvous, and Python executes what a pickle contains. So each value begins with a MAC:
 *
 *     64 hexadecimal digits in lower case: HMAC-SHA256(key, kind, number, data) | data
 *
 * kind is "func", "result" or "error"; number is the rank in decimal digits, and empty for the function. Each of the
 * three pieces is signed with its length in front (hvd_hmac()), so that no value can stand for another kind or rank.
 * The key is derived from the launch's session key (auth.h), which only processes of the launch get. A rank reads it,
 * 32 bytes, from the descriptor whose number is in HVD_FUNC_KEY_ENV: it is in no environment and on no command line.
 */
#ifndef HVD_FUNC_KEY_H
#define HVD_FUNC_KEY_H

#include "auth.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_FUNC_KEY_ENV "HVD_RUN_FUNC_KEY_FD"
#define HVD_FUNC_MAC_LEN (2 * HVD_MAC_LEN) /* digits in front of the data */

struct hvd_key hvd_func_key(const struct hvd_key *session_key);

/* Write the digits that stand in front of the `n` bytes of data; no zero byte follows them. */
void hvd_func_sign(const struct hvd_key *key, const char *kind, const char *number, const void *data, size_t n,
		   char mac[HVD_FUNC_MAC_LEN]);

/* Does the value, `n` bytes that begin with the MAC, belong to this launch, kind and number? Untrusted input is
 * fine. */
bool hvd_func_signed(const struct hvd_key *key, const char *kind, const char *number, const void *value, size_t n);

#endif
