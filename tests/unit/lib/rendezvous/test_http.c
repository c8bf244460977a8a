/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/http.h"
#include "tests/unit/unit.h"

#define MAX 256

static enum hvd_http_result parse(const char *text, struct hvd_http_req *req, int *status)
{
	size_t scanned = 0;

	*status = 0;
	return hvd_http_parse(text, strlen(text), MAX, &scanned, req, status);
}

static int status_of(const char *text)
{
	struct hvd_http_req req;
	int status;

	return parse(text, &req, &status) == HVD_HTTP_BAD ? status : 0;
}

TEST(parses_what_workers_send)
{
	struct hvd_http_req req;
	struct hvd_slice scope, key;
	int status;

	assert_int_equal(
		parse("PUT /global/12 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 300\r\n\r\nbody", &req, &status),
		HVD_HTTP_DONE);
	assert_int_equal(req.method, HVD_HTTP_PUT);
	assert_true(req.has_length && req.keep_alive && !req.has_connection && !req.http10);
	assert_int_equal(req.length, 300);
	assert_int_equal(hvd_http_split(req.target, &scope, &key), 0);
	assert_memory_equal(scope.p, "global", scope.n);
	assert_int_equal(scope.n, 6);
	assert_memory_equal(key.p, "12", key.n);
}

TEST(knows_who_stays)
{
	static const struct {
		const char *text;
		bool stays;
	} cases[] = {
		{"GET /a/b HTTP/1.1\r\n\r\n", true},
		{"GET /a/b HTTP/1.1\r\nConnection: close\r\n\r\n", false},
		{"GET /a/b HTTP/1.1\r\nconnection: TE , Close\r\n\r\n", false},
		{"GET /a/b HTTP/1.0\r\n\r\n", false},
		{"GET /a/b HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
		{"GET /a/b HTTP/1.1\n\n", true},
		{"\r\n\r\nGET /a/b HTTP/1.1\r\n\r\n", true},
	};
	struct hvd_http_req req;
	int status;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text, &req, &status), HVD_HTTP_DONE);
		assert_int_equal(req.keep_alive, cases[i].stays);
		assert_int_equal(req.head_len, strlen(cases[i].text));
	}
}

TEST(leaves_paths_as_they_are)
{
	struct hvd_http_req req;
	struct hvd_slice scope, key;
	int status;

	assert_int_equal(parse("GET /a%2Fb/c%20d?x=1 HTTP/1.1\r\n\r\n", &req, &status), HVD_HTTP_DONE);
	assert_int_equal(hvd_http_split(req.target, &scope, &key), 0);
	assert_int_equal(scope.n, strlen("a%2Fb"));
	assert_memory_equal(key.p, "c%20d?x=1", key.n);
	assert_int_equal(parse("GET http://10.0.0.1:80/s/k HTTP/1.1\r\n\r\n", &req, &status), HVD_HTTP_DONE);
	assert_int_equal(hvd_http_split(req.target, &scope, &key), 0);
	assert_memory_equal(scope.p, "s", scope.n);
}

TEST(splits_only_two_names)
{
	static const char *const bad[] = {"", "/", "/a", "/a/", "//b", "a/b", "/a/b/", "/a/b/c", "*", "//"};
	struct hvd_slice scope, key;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_http_split((struct hvd_slice){bad[i], strlen(bad[i])}, &scope, &key), -1);
}

TEST(refuses_what_is_malformed)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{"\x16\x03\x01", 400},
		{" GET /a/b HTTP/1.1\r\n\r\n", 400},
		{"GET  /a/b HTTP/1.1\r\n\r\n", 400},
		{"GET /a/b\r\n\r\n", 400},
		{"GET\r\n\r\n", 400},
		{"GET /a/b HTTP/1.1 \r\n\r\n", 400},
		{"GET /a/b HTTP/2.0\r\n\r\n", 505},
		{"GET /a/b FTP/1.0\r\n\r\n", 400},
		{"GET /a\x01/b HTTP/1.1\r\n\r\n", 400},
		{"GET /a/b HTTP/1.1\r\nno colon\r\n\r\n", 400},
		{"GET /a/b HTTP/1.1\r\nX : y\r\n\r\n", 400},
		{"GET /a/b HTTP/1.1\r\nX: y\r\n folded\r\n\r\n", 400},
		{"GET /a/b HTTP/1.1\r\nX: \x01\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\nContent-Length: 1 2\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\nContent-Length:\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413},
		{"PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		{"PUT /a/b HTTP/1.1\r\nExpect: a miracle\r\n\r\n", 417},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(status_of(cases[i].text), cases[i].status);
	assert_int_equal(status_of("PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), 0);
}

TEST(refuses_long_heads)
{
	char text[MAX + 64];
	struct hvd_http_req req;
	int status;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "GET /", 5);
	assert_int_equal(status_of(text), 431);
	text[MAX - 1] = '\0';
	assert_int_equal(parse(text, &req, &status), HVD_HTTP_MORE);
	memset(text, '\n', sizeof(text) - 1);
	text[MAX] = '\0';
	assert_int_equal(status_of(text), 431);
	/* One that ends just at the limit is let in. */
	memset(text, 'a', sizeof(text) - 1);
	memcpy(text, "GET /", 5);
	memcpy(text + MAX - 13, " HTTP/1.1\r\n\r\n", 14);
	assert_int_equal(parse(text, &req, &status), HVD_HTTP_DONE);
	assert_int_equal(req.head_len, MAX);
}

TEST(does_not_mind_pieces)
{
	static const char text[] = "\r\nPUT /s/k HTTP/1.0\r\nA: b\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n";
	const size_t len = sizeof(text) - 1;
	struct hvd_http_req req;
	size_t scanned = 0;
	int status;

	for (size_t n = 1; n < len; n++)
		assert_int_equal(hvd_http_parse(text, n, MAX, &scanned, &req, &status), HVD_HTTP_MORE);
	assert_int_equal(hvd_http_parse(text, len, MAX, &scanned, &req, &status), HVD_HTTP_DONE);
	assert_true(req.expects_continue && req.http10 && !req.keep_alive);
	assert_int_equal(req.length, 7);
}

TEST(writes_heads)
{
	static const int all[] = {200, 400, 403, 404, 408, 411, 413, 414, 417, 431, 500, 501, 503, 505, 507, 299};
	char out[HVD_HTTP_HEAD_ROOM + 1];
	size_t n;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_true(hvd_http_head(out, all[i], UINT64_MAX, HVD_HTTP_AFTER_KEEP_10) < HVD_HTTP_HEAD_ROOM);
	n = hvd_http_head(out, 200, 1234567890, HVD_HTTP_AFTER_CLOSE);
	out[n] = '\0';
	assert_string_equal(out, "HTTP/1.1 200 OK\r\nContent-Length: 1234567890\r\nConnection: close\r\n\r\n");
	n = hvd_http_head(out, 404, 0, HVD_HTTP_AFTER_KEEP);
	out[n] = '\0';
	assert_string_equal(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
}

RUN_TESTS()
