/* SPDX-License-Identifier: Apache-2.0 */
/* The server of /metrics: what it answers to which request, and that silent and slow clients keep nobody out. Clients of
 * other users are in tests/cluster/metrics.bats. */
#include "launcher/metrics/metrics_http.h"

#include "launcher/metrics/metrics_token.h"

#include "tests/unit/loopback.h"

#include <errno.h>
#include <poll.h>

#define TOKEN "0123456789abcdef-a-token"

struct world {
	struct event_base *base;
	struct hvd_metrics_http *http;
	unsigned pages;
	char answer[65536];
};

static char *make_page(enum hvd_metrics_form form, size_t *len, void *arg)
{
	struct world *w = arg;

	w->pages++;
	*len = 5;
	return strdup(form == HVD_METRICS_OPENMETRICS ? "open\n" : "text\n");
}

static void serve(struct world *w, const char *token)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	const struct hvd_metrics_http_opts opts = {
		.base = w->base, .addr = &addr, .token = token, .page = make_page, .arg = w};

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->http = hvd_metrics_http_create(&opts, NULL);
	assert_non_null(w->http);
}

SETUP(set_up, struct world, w)
{
	w->base = event_base_new();
	serve(w, NULL);
}

SETUP(set_up_token, struct world, w)
{
	w->base = event_base_new();
	serve(w, TOKEN);
}

TEARDOWN(tear_down, struct world, w)
{
	hvd_metrics_http_destroy(w->http);
	event_base_free(w->base);
}

static int dial(const struct world *w)
{
	return dial_loopback(hvd_metrics_http_port(w->http));
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Read the answer until the end of the connection, and close it. */
static const char *hear(struct world *w, int fd)
{
	size_t have = 0;
	ssize_t n = 1;

	while (n != 0) {
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5);
		n = recv(fd, w->answer + have, sizeof(w->answer) - 1 - have, MSG_DONTWAIT);
		if (n > 0)
			have += (size_t)n;
		else if (n < 0 && errno != EAGAIN)
			break;
	}
	close(fd);
	w->answer[have] = '\0';
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	return w->answer;
}

static const char *ask(struct world *w, const char *request)
{
	int fd = dial(w);

	say(fd, request);
	return hear(w, fd);
}

#define TEST_OF(name, setup)                                                                                           \
	static void name##_in(struct world *w);                                                                        \
	TEST_WITH(name, setup, tear_down)                                                                              \
	{                                                                                                              \
		name##_in(*state);                                                                                     \
	}                                                                                                              \
	static void name##_in(struct world *w)

