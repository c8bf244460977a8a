/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that the user specifies: lists after -H, and hostfiles. */
#include "alloc.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE (16u << 20)

static int blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **text, size_t *len)
{
	while (*len > 0 && blank((*text)[0]))
		(*text)++, (*len)--;
	while (*len > 0 && blank((*text)[*len - 1]))
		(*len)--;
}

static int number(const char *text, size_t len)
{
	return (int)hvd_digits(text, len, HVD_MAX_RANKS);
}

static int printable(size_t len)
{
	return len < 80 ? (int)len : 80;
}

static int not_a_number(struct hvd_err *err, const char *text, size_t len)
{
	return hvd_err_set(err, HVD_E_USAGE, "'%.*s' is not a valid number of slots", printable(len), text);
}

int hvd_alloc_parse_host(const char *text, size_t len, int default_slots, char **name, int *slots, struct hvd_err *err)
{
	const char *colon, *host;
	size_t host_len;

	*name = NULL;
	*slots = default_slots;
	trim(&text, &len);
	if (len > 0 && text[0] == '[') {
		const char *end = memchr(text, ']', len);

		if (!end)
			return hvd_err_set(err, HVD_E_USAGE, "'%.*s': the bracket of the address is not closed",
					   printable(len), text);
		host = text + 1;
		host_len = (size_t)(end - host);
		colon = end + 1 < text + len ? end + 1 : NULL;
		if ((colon && *colon != ':') || !memchr(host, ':', host_len))
			return hvd_err_set(err, HVD_E_USAGE, "'%.*s': only an IPv6 address may be in brackets",
					   printable(len), text);
	} else {
		host = text;
		colon = memchr(text, ':', len);
		host_len = colon ? (size_t)(colon - text) : len;
		if (colon && memchr(colon + 1, ':', len - host_len - 1)) {
			hvd_err_set(err, HVD_E_USAGE, "'%.*s' has more than one colon", printable(len), text);
			return hvd_err_hint(err, "write an IPv6 address in brackets: [fd00::1]:4");
		}
	}
	if (host_len == 0)
		return hvd_err_set(err, HVD_E_USAGE, "'%.*s' names no host", printable(len), text);
	if (memchr(host, '\0', host_len))
		return hvd_err_set(err, HVD_E_USAGE, "a host name contains a zero byte");
	if (colon) {
		size_t n = len - (size_t)(colon + 1 - text);

		*slots = number(colon + 1, n);
		if (*slots < 0)
			return not_a_number(err, colon + 1, n);
	}
	*name = hvd_xstrndup(host, host_len);
	return 0;
}

static int add_range(struct hvd_alloc *out, const char *expr, int slots, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	struct hvd_err why = {0};

	if (hvd_hostlist_expand(expr, HVD_MAX_HOSTS, &names, &why) != 0) {
		hvd_err_set(err, HVD_E_USAGE, "'%.80s': %s", expr, why.msg);
		return hvd_err_hint(err, "write hosts as Slurm does, n[1-4]:8, or one by one: n1:8,n2:8");
	}
	for (size_t i = 0; i < names.n; i++)
		if (hvd_alloc_add(out, names.v[i], slots, err) < 0)
			return -1;
	return 0;
}

static int add(struct hvd_alloc *out, const char *name, int slots, struct hvd_err *err)
{
	if (slots == 0)
		return hvd_err_set(err, HVD_E_USAGE, "%.80s has no slots", name);
	/* An address has lost its brackets by now, so these are Slurm's: n[1-4]. */
	return strchr(name, '[') ? add_range(out, name, slots, err) : hvd_alloc_add(out, name, slots, err);
}

/* The length of the list's next element: up to a comma that is not within brackets. */
static size_t element(const char *text)
{
	size_t n = 0;

	for (bool within = false; text[n] && (within || text[n] != ','); n++)
		within = text[n] == '[' || (within && text[n] != ']');
	return n;
}

