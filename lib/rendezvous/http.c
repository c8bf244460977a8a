/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_token(unsigned char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool slice_is(struct hvd_slice s, const char *lower)
{
	return s.n == strlen(lower) && strncasecmp(s.p, lower, s.n) == 0;
}

static struct hvd_slice trim(struct hvd_slice s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* The next line at *pos, without its line end. The head is complete, so there is one. */
static struct hvd_slice next_line(const char *buf, size_t len, size_t *pos)
{
	struct hvd_slice line = {buf + *pos, 0};
	const char *nl = memchr(line.p, '\n', len - *pos);

	line.n = (size_t)(nl - line.p);
	*pos += line.n + 1;
	if (line.n > 0 && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

static enum hvd_http_method method_of(struct hvd_slice s)
{
	static const struct {
		const char *name;
		enum hvd_http_method method;
	} known[] = {
		{"GET", HVD_HTTP_GET}, {"PUT", HVD_HTTP_PUT}, {"DELETE", HVD_HTTP_DELETE}, {"HEAD", HVD_HTTP_HEAD}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (s.n == strlen(known[i].name) && memcmp(s.p, known[i].name, s.n) == 0)
			return known[i].method;
	return HVD_HTTP_OTHER;
}

/* Remove "http://authority" from a target in absolute form. */
static struct hvd_slice strip_authority(struct hvd_slice t)
{
	static const char scheme[] = "http://";
	const size_t n = sizeof(scheme) - 1;
	const char *slash;

	if (t.n < n || strncasecmp(t.p, scheme, n) != 0)
		return t;
	slash = memchr(t.p + n, '/', t.n - n);
	if (!slash)
		return t;
	return (struct hvd_slice){slash, t.n - (size_t)(slash - t.p)};
}

/* METHOD SP target SP HTTP/1.x. Returns 0, or the status of the refusal. */
static int parse_request_line(struct hvd_slice line, struct hvd_http_req *req)
{
	struct hvd_slice method = {line.p, 0}, version;
	const char *sp;

	while (method.n < line.n && is_token((unsigned char)line.p[method.n]))
		method.n++;
	if (method.n == 0 || method.n == line.n || line.p[method.n] != ' ')
		return 400;
	req->target.p = method.p + method.n + 1;
	sp = memchr(req->target.p, ' ', line.n - method.n - 1);
	if (!sp)
		return 400;
	req->target.n = (size_t)(sp - req->target.p);
	for (size_t i = 0; i < req->target.n; i++) {
		unsigned char c = (unsigned char)req->target.p[i];

		if (c <= ' ' || c == 0x7f)
			return 400;
	}
	version.p = sp + 1;
	version.n = line.n - (size_t)(version.p - line.p);
	if (version.n != 8 || memcmp(version.p, "HTTP/", 5) != 0 || version.p[6] != '.')
		return 400;
	if (version.p[5] != '1' || version.p[7] < '0' || version.p[7] > '9')
		return 505;
	req->http10 = version.p[7] == '0';
	req->keep_alive = !req->http10;
	req->method = method_of(method);
	req->target = strip_authority(req->target);
	return 0;
}

static int parse_length(struct hvd_slice v, struct hvd_http_req *req)
{
	uint64_t n = 0;

	if (v.n == 0)
		return 400;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return 400;
		if (n > (UINT64_MAX - 9) / 10)
			return 413;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	if (req->has_length && req->length != n)
		return 400;
	req->has_length = true;
	req->length = n;
	return 0;
}

static void parse_connection(struct hvd_slice v, struct hvd_http_req *req)
{
	req->has_connection = true;
	while (v.n > 0) {
		const char *comma = memchr(v.p, ',', v.n);
		struct hvd_slice word = {v.p, comma ? (size_t)(comma - v.p) : v.n};
		size_t used = word.n + (comma ? 1 : 0);

		word = trim(word);
		if (slice_is(word, "close"))
			req->keep_alive = false;
		else if (slice_is(word, "keep-alive") && req->http10)
			req->keep_alive = true;
		v.p += used;
		v.n -= used;
	}
}

static int parse_header(struct hvd_slice line, struct hvd_http_req *req)
{
	struct hvd_slice name = {line.p, 0}, value;

	while (name.n < line.n && is_token((unsigned char)line.p[name.n]))
		name.n++;
	if (name.n == 0 || name.n == line.n || line.p[name.n] != ':')
		return 400; /* a folded line ends up here as well */
	value.p = name.p + name.n + 1;
	value.n = line.n - name.n - 1;
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return 400;
	}
	value = trim(value);
	if (slice_is(name, "content-length"))
		return parse_length(value, req);
	if (slice_is(name, "transfer-encoding"))
		return slice_is(value, "identity") ? 0 : 501;
	if (slice_is(name, "connection")) {
		parse_connection(value, req);
	} else if (slice_is(name, "accept")) {
		req->accept = value;
	} else if (slice_is(name, "authorization")) {
		req->authorization = value;
	} else if (slice_is(name, "expect")) {
		if (!slice_is(value, "100-continue"))
			return 417;
		req->expects_continue = true;
	}
	return 0;
}

/* The offset behind the empty line that ends the head; 0 when it is not there yet. */
static size_t find_end(const char *buf, size_t len, size_t *scanned)
{
	size_t pos = *scanned;

	while (pos < len) {
		const char *nl = memchr(buf + pos, '\n', len - pos);

		if (!nl)
			break;
		pos = (size_t)(nl - buf);
		if (pos + 1 < len && buf[pos + 1] == '\n')
			return pos + 2;
		if (pos + 2 < len && buf[pos + 1] == '\r' && buf[pos + 2] == '\n')
			return pos + 3;
		if (pos + 2 >= len) { /* what follows has not arrived: scan from this newline again */
			*scanned = pos;
			return 0;
		}
		pos++;
	}
	*scanned = len;
	return 0;
}

/* Skip empty lines before a request: some clients send one after a body. */
static size_t skip_empty(const char *buf, size_t len)
{
	size_t pos = 0;

	while (pos < len && (buf[pos] == '\n' || (buf[pos] == '\r' && pos + 1 < len && buf[pos + 1] == '\n')))
		pos += buf[pos] == '\n' ? 1 : 2;
	return pos;
}

enum hvd_http_result hvd_http_parse(const char *buf, size_t len, size_t head_max, size_t *scanned,
				    struct hvd_http_req *req, int *status)
{
	size_t start = skip_empty(buf, len < head_max ? len : head_max), end, pos;

	memset(req, 0, sizeof(*req));
	if (start >= head_max) {
		*status = 431;
		return HVD_HTTP_BAD;
	}
	if (start == len || (buf[start] == '\r' && start + 1 == len))
		return HVD_HTTP_MORE;
	/* TLS and other protocols differ in the first byte, and would never send an empty line. */
	if (!is_token((unsigned char)buf[start])) {
		*status = 400;
		return HVD_HTTP_BAD;
	}
	if (*scanned < start)
		*scanned = start;
	end = find_end(buf, len < head_max ? len : head_max, scanned);
	if (end == 0) {
		*status = 431;
		return len >= head_max ? HVD_HTTP_BAD : HVD_HTTP_MORE;
	}
	pos = start;
	*status = parse_request_line(next_line(buf, end, &pos), req);
	while (*status == 0 && pos < end) {
		struct hvd_slice line = next_line(buf, end, &pos);

		if (line.n == 0)
			break;
		*status = parse_header(line, req);
	}
	if (*status != 0)
		return HVD_HTTP_BAD;
	req->head_len = end;
	return HVD_HTTP_DONE;
}

int hvd_http_split(struct hvd_slice target, struct hvd_slice *scope, struct hvd_slice *key)
{
	const char *slash;

	if (target.n < 1 || target.p[0] != '/')
		return -1;
	target.p++;
	target.n--;
	slash = memchr(target.p, '/', target.n);
	if (!slash)
		return -1;
	*scope = (struct hvd_slice){target.p, (size_t)(slash - target.p)};
	*key = (struct hvd_slice){slash + 1, target.n - scope->n - 1};
	if (scope->n == 0 || key->n == 0 || memchr(key->p, '/', key->n))
		return -1;
	return 0;
}

const char *hvd_http_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{200, "OK"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{411, "Length Required"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{417, "Expectation Failed"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "";
}

size_t hvd_http_head(char out[HVD_HTTP_HEAD_ROOM], int status, uint64_t length, enum hvd_http_after after)
{
	static const char *const headers[] = {
		[HVD_HTTP_AFTER_KEEP] = "",
		[HVD_HTTP_AFTER_KEEP_10] = "Connection: keep-alive\r\n",
		[HVD_HTTP_AFTER_CLOSE] = "Connection: close\r\n",
	};

	return (size_t)snprintf(out, HVD_HTTP_HEAD_ROOM, "HTTP/1.1 %d %s\r\nContent-Length: %" PRIu64 "\r\n%s\r\n",
				status, hvd_http_reason(status), length, headers[after]);
}
