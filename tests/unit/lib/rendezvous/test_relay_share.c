/* SPDX-License-Identifier: Apache-2.0 */
/* A relay whose messages share a connection with others, as those of a node agent and the driver do. */
#include "tests/unit/conn_pair.h"
#include "tests/unit/loopback.h"
#include "tests/unit/relay_count.h"
#include "tests/unit/relay_node.h"

#include <fcntl.h>

static struct hvd_log quiet;

/* The driver's end, with the root, and the agent's, with the relay. */
struct shared {
	struct relay_node root, relay;
	struct hvd_conn *down, *up;
	struct hvd_rv_child *child;
	int dropped, broken, said, heard;
};

static void on_dropped(bool broken, void *arg)
{
	struct shared *s = arg;

	s->child = NULL;
	s->dropped++;
	s->broken += broken;
}

static void down_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	((struct shared *)arg)->heard++;
}

static void down_drained(struct hvd_conn *conn, void *arg)
{
	struct shared *s = arg;

	if (s->child)
		hvd_rv_child_drained(s->child);
}

static void up_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	((struct shared *)arg)->said++;
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	fail();
}

static void begin(struct shared *s)
{
	static const struct hvd_conn_ops down = {down_message, on_closed, down_drained},
					 up = {.message = up_message, .closed = on_closed};
	const struct hvd_key key = {{1, 2, 3}};
	struct hvd_rv_config cfg;

	*s = (struct shared){.root = {.base = base}, .relay = {.base = base}};
	hvd_rv_config_init(&cfg);
	assert_int_equal(relay_node_start(&s->root, &cfg, &quiet), 0);
	cfg.relay = true;
	cfg.relay_id = 7;
	hvd_addr_parse("127.0.0.1", &cfg.relay_addr);
	assert_int_equal(relay_node_start(&s->relay, &cfg, &quiet), 0);
	s->down = hvd_conn_new(base, fds[0], true, &down, s);
	s->up = hvd_conn_new(base, fds[1], false, &up, s);
	hvd_conn_set_key(s->down, &key);
	hvd_conn_set_key(s->up, &key);
	s->child = hvd_rv_child_share(s->root.rv, s->down, on_dropped, s);
	hvd_rv_relay_share(s->relay.rv, s->up);
}

static void end(struct shared *s)
{
	if (s->child)
		hvd_rv_child_over(s->child);
	relay_node_end(&s->relay);
	relay_node_end(&s->root);
	hvd_conn_free(s->up);
	hvd_conn_free(s->down);
	/* What the servers close within a turn of the loop. */
	event_base_loop(base, EVLOOP_NONBLOCK);
}

static void until(const struct shared *s, const char *key)
{
	while (!hvd_rv_get(s->root.rv, "scope", key)) {
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
		assert_false(too_long);
	}
}

/* A client of the relay stores a value. */
static void put(const struct shared *s, const char *key)
{
	int fd = dial_loopback(s->relay.port);
	char text[128];

	snprintf(text, sizeof(text), "PUT /scope/%s HTTP/1.1\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", key);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	until(s, key);
	close(fd);
}

TEST(other_messages_pass_beside_it)
{
	struct shared s;

	begin(&s);
	put(&s, "one");
	hvd_conn_send(s.up, number(1));
	hvd_conn_send(s.down, number(2));
	put(&s, "two");
	while (s.said == 0 || s.heard == 0)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(s.said + s.heard, 2);
	assert_int_equal(relay_count(s.root.rv), 1);
	assert_int_equal(s.dropped, 0);
	end(&s);
}

TEST(one_that_breaks_the_protocol_is_dropped_and_may_begin_anew)
{
	struct hvd_piece rubbish = {"rubbish", 7};
	struct shared s;

	begin(&s);
	put(&s, "one");
	hvd_conn_send_bytes(s.up, HVD_CHANNEL_STORE, &rubbish, 1);
	while (s.dropped == 0)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(s.broken, 1);
	assert_int_equal(relay_count(s.root.rv), 0);
	s.child = hvd_rv_child_share(s.root.rv, s.down, on_dropped, &s);
	hvd_rv_relay_share(s.relay.rv, s.up);
	put(&s, "two");
	assert_int_equal(relay_count(s.root.rv), 1);
	end(&s);
}

TEST(one_whose_host_has_left_is_dropped)
{
	uint32_t others = 8;
	struct shared s;

	begin(&s);
	put(&s, "one");
	hvd_rv_relay_admit(s.root.rv, &others, 1);
	while (s.dropped == 0)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(s.broken, 0);
	end(&s);
}

int main(void)
{
	quiet = hvd_log_make("test", HVD_LOG_ERROR);
	quiet.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return run_unit_tests((struct test_hooks){.setup = open_pair, .teardown = close_pair});
}