TEST_OF(one_page_by_two_methods, set_up)
{
	assert_in(ask(w, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 OK\r\n");
	assert_in(w->answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	assert_in(w->answer, "Content-Length: 5\r\n");
	assert_in(w->answer, "\r\n\r\ntext\n");
	assert_in(ask(w, "HEAD /metrics HTTP/1.1\r\n\r\n"), "Content-Length: 5\r\n");
	assert_string_equal(w->answer + strlen(w->answer) - 4, "\r\n\r\n");
	assert_in(ask(w, "GET /metrics?x=1 HTTP/1.0\r\n\r\n"), "200 OK");
	assert_int_equal(w->pages, 3);
	assert_in(ask(w, "GET / HTTP/1.1\r\n\r\n"), "404 Not Found\n");
	assert_in(ask(w, "GET /metricsx HTTP/1.1\r\n\r\n"), "404 Not Found\n");
	assert_in(ask(w, "DELETE /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed\r\n");
	assert_in(w->answer, "Allow: GET, HEAD\r\n");
	assert_in(ask(w, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "413 Content Too Large\r\n");
	assert_in(ask(w, "GET /metrics\r\n\r\n"), "400 Bad Request\r\n");
	assert_int_equal(w->pages, 3);
}

TEST_OF(prometheus_gets_openmetrics, set_up)
{
	ask(w, "GET /metrics HTTP/1.1\r\n"
	       "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n");
	assert_in(w->answer, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
	assert_in(w->answer, "\r\n\r\nopen\n");
}

TEST_OF(a_head_that_is_too_long, set_up)
{
	char request[12000];
	int n = snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\nX: ");

	memset(request + n, 'x', sizeof(request) - (size_t)n - 1);
	request[sizeof(request) - 1] = '\0';
	assert_in(ask(w, request), "431 ");
	assert_int_equal(w->pages, 0);
}

TEST_OF(a_token_must_be_equal, set_up_token)
{
	static const char *const wrong[] = {"",
					    "Authorization: Bearer\r\n",
					    "Authorization: Bearer \r\n",
					    "Authorization: Basic " TOKEN "\r\n",
					    "Authorization: Bearer " TOKEN "x\r\n",
					    "Authorization: Bearer 0123456789abcdef-a-tokem\r\n",
					    "Authorization: " TOKEN "\r\n",
					    "Authorization: Bearer " TOKEN "\r\nAuthorization: x\r\n"};
	char request[512];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\n%s\r\n", wrong[i]);
		assert_in(ask(w, request), "401 Unauthorized\r\n");
		assert_in(w->answer, "WWW-Authenticate: Bearer");
	}
	assert_in(ask(w, "GET /other HTTP/1.1\r\n\r\n"), "401 "); /* nor does it say what there is */
	assert_int_equal(w->pages, 0);
	assert_in(ask(w, "GET /metrics HTTP/1.1\r\nAuthorization: bearer " TOKEN "\r\n\r\n"), "200 OK");
	assert_int_equal(w->pages, 1);
}

/* More connections than there is room for, which send nothing or a byte each: whoever asks is answered. */
TEST_OF(silent_clients_keep_nobody_out, set_up)
{
	int silent[200];

	for (size_t i = 0; i < 200; i++) {
		silent[i] = dial(w);
		if (i % 2)
			say(silent[i], "G");
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		if (i % 20 == 19)
			assert_in(ask(w, "GET /metrics HTTP/1.1\r\n\r\n"), "200 OK");
	}
	assert_int_equal(w->pages, 10);
	/* The first ones had to make room. */
	assert_string_equal(hear(w, silent[0]), "");
	for (size_t i = 1; i < 200; i++)
		close(silent[i]);
}

/* A request in pieces is one. */
TEST_OF(a_slow_client_is_served, set_up)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = dial(w);

	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		assert_int_equal(send(fd, request + i, 1, 0), 1);
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	}
	assert_in(hear(w, fd), "text\n");
}

TEST_OF(a_port_that_is_in_use, set_up)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	const struct hvd_metrics_http_opts opts = {.base = w->base, .addr = &addr, .page = make_page, .arg = w};
	struct hvd_err err = {0};

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons(hvd_metrics_http_port(w->http));
	assert_null(hvd_metrics_http_create(&opts, &err));
	assert_int_equal(err.code, HVD_E_NET);
	assert_in(err.msg, "is in use");
}

static void write_token(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

TEST(a_file_with_a_token)
{
	char path[] = "/tmp/hvd-token-XXXXXX", *token;
	struct hvd_err err = {0};

	close(mkstemp(path));
	write_token(path, TOKEN "\n", 0600);
	token = hvd_metrics_token_read(path, &err);
	assert_string_equal(token, TOKEN);
	free(token);
	write_token(path, TOKEN, 0644);
	assert_null(hvd_metrics_token_read(path, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_in(err.msg, "is open to others");
	write_token(path, "short", 0600);
	assert_null(hvd_metrics_token_read(path, &err));
	assert_in(err.msg, "holds no token");
	write_token(path, "a token with blanks in it", 0600);
	assert_null(hvd_metrics_token_read(path, NULL));
	unlink(path);
	assert_null(hvd_metrics_token_read(path, &err));
	assert_in(err.msg, "is no file");
	assert_null(hvd_metrics_token_read("/tmp", &err));
}

RUN_TESTS()
