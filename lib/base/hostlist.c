/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host list expressions. An expression is checked as a whole before it becomes names, so the code after the check
 * relies on its form: brackets are closed, ranges ascend, and no name is longer than MAX_NAME.
 */
#include "hostlist.h"

#include "digits.h"
#include "size.h"
#include "xalloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME   255
#define MAX_NUMBER 999999999999999999 /* has MAX_DIGITS digits, and fits a long of 64 bits */
#define MAX_DIGITS 18

/* Read the number at *p and move *p behind it. Returns -1 when there is none up to MAX_NUMBER; raises *width to the
 * number of its digits. */
static int64_t number(const char **p, size_t *width)
{
	const char *at = *p;
	int64_t n = hvd_take_digits(p, MAX_NUMBER);
	size_t len = (size_t)(*p - at);

	*width = len > *width ? len : *width;
	return n;
}

/* Check the ranges "1-3,07]" at *p and move *p behind the bracket. Returns how many numbers they stand for, 0 when they
 * are malformed or stand for more than max. *width becomes the number of digits of the longest. */
static size_t check_ranges(const char **p, size_t max, size_t *width)
{
	size_t count = 0;

	*width = 0;
	for (;;) {
		int64_t lo = number(p, width), hi = lo;

		if (**p == '-') {
			(*p)++;
			hi = number(p, width);
		}
		if (lo < 0 || hi < lo || (uint64_t)(hi - lo) >= max - count)
			return 0;
		count += (size_t)(hi - lo) + 1;
		if (**p == ']') {
			(*p)++;
			return count;
		}
		if (*(*p)++ != ',')
			return 0;
	}
}

static bool name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
	       c == '.';
}

/* Check one element, up to a comma or the end, and move *p there. Returns how many names it stands for, 0 when it is
 * malformed, stands for more than max, or has a name that is too long. */
static size_t check_element(const char **p, size_t max)
{
	size_t count = 1, len = 0;

	while (**p && **p != ',') {
		if (**p == '[') {
			size_t width, n;

			(*p)++;
			n = check_ranges(p, max, &width);
			if (n == 0 || n > max / count)
				return 0;
			count *= n;
			len += width;
		} else if (name_char(**p)) {
			(*p)++;
			len++;
		} else {
			return 0;
		}
	}
	return len > 0 && len <= MAX_NAME && count <= max ? count : 0;
}

static int check(const char *expr, size_t max_hosts, struct hvd_err *err)
{
	size_t count = 0;

	if (max_hosts > HVD_MAX_HOSTS)
		max_hosts = HVD_MAX_HOSTS;
	for (const char *p = expr;; p++) {
		size_t n = check_element(&p, HVD_MAX_HOSTS);

		if (n == 0)
			return hvd_err_set(err, HVD_E_PROTO, "'%.200s' is not a list of hosts like 'n[1-4],gpu07'",
					   expr);
		if (n > max_hosts - count)
			return hvd_err_set(err, HVD_E_LIMIT, "'%.200s' stands for more than %zu hosts", expr,
					   max_hosts);
		count += n;
		if (*p == '\0')
			return 0;
	}
}

/* One bracket of an element, and the number that stands in its place in the next name. */
struct bracket {
	const char *ranges; /* behind the opening bracket */
	const char *end;    /* behind the closing bracket */
	const char *next;   /* behind the range that `number` is from */
	unsigned long number, hi;
	int width; /* digits of `number` at least; zeros fill it */
};

static void begin_range(struct bracket *b, const char *range)
{
	char *end;

	b->number = b->hi = strtoul(range, &end, 10);
	b->width = (int)(end - range);
	if (*end == '-')
		b->hi = strtoul(end + 1, &end, 10);
	b->next = end;
}

/* Move on to the next number. Behind the last one returns false and is at the first one again. */
static bool advance(struct bracket *b)
{
	bool in_range = b->number < b->hi, more = in_range || *b->next == ',';

	if (in_range)
		b->number++;
	else
		begin_range(b, more ? b->next + 1 : b->ranges);
	return more;
}

static void add_name(const char *element, const struct bracket *b, struct hvd_strv *names)
{
	char name[MAX_NAME + 1];
	size_t len = 0;

	for (const char *p = element; *p && *p != ',';) {
		if (*p == '[') {
			len += (size_t)snprintf(name + len, sizeof(name) - len, "%0*lu", b->width, b->number);
			p = b++->end;
		} else {
			name[len++] = *p++;
		}
	}
	name[len] = '\0';
	hvd_strv_add(names, name);
}

/* Append the names of one element; returns the comma behind it, or the end. Slurm's order: the last bracket counts
 * fastest, then the first, the second and so on, the last but one counts slowest. */
static const char *expand_element(const char *element, struct hvd_strv *names)
{
	struct bracket brackets[MAX_NAME]; /* each is at least one character of the name */
	const char *p = element;
	size_t n = 0;
	bool more;

	while (*p && *p != ',') {
		if (*p++ != '[')
			continue;
		brackets[n].ranges = p;
		p = brackets[n].end = strchr(p, ']') + 1;
		begin_range(&brackets[n], brackets[n].ranges);
		n++;
	}
	do {
		add_name(element, brackets, names);
		more = n > 0 && advance(&brackets[n - 1]);
		for (size_t i = 0; !more && i + 1 < n; i++)
			more = advance(&brackets[i]);
	} while (more);
	return p;
}

int hvd_hostlist_expand(const char *expr, size_t max_hosts, struct hvd_strv *names, struct hvd_err *err)
{
	if (check(expr, max_hosts, err) < 0)
		return -1;
	do
		expr = expand_element(expr, names);
	while (*expr++ == ',');
	return 0;
}

/* The digits at the end of a name; its end when there are none, or too many for a number. */
static const char *last_number(const char *name)
{
	const char *end = name + strlen(name), *p = end;

	while (p > name && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return end - p <= MAX_DIGITS ? p : end;
}

/* Do two names differ in their last numbers only? */
static bool same_prefix(const char *a, const char *b)
{
	const char *number_a = last_number(a), *number_b = last_number(b);

	return *number_a && *number_b && number_a - a == number_b - b && memcmp(a, b, (size_t)(number_a - a)) == 0;
}

/* Does `name` have the number that follows that of `before`, as a range would write it? */
static bool follows(const char *before, const char *name)
{
	const char *number = last_number(before);
	char next[MAX_DIGITS + 2];

	snprintf(next, sizeof(next), "%0*llu", (int)strlen(number), strtoull(number, NULL, 10) + 1);
	return strcmp(last_number(name), next) == 0;
}

/* Write names[0 … n), which differ in their last numbers only, as "n[1-3,7]". */
static void write_group(FILE *f, char *const *names, size_t n)
{
	fprintf(f, "%.*s[", (int)(last_number(names[0]) - names[0]), names[0]);
	for (size_t i = 0, last; i < n; i = last + 1) {
		for (last = i; last + 1 < n && follows(names[last], names[last + 1]);)
			last++;
		fprintf(f, "%s%s", i ? "," : "", last_number(names[i]));
		if (last > i)
			fprintf(f, "-%s", last_number(names[last]));
	}
	fputc(']', f);
}

char *hvd_hostlist_compress(char *const *names, size_t n)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0, end; f && i < n; i = end) {
		for (end = i + 1; end < n && same_prefix(names[i], names[end]);)
			end++;
		if (i)
			fputc(',', f);
		if (end - i > 1)
			write_group(f, names + i, end - i);
		else
			fputs(names[i], f);
	}
	if (f && fclose(f) == 0)
		return text;
	free(text);
	return hvd_xstrdup("");
}
