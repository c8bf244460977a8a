/* SPDX-License-Identifier: Apache-2.0 */
#include "preamble.h"

#include "lib/base/base64.h"
#include "lib/base/digits.h"
#include "lib/base/xalloc.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC         "exit 122\n#HVDP "
#define VERSION       "2 "
#define LENGTH_DIGITS 8

_Static_assert(sizeof(MAGIC VERSION) - 1 + LENGTH_DIGITS + 1 == HVD_PREAMBLE_HEAD, "the head has a fixed length");
_Static_assert(HVD_PREAMBLE_TO_SHELL == 122, "the first line ends a shell with this status");

/* ---- writing ---- */

static unsigned char *put_number(unsigned char *at, size_t n)
{
	uint32_t big_endian = htobe32((uint32_t)n);

	memcpy(at, &big_endian, sizeof(big_endian));
	return at + sizeof(big_endian);
}

static unsigned char *put_text(unsigned char *at, const char *text)
{
	size_t len = strlen(text);

	at = put_number(at, len);
	memcpy(at, text, len);
	return at + len;
}

static unsigned char *put_texts(unsigned char *at, const struct hvd_strv *texts)
{
	at = put_number(at, texts->n);
	for (size_t i = 0; i < texts->n; i++)
		at = put_text(at, texts->v[i]);
	return at;
}

static size_t length_of(const struct hvd_strv *texts)
{
	size_t len = 4;

	for (size_t i = 0; i < texts->n; i++)
		len += 4 + strlen(texts->v[i]);
	return len;
}

int hvd_preamble_format(const struct hvd_preamble *p, unsigned char **bytes, size_t *n, struct hvd_err *err)
{
	size_t len =
		HVD_KEY_LEN + 4 + strlen(p->boot) + 4 + strlen(p->directory) + length_of(&p->env) + length_of(&p->args);
	unsigned char *plain, *at;

	if (len > HVD_PREAMBLE_MAX || p->env.n > HVD_PREAMBLE_VARS)
		return hvd_err_set(err, HVD_E_LIMIT,
				   "environment and command are too large to be sent to other hosts (%zu variables, "
				   "%zu bytes)",
				   p->env.n, len);
	plain = at = hvd_xcalloc(len, 1);
	memcpy(at, p->key.b, HVD_KEY_LEN);
	at = put_text(at + HVD_KEY_LEN, p->boot);
	at = put_text(at, p->directory);
	at = put_texts(at, &p->env);
	put_texts(at, &p->args);
	*n = HVD_PREAMBLE_HEAD + HVD_BASE64_LENGTH(len) + 1;
	*bytes = hvd_xcalloc(*n, 1);
	snprintf((char *)*bytes, *n, MAGIC VERSION "%0*zu ", LENGTH_DIGITS, *n - HVD_PREAMBLE_HEAD);
	hvd_base64_encode(plain, len, *bytes + HVD_PREAMBLE_HEAD);
	(*bytes)[*n - 1] = '\n';
	explicit_bzero(plain, len);
	free(plain);
	return 0;
}

/* ---- reading ---- */

struct cursor {
	const unsigned char *at, *end;
};

static int take_number(struct cursor *c, size_t *n)
{
	uint32_t big_endian;

	if (c->end - c->at < (ptrdiff_t)sizeof(big_endian))
		return -1;
	memcpy(&big_endian, c->at, sizeof(big_endian));
	*n = be32toh(big_endian);
	c->at += sizeof(big_endian);
	return 0;
}

/* Take a text. The caller frees it; NULL when it is cut off or has a zero byte in it. */
static char *take_text(struct cursor *c)
{
	char *text;
	size_t len;

	if (take_number(c, &len) != 0 || len > (size_t)(c->end - c->at) || memchr(c->at, '\0', len))
		return NULL;
	text = hvd_xcalloc(len + 1, 1);
	memcpy(text, c->at, len);
	c->at += len;
	return text;
}

static int take_boot(struct cursor *c, struct hvd_preamble *p)
{
	char *boot = take_text(c);
	int rc = boot && strlen(boot) < sizeof(p->boot) ? 0 : -1;

	if (rc == 0)
		memcpy(p->boot, boot, strlen(boot) + 1);
	free(boot);
	return rc;
}

static int take_env(struct cursor *c, struct hvd_strv *env)
{
	size_t n;

	if (take_number(c, &n) != 0 || n > HVD_PREAMBLE_VARS)
		return -1;
	for (size_t i = 0; i < n; i++) {
		char *var = take_text(c);
		const char *equals = var ? strchr(var, '=') : NULL;

		if (equals && equals != var)
			hvd_strv_add(env, var);
		free(var);
		if (!equals || env->n != i + 1)
			return -1;
	}
	return 0;
}

