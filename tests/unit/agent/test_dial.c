/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How hvd-agent connects to its driver, and its message if it cannot. Each driver here is a listening socket that
 * behaves in one way.
 */
#include "agent/dial.h"

#include "lib/net/accept.h"
#include "lib/net/listen.h"
#include "tests/unit/send_hello.h"
#include "tests/unit/unit.h"

#include <event2/event.h>

static const struct hvd_key key = {"the launch's own key, 32 bytes."};

struct place {
	struct event_base *base;
	struct hvd_session driver, shim;
	struct hvd_boot boot;
	struct hvd_acceptor *acceptor;
	struct hvd_dial *link;
	unsigned came, to_close; /* how many connections came; how many are closed without a message */
	bool leave, rude, newer; /* after that the driver stops listening, sends a refusal, or speaks another version */
	struct hvd_conn *served, *up;
	struct hvd_handshake hs;
	enum {
		ONLY_DRIVER,
		REFUSES,      /* another process, at the first address, says that this is not its launch */
		SAYS_NO_MORE, /* it has greeted, and does not prove who it is */
	} other;
	struct hvd_acceptor *other_acceptor;
	struct hvd_conn *other_served;
	struct hvd_handshake other_hs;
	bool down;
	struct hvd_err why;
	int fds_before;
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct place *p = arg;

	hvd_handshake_message(&p->hs, conn, msg, NULL);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
}

static const struct hvd_conn_ops conn_ops = {.message = on_message, .closed = on_closed};

static void send_refusal(struct hvd_conn *conn)
{
	hvd_conn_send(conn, json_pack("{s:s, s:s}", "t", "refused", "why", "not you"));
}

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct place *p = arg;

	if (p->came++ < p->to_close) {
		close(fd);
		if (p->leave && p->came == p->to_close) {
			hvd_acceptor_destroy(p->acceptor);
			p->acceptor = NULL;
		}
		return;
	}
	p->served = hvd_conn_new(p->base, fd, true, &conn_ops, p);
	if (p->newer)
		assert_int_equal(write(fd, "HV\x7f", 3), 3);
	else if (p->rude)
		send_refusal(p->served);
	else
		send_hello(&p->hs, &p->driver, p->served);
}

/* The driver accepts no connection before the other process has had its turn. */
static void on_other_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	const struct place *p = arg;

	(void)conn;
	(void)msg;
	hvd_acceptor_resume(p->acceptor);
}

static void on_other_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	const struct place *p = arg;

	(void)conn;
	(void)why;
	hvd_acceptor_resume(p->acceptor);
}

static void on_other_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	static const struct hvd_conn_ops ops = {.message = on_other_message, .closed = on_other_closed};
	struct place *p = arg;

	(void)peer;
	p->other_served = hvd_conn_new(p->base, fd, true, &ops, p);
	if (p->other == REFUSES)
		send_refusal(p->other_served);
	else
		send_hello(&p->other_hs, &p->driver, p->other_served);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	struct place *p = arg;

	p->up = conn;
	hvd_conn_set_ops(conn, &conn_ops, p);
	event_base_loopbreak(p->base);
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct place *p = arg;

	p->down = true;
	p->why = *why;
	event_base_loopbreak(p->base);
}

/* Listen for the driver, and at an address before it for the other process, if there is one. */
static void listen_all(struct place *p)
{
	static const struct hvd_acceptor_ops ops = {.accepted = on_accepted},
					     other_ops = {.accepted = on_other_accepted};
	const size_t n = p->other == ONLY_DRIVER ? 1 : 2;
	struct sockaddr_storage addrs[2], bound;
	socklen_t len = sizeof(bound);
	int listening[2];
	size_t which;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(hvd_addr_parse(i == 0 ? "127.0.0.1" : "127.0.0.2", &p->boot.addrs[i]), 0);
		hvd_addr_to_sockaddr(&p->boot.addrs[i], 0, &addrs[i]);
	}
	p->boot.n_addrs = (unsigned)n;
	assert_int_equal(hvd_listen_all(addrs, n, 0, 0, listening, &which), 0);
	assert_int_equal(getsockname(listening[0], (struct sockaddr *)&bound, &len), 0);
	p->boot.port = ntohs(((struct sockaddr_in *)&bound)->sin_port);
	p->acceptor = hvd_acceptor_create(p->base, listening[n - 1], &ops, p, NULL);
	if (p->other == ONLY_DRIVER)
		return;
	p->other_acceptor = hvd_acceptor_create(p->base, listening[0], &other_ops, p, NULL);
	hvd_acceptor_pause(p->acceptor);
}

