/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernel of a host answers: over loopback, and at an address that nothing answers at. */
#include "lib/net/host_try.h"

#include "tests/unit/unit.h"

#include <sys/socket.h>

struct heard {
	struct event_base *base;
	struct hvd_host_try *tries;
	int n;
	bool answered;
};

static void on_done(bool answered, void *arg)
{
	struct heard *heard = arg;

	heard->n++;
	heard->answered = answered;
	hvd_host_try_destroy(heard->tries);
	heard->tries = NULL;
	event_base_loopbreak(heard->base);
}

/* Does one of the addresses, up to the first empty text, answer? */
static bool answers(const char *const texts[], in_port_t port)
{
	struct heard heard = {.base = event_base_new()};
	struct hvd_addr addrs[HVD_HOST_TRY_ADDRS];
	size_t n = 0;

	for (; texts[n]; n++)
		assert_int_equal(hvd_addr_parse(texts[n], &addrs[n]), 0);
	heard.tries = hvd_host_try_begin(heard.base, addrs, n, port, 200, on_done, &heard);
	event_base_dispatch(heard.base);
	assert_int_equal(heard.n, 1);
	event_base_free(heard.base);
	return heard.answered;
}

static int listen_on(struct sockaddr_in *at, int backlog)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	assert_int_equal(bind(fd, (struct sockaddr *)at, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	if (backlog >= 0)
		assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

TEST(accepted_and_refused)
{
	struct sockaddr_in at;
	int fd = listen_on(&at, -1);

	assert_true(answers((const char *const[]){"127.0.0.1", NULL}, ntohs(at.sin_port))); /* refused */
	assert_int_equal(listen(fd, 1), 0);
	assert_true(answers((const char *const[]){"127.0.0.1", NULL}, ntohs(at.sin_port)));
	close(fd);
}

/* The kernel drops what asks for a connection when too many wait to be accepted. */
TEST(silent)
{
	struct sockaddr_in at;
	int fd = listen_on(&at, 0), waiting[4];

	for (size_t i = 0; i < 4; i++) {
		waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(waiting[i], (struct sockaddr *)&at, sizeof(at));
	}
	assert_false(answers((const char *const[]){"127.0.0.1", "127.0.0.1", NULL}, ntohs(at.sin_port)));
	/* One that answers is enough: nothing listens at the other address. */
	assert_true(answers((const char *const[]){"127.0.0.1", "127.0.0.2", NULL}, ntohs(at.sin_port)));
	assert_false(answers((const char *const[]){NULL}, 1));
	for (size_t i = 0; i < 4; i++)
		close(waiting[i]);
	close(fd);
}

TEST(given_up)
{
	struct heard heard = {.base = event_base_new()};
	struct hvd_addr addr;

	assert_int_equal(hvd_addr_parse("127.0.0.1", &addr), 0);
	heard.tries = hvd_host_try_begin(heard.base, &addr, 1, 1, 200, on_done, &heard);
	hvd_host_try_destroy(heard.tries);
	event_base_dispatch(heard.base);
	assert_int_equal(heard.n, 0);
	event_base_free(heard.base);
}

RUN_TESTS()