static int take_args(struct cursor *c, struct hvd_strv *args)
{
	size_t n;

	if (take_number(c, &n) != 0)
		return -1;
	while (args->n < n) {
		char *arg = take_text(c);

		if (!arg)
			return -1;
		hvd_strv_add(args, arg);
		free(arg);
	}
	return 0;
}

int hvd_preamble_length(const unsigned char head[HVD_PREAMBLE_HEAD], size_t *n, struct hvd_err *err)
{
	const char *text = (const char *)head;
	int64_t length;

	if (memcmp(text, MAGIC, strlen(MAGIC)) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "the data on stdin is not from hvdrun");
	if (memcmp(text, MAGIC VERSION, strlen(MAGIC VERSION)) != 0) {
		hvd_err_set(err, HVD_E_PROTO, "the data on stdin is from another release of hvdrun");
		return hvd_err_hint(err, "the same release must be installed on all hosts");
	}
	length = hvd_digits(text + strlen(MAGIC VERSION), LENGTH_DIGITS, HVD_BASE64_LENGTH(HVD_PREAMBLE_MAX) + 1);
	if (length < 0)
		return hvd_err_set(err, HVD_E_LIMIT, "the data on stdin is too long");
	*n = (size_t)length;
	return 0;
}

static int take_all(struct cursor *c, struct hvd_preamble *p)
{
	if (c->end - c->at < HVD_KEY_LEN)
		return -1;
	memcpy(p->key.b, c->at, HVD_KEY_LEN);
	c->at += HVD_KEY_LEN;
	if (take_boot(c, p) != 0 || !(p->directory = take_text(c)) || (p->directory[0] && p->directory[0] != '/'))
		return -1;
	return take_env(c, &p->env) == 0 && take_args(c, &p->args) == 0 && c->at == c->end ? 0 : -1;
}

int hvd_preamble_parse(const unsigned char *bytes, size_t n, struct hvd_preamble *p, struct hvd_err *err)
{
	bool whole = n > 0 && bytes[n - 1] == '\n';
	size_t len = 0;
	unsigned char *plain = whole ? hvd_base64_decode(bytes, n - 1, &len) : NULL;
	int rc = -1;

	memset(p, 0, sizeof(*p));
	if (plain) {
		rc = take_all(&(struct cursor){plain, plain + len}, p);
		explicit_bzero(plain, len);
		free(plain);
	}
	if (rc == 0)
		return 0;
	hvd_preamble_clear(p);
	return hvd_err_set(err, HVD_E_PROTO, "the data on stdin is damaged");
}

int hvd_preamble_parse_whole(const unsigned char *bytes, size_t n, struct hvd_preamble *p, struct hvd_err *err)
{
	size_t len;

	memset(p, 0, sizeof(*p));
	if (n < HVD_PREAMBLE_HEAD || hvd_preamble_length(bytes, &len, NULL) != 0 || len != n - HVD_PREAMBLE_HEAD ||
	    hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, len, p, NULL) != 0)
		return hvd_err_set(err, HVD_E_PROTO, "the launcher sent a malformed command line");
	return 0;
}

/* Read exactly `len` bytes. */
static int read_all(int fd, unsigned char *buf, size_t len, hvd_time deadline, struct hvd_err *err)
{
	for (size_t got = 0; got < len;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		int ready = poll(&pfd, 1, hvd_left_ms(deadline));
		ssize_t n = ready > 0 ? read(fd, buf + got, len - got) : -1;

		if (ready == 0)
			return hvd_err_set(err, HVD_E_TIMEOUT, "no data arrived on stdin in time");
		if (n == 0)
			return hvd_err_set(err, HVD_E_PROTO, "stdin ended before the launch's data was complete");
		if (n > 0)
			got += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			return hvd_err_sys(err, "cannot read from stdin");
	}
	return 0;
}

int hvd_preamble_read(int fd, hvd_time deadline, struct hvd_preamble *p, struct hvd_err *err)
{
	unsigned char head[HVD_PREAMBLE_HEAD], *bytes;
	size_t n;
	int rc;

	memset(p, 0, sizeof(*p));
	if (read_all(fd, head, sizeof(head), deadline, err) != 0 || hvd_preamble_length(head, &n, err) != 0)
		return -1;
	bytes = hvd_xcalloc(n + 1, 1);
	rc = read_all(fd, bytes, n, deadline, err);
	if (rc == 0)
		rc = hvd_preamble_parse(bytes, n, p, err);
	explicit_bzero(bytes, n);
	free(bytes);
	return rc;
}

void hvd_preamble_clear(struct hvd_preamble *p)
{
	explicit_bzero(&p->key, sizeof(p->key));
	free(p->directory);
	hvd_strv_free(&p->env);
	hvd_strv_free(&p->args);
	memset(p, 0, sizeof(*p));
}
