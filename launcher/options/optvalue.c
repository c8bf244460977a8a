/* SPDX-License-Identifier: Apache-2.0 */
/* optvalue.c - stores values of options, and writes them as text. */
#include "launch_spec.h"
#include "lib/base/strv.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"
#include "optable.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1 for yes, 0 for no, -1 for any other text. */
static int truth(const char *s)
{
	if (!*s || hvd_value_index("yes|true|on", s) >= 0)
		return 1;
	if (hvd_value_index("no|false|off", s) >= 0)
		return 0;
	for (const char *p = s; *p; p++)
		if (!isdigit((unsigned char)*p))
			return -1;
	return s[strspn(s, "0")] != '\0';
}

int hvd_opt_store(void *result, const struct hvd_opt *o, const char *from, const char *value, struct hvd_err *err)
{
	void *at = (char *)result + o->at;
	const char *text = value ? value : "";
	int n;

	if (!o->at)
		return 0;
	if (!value && (o->arity == HVD_ARG_REQUIRED || o->arity == HVD_ARG_TWO))
		return hvd_err_set(err, HVD_E_USAGE, "%s needs a value", from);
	if (o->read)
		return o->read(result, from, value, err);
	switch (o->type) {
	case HVD_OPT_PASS:
		return 0;
	case HVD_OPT_FLAG:
	case HVD_OPT_TRI:
		/* A flag that takes an optional value, such as --overlap=KIND, is on whatever its value is. */
		n = value && o->arity == HVD_ARG_NONE ? truth(value) : 1;
		if (n < 0)
			return hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not yes or no", from, value);
		if (o->type == HVD_OPT_FLAG)
			*(bool *)at = n;
		else
			*(int *)at = o->negate ? !n : n;
		return 0;
	case HVD_OPT_COUNT:
		if (value)
			return hvd_value_int(from, value, o->min, o->max, at, err);
		if (*(int *)at < INT_MAX)
			++*(int *)at;
		return 0;
	case HVD_OPT_INT:
		return hvd_value_int(from, text, o->min, o->max, at, err);
	case HVD_OPT_FLOAT:
		return hvd_value_number(from, text, o->min, o->max, at, err);
	case HVD_OPT_SECONDS:
		return hvd_value_seconds(from, text, o->min, o->max, at, err);
	case HVD_OPT_STRING:
		if (o->family != HVD_FAMILY_SRUN && value && hvd_value_text(from, value, err) != 0)
			return -1;
		free(*(char **)at);
		*(char **)at = hvd_xstrdup(text);
		return 0;
	case HVD_OPT_LIST:
		return hvd_value_list(from, text, at, err);
	case HVD_OPT_ENUM:
		return hvd_value_choice(from, text, o->choices, at, err);
	case HVD_OPT_WORDS:
		return hvd_value_set(from, text, o->choices, at, err);
	case HVD_OPT_SIGNAL: {
		struct hvd_signal_before *before = at;

		return hvd_value_signal_before(from, text, &before->signal, &before->seconds, err);
	}
	case HVD_OPT_SET:
		*(int *)at = o->number;
		return 0;
	}
	return 0;
}

void hvd_opt_clear(void *result, const struct hvd_opt *o)
{
	void *at = (char *)result + o->at;

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
	case HVD_OPT_WORDS:
		*(unsigned *)at = 0;
		break;
	case HVD_OPT_SIGNAL:
		*(struct hvd_signal_before *)at = (struct hvd_signal_before){.signal = -1};
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
