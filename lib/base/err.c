/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include "printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONGEST sizeof(((struct hvd_err *)0)->msg)

__attribute__((format(printf, 3, 0))) static void put(char *to, size_t size, const char *fmt, va_list ap)
{
	char text[LONGEST];

	vsnprintf(text, sizeof(text), fmt, ap);
	hvd_printable(text, to, size);
}

static void begin(struct hvd_err *err, enum hvd_errc code)
{
	err->code = code;
	err->host[0] = '\0';
	err->hint[0] = '\0';
}

static int append(struct hvd_err *err, const char *text)
{
	size_t len = strlen(err->msg);

	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", text);
	return -1;
}

int hvd_err_set(struct hvd_err *err, enum hvd_errc code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -1;
	begin(err, code);
	va_start(ap, fmt);
	put(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -1;
}

int hvd_err_sys(struct hvd_err *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!err)
		return -1;
	begin(err, HVD_E_SYS);
	va_start(ap, fmt);
	put(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	append(err, strerror(saved));
	errno = saved;
	return -1;
}

int hvd_err_host(struct hvd_err *err, const char *host)
{
	if (err)
		hvd_printable(host ? host : "", err->host, sizeof(err->host));
	return -1;
}

int hvd_err_hint(struct hvd_err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	put(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	return -1;
}

int hvd_err_prefix(struct hvd_err *err, const char *fmt, ...)
{
	struct hvd_err old;
	va_list ap;

	if (!err)
		return -1;
	old = *err;
	va_start(ap, fmt);
	put(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return append(err, old.msg);
}

int hvd_err_join(struct hvd_err *err)
{
	char hint[sizeof(err->hint)];
	size_t n;

	if (!err || !err->hint[0])
		return -1;
	memcpy(hint, err->hint, sizeof(hint));
	err->hint[0] = '\0';
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, "; %s", hint);
	return -1;
}

int hvd_err_status(const struct hvd_err *err)
{
	return err && err->code == HVD_E_USAGE ? 2 : 1;
}