int hvd_alloc_from_hosts(struct hvd_alloc *out, const char *text, int default_slots, struct hvd_err *err)
{
	if (default_slots < 1)
		default_slots = 1;
	memset(out, 0, sizeof(*out));
	for (;;) {
		size_t len = element(text);
		hvd_cleanup_free char *name = NULL;
		int slots;

		if (hvd_alloc_parse_host(text, len, default_slots, &name, &slots, err) < 0 ||
		    add(out, name, slots, err) < 0) {
			hvd_err_prefix(err, "list of hosts");
			hvd_alloc_clear(out);
			return -1;
		}
		if (text[len] == '\0')
			break;
		text += len + 1;
	}
	hvd_alloc_merge(out);
	snprintf(out->source, sizeof(out->source), "list of hosts");
	return 0;
}

/* Read one "key = value" at *p, behind the host, and move *p behind it. */
static int key_value(const char **p, const char *end, int *slots, struct hvd_err *err)
{
	const char *key = *p, *value;
	size_t key_len = 0, value_len = 0;
	int n;

	while (key + key_len < end && !blank(key[key_len]) && key[key_len] != '=')
		key_len++;
	value = key + key_len;
	while (value < end && blank(*value))
		value++;
	if (value == end || *value != '=')
		return hvd_err_set(err, HVD_E_USAGE, "'%.*s' is not understood", printable((size_t)(end - key)), key);
	value++;
	while (value < end && blank(*value))
		value++;
	while (value + value_len < end && !blank(value[value_len]))
		value_len++;
	*p = value + value_len;
	n = number(value, value_len);
	if (n < 0)
		return not_a_number(err, value, value_len);
	if (key_len == 5 && memcmp(key, "slots", 5) == 0)
		*slots = n;
	else if (key_len != 9 || (memcmp(key, "max_slots", 9) != 0 && memcmp(key, "max-slots", 9) != 0))
		return hvd_err_set(err, HVD_E_USAGE, "'%.*s' is not understood", printable(key_len), key);
	return 0;
}

static int parse_line(struct hvd_alloc *out, const char *line, size_t len, int default_slots, struct hvd_err *err)
{
	const char *comment = memchr(line, '#', len), *p, *end;
	hvd_cleanup_free char *name = NULL;
	size_t word = 0;
	int slots;

	if (comment)
		len = (size_t)(comment - line);
	trim(&line, &len);
	if (len == 0)
		return 0;
	while (word < len && !blank(line[word]))
		word++;
	if (hvd_alloc_parse_host(line, word, default_slots, &name, &slots, err) < 0)
		return -1;
	p = line + word;
	end = line + len;
	for (;;) {
		while (p < end && blank(*p))
			p++;
		if (p == end)
			return add(out, name, slots, err);
		if (key_value(&p, end, &slots, err) < 0)
			return -1;
	}
}

int hvd_alloc_parse_hostfile(struct hvd_alloc *out, const char *text, size_t len, const char *path, int default_slots,
			     struct hvd_err *err)
{
	int line = 1;

	if (default_slots < 1)
		default_slots = 1;
	memset(out, 0, sizeof(*out));
	for (; len > 0; line++) {
		const char *eol = memchr(text, '\n', len);
		size_t n = eol ? (size_t)(eol - text) : len;

		if (parse_line(out, text, n, default_slots, err) < 0) {
			hvd_err_prefix(err, "%s, line %d", path, line);
			if (err && !err->hint[0])
				hvd_err_hint(err, "a line of a hostfile is HOST slots=NUMBER, or HOST:NUMBER");
			hvd_alloc_clear(out);
			return -1;
		}
		n += eol ? 1 : 0;
		text += n;
		len -= n;
	}
	if (out->n_hosts == 0)
		return hvd_err_set(err, HVD_E_USAGE, "%s names no host", path);
	hvd_alloc_merge(out);
	snprintf(out->source, sizeof(out->source), "%s", path);
	return 0;
}

int hvd_alloc_from_hostfile(struct hvd_alloc *out, const char *path, int default_slots, struct hvd_err *err)
{
	struct hvd_err why = {0};
	size_t len;
	hvd_cleanup_free char *text = hvd_read_file(path, MAX_FILE, "the hostfile", &len, &why);

	memset(out, 0, sizeof(*out));
	if (!text) {
		if (why.code == HVD_E_SYS)
			why.code = HVD_E_USAGE;
		if (err)
			*err = why;
		return -1;
	}
	return hvd_alloc_parse_hostfile(out, text, len, path, default_slots, err);
}
