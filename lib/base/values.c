/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include "cleanup.h"
#include "signals.h"
#include "xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int bad(struct hvd_err *err, const char *from, const char *text, const char *what)
{
	return hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not %s", from, text, what);
}

int hvd_value_index(const char *choices, const char *text)
{
	size_t len = strlen(text);

	for (int i = 0;; i++) {
		size_t n = strcspn(choices, "|");

		if (n == len && strncasecmp(choices, text, n) == 0)
			return i;
		if (!choices[n])
			return -1;
		choices += n + 1;
	}
}

int hvd_value_choice(const char *from, const char *text, const char *choices, int *out, struct hvd_err *err)
{
	int n = hvd_value_index(choices, text);

	if (n < 0) {
		hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not known", from, text);
		return hvd_err_hint(err, "it is one of %s", choices);
	}
	*out = n;
	return 0;
}

/* Read a number. Returns what follows it; NULL when there is none. */
static const char *number(const char *text, double *out)
{
	const char *p = text + (*text == '-' || *text == '+');
	char *end;

	if (!isdigit((unsigned char)*p) && *p != '.')
		return NULL;
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		return NULL;
	errno = 0;
	*out = strtod(text, &end);
	return end == text || !isfinite(*out) ? NULL : end;
}

static int outside(const char *from, const char *text, double min, double max, struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is out of range", from, text);
	if (max > 0)
		return hvd_err_hint(err, "it must be a number from %.10g to %.10g", min, max);
	return hvd_err_hint(err, "it must be a number of at least %g", min);
}

static int within(const char *from, const char *text, double n, double min, double max, double *out,
		  struct hvd_err *err)
{
	if (n < min || (max > 0 && n > max))
		return outside(from, text, min, max, err);
	*out = n;
	return 0;
}

int hvd_value_number(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err)
{
	const char *rest;
	double n;

	rest = number(text, &n);
	if (!rest || *rest)
		return bad(err, from, text, "a number");
	return within(from, text, n, min, max, out, err);
}

bool hvd_value_whole(const char *text, long long *out)
{
	char *end;
	long long n;

	if (!isdigit((unsigned char)*text) && *text != '-' && *text != '+')
		return false;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || end == text || *end)
		return false;
	*out = n;
	return true;
}

int hvd_value_int(const char *from, const char *text, double min, double max, int *out, struct hvd_err *err)
{
	long long n;

	if (!hvd_value_whole(text, &n))
		return bad(err, from, text, "a whole number");
	if ((double)n < min || n > INT_MAX || (max > 0 && (double)n > max))
		return outside(from, text, min, max, err);
	*out = (int)n;
	return 0;
}

int hvd_value_seconds(const char *from, const char *text, double min, double max, double *out, struct hvd_err *err)
{
	const char *unit;
	double n;

	unit = number(text, &n);
	if (unit && strcmp(unit, "m") == 0)
		n *= 60;
	else if (unit && strcmp(unit, "h") == 0)
		n *= 3600;
	else if (!unit || (*unit && strcmp(unit, "s") != 0))
		unit = NULL;
	if (!unit || !isfinite(n)) {
		bad(err, from, text, "a number of seconds");
		return hvd_err_hint(err, "for example 30, 1.5 or 2m");
	}
	return within(from, text, n, min, max, out, err);
}

int hvd_value_list(const char *from, const char *text, struct hvd_strv *list, struct hvd_err *err)
{
	size_t len = strlen(text);

	/* Checked first, for after an error the list is as it was: "a,,b" must not add "a". */
	if (!len || text[0] == ',' || text[len - 1] == ',' || strstr(text, ",,")) {
		bad(err, from, text, "a list");
		return hvd_err_hint(err, "separate the names by single commas");
	}
	for (const char *s = text;;) {
		size_t n = strcspn(s, ",");
		hvd_cleanup_free char *item = hvd_xstrndup(s, n);

		if (!hvd_strv_has(list, item))
			hvd_strv_add(list, item);
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

int hvd_value_set(const char *from, const char *text, const char *choices, unsigned *out, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv list = {0};
	unsigned set = 0;

	if (hvd_value_list(from, text, &list, err) != 0)
		return -1;
	for (size_t i = 0; i < list.n; i++) {
		int n = hvd_value_index(choices, list.v[i]);

		if (n < 0 && list.n == 1 && strcasecmp(list.v[0], "none") == 0)
			break;
		if (n < 0) {
			hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not known", from, list.v[i]);
			return hvd_err_hint(err, "write none, or some of %s, separated by commas", choices);
		}
		set |= 1U << n;
	}
	*out = set;
	return 0;
}

int hvd_value_signal_before(const char *from, const char *text, int *sig, double *seconds, struct hvd_err *err)
{
	const char *at = strchr(text, '@');
	int n = at ? hvd_signal_number(text, (size_t)(at - text)) : 0;

	if (n == 0 && at > text) {
		hvd_err_set(err, HVD_E_USAGE, "%s: \"%.*s\" is no signal", from, (int)(at - text < 60 ? at - text : 60),
			    text);
		return hvd_err_hint(err, "kill -l lists them; for example USR1@300 or SIGTERM@5m");
	}
	if (n == 0) {
		bad(err, from, text, "a signal and a time");
		return hvd_err_hint(err, "for example USR1@300 or SIGTERM@5m");
	}
	if (hvd_value_seconds(from, at + 1, 1, 0, seconds, err) != 0)
		return -1;
	*sig = n;
	return 0;
}

int hvd_value_text(const char *from, const char *text, struct hvd_err *err)
{
	if (*text)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "%s: the value is empty", from);
	return hvd_err_hint(err, "leave the option out, or give it a value");
}
