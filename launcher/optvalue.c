/* SPDX-License-Identifier: Apache-2.0 */
/* optvalue.c - values of options: from text to the result, and back. */
#include "optable.h"
#include "strv.h"
#include "xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *place(void *result, const struct hvd_opt *o)
{
	return (char *)result + o->at;
}

bool hvd_opt_int(const char *s, long long *out)
{
	char *end;
	long long n;

	if (!isdigit((unsigned char)*s) && *s != '-' && *s != '+')
		return false;
	errno = 0;
	n = strtoll(s, &end, 10);
	if (errno || end == s || *end)
		return false;
	*out = n;
	return true;
}

int hvd_opt_choice(const char *choices, const char *s)
{
	size_t len = strlen(s);

	for (int i = 0;; i++) {
		size_t n = strcspn(choices, "|");

		if (n == len && strncasecmp(choices, s, n) == 0)
			return i;
		if (!choices[n])
			return -1;
		choices += n + 1;
	}
}

/* Decimal, without the inf, nan and hexadecimal numbers of strtod(3). */
static bool number(const char *s, double *out, const char **rest)
{
	const char *p = s + (*s == '-' || *s == '+');
	char *end;

	if (!isdigit((unsigned char)*p) && *p != '.')
		return false;
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		return false;
	errno = 0;
	*out = strtod(s, &end);
	if (end == s || !isfinite(*out))
		return false;
	*rest = end;
	return true;
}

static bool seconds(const char *s, double *out)
{
	const char *unit;

	if (!number(s, out, &unit))
		return false;
	if (strcmp(unit, "m") == 0)
		*out *= 60;
	else if (strcmp(unit, "h") == 0)
		*out *= 3600;
	else if (*unit && strcmp(unit, "s") != 0)
		return false;
	return isfinite(*out);
}

/* -1 = none of the words for yes and no */
static int truth(const char *s)
{
	if (!*s || hvd_opt_choice("yes|true|on", s) >= 0)
		return 1;
	if (hvd_opt_choice("no|false|off", s) >= 0)
		return 0;
	for (const char *p = s; *p; p++)
		if (!isdigit((unsigned char)*p))
			return -1;
	return s[strspn(s, "0")] != '\0';
}

static int bad(struct hvd_err *err, const char *from, const char *value, const char *what)
{
	return hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not %s", from, value, what);
}

/* Says the bounds in words; `n` is the value as written. */
static int outside(struct hvd_err *err, const struct hvd_opt *o, const char *from, const char *value)
{
	hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is out of range", from, value);
	if (o->max > 0)
		return hvd_err_hint(err, "it must be a number from %g to %g", o->min, o->max);
	return hvd_err_hint(err, "it must be a number of at least %g", o->min);
}

static int store_int(int *at, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err)
{
	long long n;

	if (!hvd_opt_int(value, &n))
		return bad(err, from, value, "a whole number");
	if ((double)n < o->min || n > INT_MAX || (o->max > 0 && (double)n > o->max))
		return outside(err, o, from, value);
	*at = (int)n;
	return 0;
}

static int store_float(double *at, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err)
{
	const char *rest = "";
	double d;

	if (o->type == HVD_OPT_SECONDS) {
		if (!seconds(value, &d)) {
			bad(err, from, value, "a number of seconds");
			return hvd_err_hint(err, "for example 30, 1.5 or 2m");
		}
	} else if (!number(value, &d, &rest) || *rest) {
		return bad(err, from, value, "a number");
	}
	if (d < o->min || (o->max > 0 && d > o->max))
		return outside(err, o, from, value);
	*at = d;
	return 0;
}