/* Try to connect for so many seconds; the event loop ends with the result. */
static void look(struct place *p, double seconds)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = key};

	p->fds_before = open_fds();
	p->base = event_base_new();
	assert_int_equal(hvd_session_create(&p->driver, &id, NULL), 0);
	memcpy(p->shim.id, p->driver.id, sizeof(p->shim.id));
	p->shim.identity = id;
	hvd_session_bind_key(&p->shim);
	listen_all(p);
	p->link = hvd_dial_create(p->base, &p->boot, &p->shim, hvd_deadline_in(seconds), on_up, on_down, p);
}

static void end(struct place *p)
{
	hvd_dial_destroy(p->link);
	hvd_conn_free(p->up);
	hvd_conn_free(p->served);
	hvd_conn_free(p->other_served);
	hvd_acceptor_destroy(p->acceptor);
	hvd_acceptor_destroy(p->other_acceptor);
	event_base_free(p->base);
	assert_int_equal(open_fds(), p->fds_before);
}

TEST(closed_without_a_word)
{
	struct place p = {.to_close = 5};

	look(&p, 30);
	event_base_dispatch(p.base);
	assert_non_null(p.up);
	assert_false(p.down);
	assert_int_equal(p.came, 6);
	end(&p);
}

TEST(closed_until_the_deadline)
{
	struct place p = {.to_close = 1000000};

	look(&p, 1);
	event_base_dispatch(p.base);
	assert_true(p.down);
	assert_int_equal(p.why.code, HVD_E_TIMEOUT);
	assert_in(p.why.msg, "without an answer");
	assert_in(p.why.hint, "its limit of connections");
	assert_int_in_range(p.came, 2, 20); /* at growing intervals */
	end(&p);
}

TEST(a_driver_that_was_killed)
{
	struct place p = {.to_close = 1, .leave = true};
	hvd_time began = hvd_now();

	look(&p, 30);
	event_base_dispatch(p.base);
	assert_true(p.down);
	assert_true(hvd_now() - began < 20000000000);
	assert_in(p.why.msg, "Connection refused");
	assert_in(p.why.hint, "nothing listens there");
	end(&p);
}

TEST(a_driver_that_is_stopped)
{
	struct place p = {0};

	look(&p, 0.5);
	hvd_acceptor_pause(p.acceptor);
	event_base_dispatch(p.base);
	assert_true(p.down);
	assert_int_equal(p.why.code, HVD_E_TIMEOUT);
	assert_in(p.why.msg, "127.0.0.1 (connected, but got no answer)");
	assert_in(p.why.hint, "stopped");
	end(&p);
}

/* A driver that sends a refusal is not tried again. */
TEST(a_driver_that_refuses)
{
	struct place p = {.rude = true};

	look(&p, 30);
	event_base_dispatch(p.base);
	assert_true(p.down);
	assert_int_equal(p.came, 1);
	assert_in(p.why.msg, "has not proven who it is, refuses this process: \"not you\"");
	end(&p);
}

/* The remedy is the failure's own: no firewall has anything to do with it. */
TEST(a_driver_of_another_release)
{
	struct place p = {.newer = true};

	look(&p, 30);
	event_base_dispatch(p.base);
	assert_true(p.down);
	assert_in(p.why.msg, "the peer speaks version 127 of the protocol");
	assert_in(p.why.hint, "the same release must be installed on all hosts");
	end(&p);
}

static void goes_on_to_the_driver(struct place *p)
{
	look(p, 30);
	event_base_dispatch(p->base);
	assert_non_null(p->other_served);
	assert_non_null(p->up);
	assert_false(p->down);
	end(p);
}

TEST(after_a_refusal_another_address_is_used)
{
	goes_on_to_the_driver(&(struct place){.other = REFUSES});
}

TEST(after_a_second_of_silence_another_address_is_used)
{
	goes_on_to_the_driver(&(struct place){.other = SAYS_NO_MORE});
}

RUN_TESTS()
