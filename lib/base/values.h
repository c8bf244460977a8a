/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - what users write as values of options: read, and refused, in one way by hvdrun, its files and variables,
 * and the SPANK plugin.
 *
 * `from` names the option, variable or setting in messages: "option --nics". Each function returns 0, or -1 with err
 * set (HVD_E_USAGE) and its result as it was.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_VALUES_H
#define HVD_VALUES_H

#include "err.h"
#include "strv.h"

/* Of options that the plugin has, too. */
#define HVD_VALUES_RENDEZVOUS    "auto|launch|batch"
#define HVD_VALUES_LEAST_TIMEOUT 0.001

/* A decimal number, without the inf, nan and hexadecimal numbers of strtod(3); `max` 0 = no bound. */
int hvd_value_number(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err);
/* The same with an optional unit s, m or h; in seconds. */
int hvd_value_seconds(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err);
/* One of "a|b|c", in whatever case; *out is its index. */
int hvd_value_choice(const char *from, const char *text, const char *choices, int *out, struct hvd_err *err);
/* Names with commas between them, none empty. Those that the list has not are added. */
int hvd_value_list(const char *from, const char *text, struct hvd_strv *list, struct hvd_err *err);
/* Any text but an empty one. */
int hvd_value_text(const char *from, const char *text, struct hvd_err *err);
/* -1 with err set: it is outside of the bounds that follow. */
int hvd_value_outside(const char *from, const char *text, double min, double max, struct hvd_err *err);

/* The index of `text` in "a|b|c", -1 when it is none of these. */
int hvd_value_index(const char *choices, const char *text);

#endif
