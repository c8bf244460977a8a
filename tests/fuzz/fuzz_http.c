/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feed the parser of request heads in pieces: what it says must not depend on how the bytes were cut, and it must
 * not read a byte that it was not given. The first four bytes of the input choose the cuts.
 */
#include "fuzz.h"
#include "lib/rendezvous/http.h"

#define HEAD_MAX 512

static void same_slice(struct hvd_slice a, const char *a_buf, struct hvd_slice b, const char *b_buf)
{
	must(a.n == b.n && (a.n == 0 || a.p - a_buf == b.p - b_buf));
}

static void slice_within(struct hvd_slice s, const struct hvd_http_req *req, const char *buf)
{
	must(s.n == 0 || (s.p >= buf && s.p + s.n <= buf + req->head_len));
}

static void same(const struct hvd_http_req *a, const char *a_buf, const struct hvd_http_req *b, const char *b_buf)
{
	must(a->method == b->method && a->head_len == b->head_len && a->length == b->length);
	must(a->has_length == b->has_length && a->keep_alive == b->keep_alive && a->http10 == b->http10);
	must(a->has_connection == b->has_connection && a->expects_continue == b->expects_continue);
	must(a->target.n == b->target.n && a->target.p - a_buf == b->target.p - b_buf);
	same_slice(a->accept, a_buf, b->accept, b_buf);
	same_slice(a->authorization, a_buf, b->authorization, b_buf);
}

/* What the parser hands out lies within what it was given. */
static void within(const struct hvd_http_req *req, const char *buf, size_t len)
{
	struct hvd_slice scope, key;

	must(req->head_len > 0 && req->head_len <= len && req->head_len <= HEAD_MAX);
	must(req->target.p >= buf && req->target.p + req->target.n <= buf + req->head_len);
	slice_within(req->accept, req, buf);
	slice_within(req->authorization, req, buf);
	if (hvd_http_split(req->target, &scope, &key) == 0) {
		must(scope.n > 0 && key.n > 0);
		must(scope.p > req->target.p && key.p + key.n == req->target.p + req->target.n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_http_req whole, cut;
	enum hvd_http_result first, last = HVD_HTTP_MORE;
	size_t scanned = 0, given = 0;
	int status = 0, cut_status = 0;
	uint32_t dice;
	char *all;

	if (size < 4)
		return 0;
	memcpy(&dice, data, 4);
	data += 4;
	size -= 4;
	all = malloc(size + 1);
	must(all != NULL);
	memcpy(all, data, size);
	first = hvd_http_parse(all, size, HEAD_MAX, &scanned, &whole, &status);
	if (first == HVD_HTTP_DONE)
		within(&whole, all, size);
	scanned = 0;
	while (last == HVD_HTTP_MORE && given < size) {
		size_t piece = 1 + dice % 7, room;
		char *part;

		dice = dice * 1664525 + 1013904223;
		given = given + piece < size ? given + piece : size;
		room = given;
		part = malloc(room); /* of the exact size, so that a byte too far is seen */
		must(part != NULL);
		memcpy(part, data, room);
		last = hvd_http_parse(part, room, HEAD_MAX, &scanned, &cut, &cut_status);
		if (last == HVD_HTTP_DONE)
			same(&whole, all, &cut, part);
		free(part);
	}
	if (size > 0)
		must(first == last);
	if (first == HVD_HTTP_BAD)
		must(status == cut_status && status >= 400);
	free(all);
	return 0;
}