static int store_list(struct hvd_strv *at, const char *from, const char *value, struct hvd_err *err)
{
	size_t len = strlen(value);

	/* All or nothing: "a,,b" must not leave "a" behind. */
	if (!len || value[0] == ',' || value[len - 1] == ',' || strstr(value, ",,")) {
		bad(err, from, value, "a list");
		return hvd_err_hint(err, "write names with commas between them, none of them empty");
	}
	for (const char *s = value;;) {
		size_t n = strcspn(s, ",");
		char *item = hvd_xstrndup(s, n);
		bool there = false;

		for (size_t i = 0; i < at->n && !there; i++)
			there = strcmp(at->v[i], item) == 0;
		if (!there)
			hvd_strv_add(at, item);
		free(item);
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

int hvd_opt_store(void *result, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err)
{
	void *at = place(result, o);
	int n;

	if (!o->at)
		return 0;
	if (!value && (o->arity == HVD_ARG_REQUIRED || o->arity == HVD_ARG_TWO))
		return hvd_err_set(err, HVD_E_USAGE, "%s needs a value", from);
	if (o->read)
		return o->read(result, o, value, err);
	switch (o->type) {
	case HVD_OPT_PASS:
		return 0;
	case HVD_OPT_FLAG:
	case HVD_OPT_TRI:
		/* --overlap=KIND and the like are flags that were given. */
		n = value && o->arity == HVD_ARG_NONE ? truth(value) : 1;
		if (n < 0) {
			bad(err, from, value, "yes or no");
			return -1;
		}
		if (o->type == HVD_OPT_FLAG)
			*(bool *)at = n;
		else
			*(int *)at = o->negate ? !n : n;
		return 0;
	case HVD_OPT_COUNT:
		if (value)
			return store_int(at, o, from, value, err);
		if (*(int *)at < INT_MAX)
			++*(int *)at;
		return 0;
	case HVD_OPT_INT:
		return store_int(at, o, from, value ? value : "", err);
	case HVD_OPT_FLOAT:
	case HVD_OPT_SECONDS:
		return store_float(at, o, from, value ? value : "", err);
	case HVD_OPT_STRING:
		if (o->family != HVD_FAMILY_SRUN && value && !*value) {
			hvd_err_set(err, HVD_E_USAGE, "%s: the value is empty", from);
			return hvd_err_hint(err, "leave the option out, or give it a value");
		}
		free(*(char **)at);
		*(char **)at = hvd_xstrdup(value ? value : "");
		return 0;
	case HVD_OPT_LIST:
		return store_list(at, from, value ? value : "", err);
	case HVD_OPT_ENUM:
		n = hvd_opt_choice(o->choices, value ? value : "");
		if (n < 0) {
			hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not known", from, value ? value : "");
			return hvd_err_hint(err, "it is one of %s", o->choices);
		}
		*(int *)at = n;
		return 0;
	case HVD_OPT_SET:
		*(int *)at = o->number;
		return 0;
	}
	return 0;
}

void hvd_opt_clear(void *result, const struct hvd_opt *o)
{
	void *at = place(result, o);

	if (!o->at)
		return;
	switch (o->type) {
	case HVD_OPT_PASS:
		break;
	case HVD_OPT_FLAG:
		*(bool *)at = false;
		break;
	case HVD_OPT_COUNT:
	case HVD_OPT_SET:
		*(int *)at = 0;
		break;
	case HVD_OPT_TRI:
	case HVD_OPT_INT:
	case HVD_OPT_ENUM:
		*(int *)at = -1;
		break;
	case HVD_OPT_FLOAT:
	case HVD_OPT_SECONDS:
		*(double *)at = -1;
		break;
	case HVD_OPT_STRING:
		free(*(char **)at);
		*(char **)at = NULL;
		break;
	case HVD_OPT_LIST:
		hvd_strv_free(at);
		break;
	}
}

char *hvd_opt_text(const void *result, const struct hvd_opt *o)
{
	const void *at = (const char *)result + o->at;
	int n;

	switch (o->type) {
	case HVD_OPT_FLAG:
		n = *(const bool *)at;
		if (!n)
			return NULL;
		break;
	case HVD_OPT_TRI:
	case HVD_OPT_INT:
		n = *(const int *)at;
		if (n < 0)
			return NULL;
		break;
	case HVD_OPT_ENUM: {
		const char *s = o->choices;

		n = *(const int *)at;
		if (n < 0)
			return NULL;
		while (n-- > 0)
			s += strcspn(s, "|") + 1;
		return hvd_xstrndup(s, strcspn(s, "|"));
	}
	case HVD_OPT_FLOAT:
	case HVD_OPT_SECONDS: {
		double d = *(const double *)at;

		return d < 0 ? NULL : hvd_xasprintf("%.15g", d);
	}
	case HVD_OPT_STRING: {
		const char *s = *(char *const *)at;

		return s ? hvd_xstrdup(s) : NULL;
	}
	default:
		return NULL;
	}
	switch (o->transform) {
	case HVD_AS_MIB:
		return hvd_xasprintf("%lld", n * 1048576LL);
	case HVD_AS_BOOL:
		return hvd_xstrdup(n ? "1" : "0");
	case HVD_AS_COMPLEMENT:
		return hvd_xstrdup(n ? "0" : "1");
	case HVD_AS_IS:
		break;
	}
	return hvd_xasprintf("%d", n);
}
