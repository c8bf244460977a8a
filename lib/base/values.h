/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - checks and reads the values that users write for options, so that hvdrun, its configuration files and
 * variables, and the SPANK plugin accept and refuse the same values.
 *
 * `from` names the option, variable or setting in messages, as in "option --nics". A function returns 0, or -1 with err
 * set (HVD_E_USAGE) and its result unchanged.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_VALUES_H
#define HVD_VALUES_H

#include "err.h"
#include "strv.h"

#include <stdbool.h>

/* A decimal number from `min` to `max`; max 0 means no upper bound. Refuses the hexadecimal numbers, inf and nan that
 * strtod(3) accepts. */
int hvd_value_number(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err);
/* A whole decimal number with the same bounds, which fits into an int. */
int hvd_value_int(const char *from, const char *text, double min, double max, int *out, struct hvd_err *err);
/* A time with the unit s (also when there is none), m or h, in seconds; bounds as above. */
int hvd_value_seconds(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err);
/* One of the words in `choices`, "a|b|c", of either case; *out is its index. */
int hvd_value_choice(const char *from, const char *text, const char *choices, int *out, struct hvd_err *err);
/* Names with commas between them, none of them empty. Adds the names that `list` lacks. */
int hvd_value_list(const char *from, const char *text, struct hvd_strv *list, struct hvd_err *err);
/* Any text but the empty one. */
int hvd_value_text(const char *from, const char *text, struct hvd_err *err);
/* Words out of `choices`, "a|b|c", of either case, with commas between them, or "none": bit N of *out is the word with
 * index N. */
int hvd_value_set(const char *from, const char *text, const char *choices, unsigned *out, struct hvd_err *err);
/* SIGNAL@SECONDS, as in USR1@300 or SIGTERM@5m: a signal's name or number, and how long before an event it is sent, at
 * least a second. */
int hvd_value_signal_before(const char *from, const char *text, int *sig, double *seconds, struct hvd_err *err);

/* Read a whole decimal number, which must be all of `text`. */
bool hvd_value_whole(const char *text, long long *out);
/* The index of `text`, of either case, in "a|b|c"; -1 when it is none of these. */
int hvd_value_index(const char *choices, const char *text);

#endif
