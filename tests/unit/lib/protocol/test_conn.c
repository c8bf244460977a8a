/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/protocol/handshake.h"

#include "tests/unit/conn_pair.h"
#include "tests/unit/send_hello.h"

/* Until nothing is ready any more. */
static void settle(void)
{
	while (event_base_loop(base, EVLOOP_NONBLOCK) == 0 &&
	       event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE) > 0)
		;
}

/* One end, and what came of it. */
struct end {
	struct hvd_conn *conn;
	int messages, closed, free_at; /* free_at: within the callback of that message */
	int64_t last;
	struct hvd_err why;
	int wanted; /* leave the loop after so many messages */
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(conn, end->conn);
	assert_int_equal(end->closed, 0);
	hvd_get_int(msg, "n", 0, INT64_MAX, &end->last, NULL);
	end->messages++;
	if (end->messages == end->wanted)
		event_base_loopbreak(base);
	if (end->messages == end->free_at) {
		hvd_conn_free(conn);
		end->conn = NULL;
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(conn, end->conn);
	end->closed++;
	end->why = *why;
	if (end->free_at < 0) {
		hvd_conn_free(conn);
		end->conn = NULL;
	}
	event_base_loopbreak(base);
}

static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};

static void make(struct end *end, int fd, bool server)
{
	memset(end, 0, sizeof(*end));
	end->conn = hvd_conn_new(base, fd, server, &ops, end);
}

TEST(messages_both_ways)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	assert_int_equal(hvd_conn_fd(a.conn), fds[0]);
	for (int i = 1; i <= 1000; i++)
		hvd_conn_send(a.conn, number(i));
	b.wanted = 1000;
	run();
	assert_int_equal(b.messages, 1000);
	assert_int_equal(b.last, 1000);
	hvd_conn_send(b.conn, number(7));
	a.wanted = 1;
	run();
	assert_int_equal(a.last, 7);
	hvd_conn_free(a.conn);
	run();
	assert_int_equal(b.closed, 1);
	assert_int_equal(b.why.code, HVD_OK);
	hvd_conn_free(b.conn);
}

/* Byte by byte, each one alone in the socket. */
TEST(half_frames)
{
	struct hvd_wire wire;
	struct end b;
	unsigned char *bytes;
	size_t len;
	json_t *msg = number(42);

	hvd_wire_init(&wire, true);
	assert_int_equal(hvd_wire_encode(&wire, msg, &bytes, &len, NULL), 0);
	json_decref(msg);
	make(&b, fds[1], false);
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(b.messages, 0);
		assert_int_equal(write(fds[0], bytes + i, 1), 1);
		settle();
	}
	assert_int_equal(b.messages, 1);
	assert_int_equal(b.last, 42);
	/* Half a frame before the end is no orderly end. */
	assert_int_equal(write(fds[0], bytes, len / 2), len / 2);
	close(fds[0]);
	run();
	assert_int_equal(b.closed, 1);
	assert_int_equal(b.why.code, HVD_E_PROTO);
	assert_in(b.why.msg, "within a message");
	hvd_conn_free(b.conn);
	free(bytes);
}

TEST(rubbish)
{
	struct end b;

	make(&b, fds[1], true);
	assert_int_equal(write(fds[0], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	run();
	assert_int_equal(b.closed, 1);
	assert_int_equal(b.messages, 0);
	assert_int_equal(b.why.code, HVD_E_PROTO);
	/* It is over: nothing more comes, whatever the peer sends. */
	assert_int_equal(write(fds[0], "more", 4), 4);
	settle();
	assert_int_equal(b.closed, 1);
	hvd_conn_send(b.conn, number(1)); /* harmless */
	hvd_conn_free(b.conn);
	close(fds[0]);
}

TEST(a_peer_that_goes_without_reading)
{
	struct end b;

	make(&b, fds[1], false);
	hvd_conn_send(b.conn, number(1));
	settle();
	close(fds[0]);
	run();
	assert_int_equal(b.closed, 1);
	assert_int_not_equal(b.why.code, HVD_OK);
	hvd_conn_free(b.conn);
}

/* What it has said last is read, although nothing can be written to it. */
TEST(a_peer_that_goes_with_a_word)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	hvd_conn_send(a.conn, number(5));
	hvd_conn_free(a.conn);
	hvd_conn_send(b.conn, number(1));
	run();
	assert_int_equal(b.messages, 1);
	assert_int_equal(b.last, 5);
	assert_int_equal(b.closed, 1);
	assert_int_not_equal(b.why.code, HVD_OK);
	hvd_conn_free(b.conn);
}

/* The owner lets go of the connection when it gets that message. */
TEST(a_peer_that_goes_with_a_word_that_ends_all)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	b.free_at = b.wanted = 1;
	hvd_conn_send(a.conn, number(5));
	hvd_conn_free(a.conn);
	hvd_conn_send(b.conn, number(1));
	run();
	assert_null(b.conn);
	assert_int_equal(b.closed, 0);
}

TEST(freed_within_a_message)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	b.free_at = 2;
	for (int i = 1; i <= 5; i++)
		hvd_conn_send(a.conn, number(i));
	run();                           /* until a sees the end */
	assert_int_equal(b.messages, 2); /* the others were in the same read */
	assert_int_equal(b.closed, 0);
	assert_int_equal(a.closed, 1);
	hvd_conn_free(a.conn);
}

TEST(freed_within_closed)
{
	struct end b;

	make(&b, fds[1], false);
	b.free_at = -1;
	close(fds[0]);
	run();
	assert_int_equal(b.closed, 1);
	assert_null(b.conn);
	hvd_conn_free(NULL);
	hvd_conn_finish(NULL, 0);
}

TEST(what_cannot_be_sent_closes_it)
{
	char *big = calloc(1, HVD_WIRE_MAX_OPEN + 1);
	struct end a;

	assert_non_null(big);
	memset(big, 'x', HVD_WIRE_MAX_OPEN);
	make(&a, fds[0], true);
	a.free_at = -1;
	hvd_conn_send(a.conn, json_pack("{s:s}", "t", big));
	assert_int_equal(a.closed, 0); /* not within the call: the sender goes on using it */
	hvd_conn_set_deadline(a.conn, 0);
	run();
	assert_int_equal(a.closed, 1);
	assert_int_equal(a.why.code, HVD_E_LIMIT);
	free(big);
	close(fds[1]);
}

TEST(the_deadline_closes_it)
{
	struct end a;

	make(&a, fds[0], true);
	hvd_conn_set_deadline(a.conn, hvd_deadline_in(60));
	hvd_conn_set_deadline(a.conn, hvd_deadline_in(0.001));
	run();
	assert_int_equal(a.closed, 1);
	assert_int_equal(a.why.code, HVD_E_TIMEOUT);
	hvd_conn_free(a.conn);
	close(fds[1]);
}

TEST(a_deadline_taken_back)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	hvd_conn_set_deadline(a.conn, hvd_now());
	hvd_conn_set_deadline(a.conn, 0);
	settle();
	assert_int_equal(a.closed, 0);
	hvd_conn_send(a.conn, number(1));
	b.wanted = 1;
	run();
	hvd_conn_free(a.conn);
	hvd_conn_free(b.conn);
}

/* More than a socket holds: it goes out after the owner has let go, and the reader gets all of it. */
static void finish_sends(hvd_time deadline)
{
	static const struct hvd_key key = {{1}};
	char *big = calloc(1, 4 * 1024 * 1024 + 1);
	struct end a, b;

	assert_non_null(big);
	memset(big, 'x', 4 * 1024 * 1024);
	make(&a, fds[0], true);
	make(&b, fds[1], false);
	hvd_conn_set_key(a.conn, &key);
	hvd_conn_set_key(b.conn, &key);
	hvd_conn_send(a.conn, json_pack("{s:i, s:s}", "n", 1, "t", big));
	hvd_conn_send(a.conn, number(2));
	hvd_conn_finish(a.conn, deadline);
	run();
	assert_int_equal(b.messages, 2);
	assert_int_equal(b.last, 2);
	assert_int_equal(b.why.code, HVD_OK);
	assert_int_equal(a.messages + a.closed, 0);
	hvd_conn_free(b.conn);
	free(big);
}

TEST(finish_sends_what_is_queued)
{
	finish_sends(hvd_deadline_in(60));
}

/* As where the owner has finished thousands of connections before the loop goes on. */
TEST(finish_sends_when_the_loop_comes_late)
{
	finish_sends(hvd_now());
}

TEST(finish_does_not_wait_for_ever)
{
	static const struct hvd_key key = {{1}};
	char *big = calloc(1, 4 * 1024 * 1024 + 1);
	struct end a;

	assert_non_null(big);
	memset(big, 'x', 4 * 1024 * 1024);
	make(&a, fds[0], true);
	hvd_conn_set_key(a.conn, &key);
	hvd_conn_send(a.conn, json_pack("{s:s}", "t", big));
	hvd_conn_finish(a.conn, hvd_deadline_in(0.01));
	event_del(watchdog);
	event_base_dispatch(base); /* ends when nothing is left to wait for: nobody reads fds[1] */
	assert_int_equal(a.messages + a.closed, 0);
	close(fds[1]);
	free(big);
}

TEST(finish_with_nothing_queued)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	hvd_conn_finish(a.conn, hvd_deadline_in(60));
	run();
	assert_int_equal(b.closed, 1);
	hvd_conn_free(b.conn);
}

/* What the peer sends behind the last message does no harm, and the end of the peer is waited for. */
TEST(linger_lets_the_peer_read_all)
{
	struct end a, b;

	make(&a, fds[0], true);
	make(&b, fds[1], false);
	hvd_conn_send(a.conn, number(1));
	hvd_conn_linger(a.conn, hvd_deadline_in(60));
	for (int i = 0; i < 100; i++)
		hvd_conn_send(b.conn, number(i));
	run();
	assert_int_equal(b.messages, 1);
	assert_int_equal(b.last, 1);
	assert_int_equal(b.closed, 1);
	assert_int_equal(b.why.code, HVD_OK);
	assert_int_equal(a.messages + a.closed, 0);
	hvd_conn_free(b.conn);
	event_del(watchdog);
	event_base_dispatch(base); /* until the other end has gone, too */
}

TEST(linger_does_not_wait_for_ever)
{
	struct end a;

	make(&a, fds[0], true);
	hvd_conn_linger(a.conn, hvd_deadline_in(0.01));
	event_del(watchdog);
	event_base_dispatch(base); /* nobody closes fds[1] */
	assert_int_equal(a.messages + a.closed, 0);
	close(fds[1]);
}

/* ---- handshake ---- */

struct side {
	struct hvd_conn *conn;
	struct hvd_handshake hs;
	struct hvd_session session;
	int rc, after;
	bool closed;
	struct hvd_err err;
};

static void on_shake(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct side *side = arg;

	if (side->hs.done) {
		side->after++;
		event_base_loopbreak(base);
		return;
	}
	side->rc = hvd_handshake_message(&side->hs, conn, msg, &side->err);
	if (side->rc > 0)
		hvd_conn_send(conn, number(1));
	if (side->rc < 0 && side->hs.server) {
		hvd_conn_finish(conn, hvd_deadline_in(5));
		side->conn = NULL;
	}
	if (side->rc < 0)
		event_base_loopbreak(base);
}

static void on_shake_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct side *side = arg;

	side->closed = true;
	event_base_loopbreak(base);
}

static const struct hvd_conn_ops shake_ops = {.message = on_shake, .closed = on_shake_closed};

static void shake(struct side *driver, struct side *shim, const struct hvd_key *driver_key,
		  const struct hvd_key *shim_key)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = *driver_key};

	memset(driver, 0, sizeof(*driver));
	memset(shim, 0, sizeof(*shim));
	assert_int_equal(hvd_session_create(&driver->session, &id, NULL), 0);
	assert_int_equal(strlen(driver->session.id), HVD_SESSION_LEN);
	memcpy(shim->session.id, driver->session.id, sizeof(shim->session.id));
	shim->session.identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = *shim_key};
	hvd_session_bind_key(&shim->session);
	driver->conn = hvd_conn_new(base, fds[0], true, &shake_ops, driver);
	shim->conn = hvd_conn_new(base, fds[1], false, &shake_ops, shim);
}

static void hang_up(struct side *driver, struct side *shim)
{
	hvd_conn_free(driver->conn);
	hvd_conn_free(shim->conn);
}

static void begin(struct side *driver, struct side *shim)
{
	assert_int_equal(hvd_handshake_start(&shim->hs, &shim->session, NULL), 0);
	send_hello(&driver->hs, &driver->session, driver->conn);
}

static const struct hvd_key right = {"the launch's own key, 32 bytes."}, wrong = {"another launch's key, 32 bytes."};

TEST(a_good_handshake)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &right);
	begin(&driver, &shim);
	while (!driver.after || !shim.after)
		run();
	assert_int_equal(driver.rc, 1);
	assert_int_equal(shim.rc, 1);
	assert_memory_equal(driver.session.key.b, shim.session.key.b, HVD_KEY_LEN);
	assert_memory_not_equal(driver.session.key.b, right.b, HVD_KEY_LEN); /* for this session only */
	assert_memory_equal(driver.hs.client_nonce, shim.hs.client_nonce, HVD_NONCE_LEN);
	hang_up(&driver, &shim);
}

TEST(a_shim_with_the_wrong_key)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &wrong);
	begin(&driver, &shim);
	while (!shim.err.code)
		run();
	assert_int_equal(driver.rc, -1);
	assert_int_equal(driver.err.code, HVD_E_AUTH);
	assert_int_equal(shim.rc, -1);
	assert_int_equal(shim.err.code, HVD_E_AUTH);
	assert_in(shim.err.msg, "which has not proven who it is, refuses this process: \"the peer does not hold");
	hang_up(&driver, &shim);
}

/* Anybody may say so: it is shown as what it is. */
TEST(a_refusal_with_bytes_for_the_terminal)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &right);
	driver.hs.server = true; /* the driver only says this */
	assert_int_equal(hvd_handshake_start(&shim.hs, &shim.session, NULL), 0);
	hvd_conn_send(driver.conn, json_pack("{s:s, s:s}", "t", "refused", "why",
					     "\033[2J\"\nhvd: error: your account is locked: run /tmp/mend"));
	while (!shim.err.code)
		run();
	assert_in(shim.err.msg, "which has not proven who it is");
	assert_in(shim.err.msg, ": \"\\x1b[2J\\\"\\nhvd: error: your account is locked: run /tmp/mend\"");
	hang_up(&driver, &shim);
}

TEST(a_driver_of_another_launch)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &right);
	shim.session.id[0] = shim.session.id[0] == '0' ? '1' : '0';
	begin(&driver, &shim);
	while (!shim.err.code)
		run();
	assert_in(shim.err.msg, "another launch");
	assert_int_equal(driver.rc, 0); /* it got no proof at all */
	hang_up(&driver, &shim);
}

/* Whoever says welcome without the key is not believed; nor is a plan before the proof. */
TEST(a_driver_that_is_none)
{
	static const char *const texts[] = {
		"{\"t\":\"welcome\",\"cred\":\"0000000000000000000000000000000000000000000000000000000000000000\"}",
		"{\"t\":\"welcome\"}",
		"{\"t\":\"plan\",\"env\":{}}",
		"{\"t\":\"hello\",\"release\":\"" HVD_VERSION "\",\"launch\":\"x\",\"nonce\":\"y\"}",
		"{\"t\":5}",
		"{}",
	};
	struct side driver, shim;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (i > 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		shake(&driver, &shim, &right, &right);
		assert_int_equal(hvd_handshake_start(&shim.hs, &shim.session, NULL), 0);
		driver.hs.server = true; /* the driver only says this */
		hvd_conn_send(driver.conn, json_loads(texts[i], 0, NULL));
		run();
		assert_int_equal(shim.rc, -1);
		assert_false(shim.hs.done);
		assert_true(shim.err.code == HVD_E_AUTH || shim.err.code == HVD_E_PROTO);
		hang_up(&driver, &shim);
	}
}

static json_t *hello(struct side *driver, const char *release)
{
	struct hvd_handshake hs;
	json_t *msg = hvd_handshake_hello(&hs, &driver->session, NULL);

	assert_non_null(msg);
	json_object_del(msg, "release");
	if (release)
		json_object_set_new(msg, "release", json_string(release));
	return msg;
}

/* Anybody may connect and be greeted, and whoever knows the session can take the names of the agents' sockets. */
TEST(a_greeting_does_not_tell_the_session)
{
	struct side driver, shim;
	char *texts[2];

	shake(&driver, &shim, &right, &right);
	for (size_t i = 0; i < 2; i++) {
		json_t *msg = hello(&driver, HVD_VERSION);

		texts[i] = json_dumps(json_object_get(msg, "launch"), JSON_ENCODE_ANY);
		assert_null(strstr(texts[i], driver.session.id));
		json_decref(msg);
	}
	assert_string_not_equal(texts[0], texts[1]);
	free(texts[0]);
	free(texts[1]);
	hang_up(&driver, &shim);
}

/* Each answer costs a credential: there is one for a connection. */
TEST(a_driver_that_greets_again)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &right);
	driver.hs.done = true; /* only greets, and counts the answers */
	assert_int_equal(hvd_handshake_start(&shim.hs, &shim.session, NULL), 0);
	for (int i = 0; i < 3; i++)
		hvd_conn_send(driver.conn, hello(&driver, HVD_VERSION));
	while (shim.rc == 0)
		run();
	assert_int_equal(shim.err.code, HVD_E_PROTO);
	assert_in(shim.err.msg, "second greeting");
	hvd_conn_finish(shim.conn, hvd_deadline_in(5));
	shim.conn = NULL;
	while (!driver.closed)
		run();
	assert_int_equal(driver.after, 1);
	hang_up(&driver, &shim);
}

/* What a stranger may send instead of "auth": each is refused with a reason. */
TEST(a_shim_that_is_none)
{
	static const char *const texts[] = {
		"{}",
		"{\"t\":\"auth\",\"release\":\"" HVD_VERSION "\"}",
		"{\"t\":\"auth\",\"release\":\"" HVD_VERSION "\",\"nonce\":\"00\",\"cred\":\"00\"}",
		"{\"t\":\"register\",\"release\":\"" HVD_VERSION
		"\",\"nonce\":\"00000000000000000000000000000000\",\"cred\":\"00\"}",
		"{\"t\":\"auth\",\"release\":\"" HVD_VERSION
		"\",\"nonce\":\"00000000000000000000000000000000\",\"cred\":\"00\"}",
		"{\"t\":\"auth\",\"release\":\"" HVD_VERSION
		"\",\"nonce\":\"00000000000000000000000000000000\",\"cred\":5}",
	};
	struct side driver, shim;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (i > 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		shake(&driver, &shim, &right, &right);
		send_hello(&driver.hs, &driver.session, driver.conn);
		shim.hs.done = true; /* only says this, and hears the answers */
		hvd_conn_send(shim.conn, json_loads(texts[i], 0, NULL));
		while (driver.rc == 0)
			run();
		assert_int_equal(driver.rc, -1);
		assert_true(driver.err.msg[0] != '\0');
		while (!shim.closed) /* told why, then the connection ends */
			run();
		assert_int_equal(shim.after, 2);
		hang_up(&driver, &shim);
	}
}

/* Opening a credential takes munged's time. Here it would fail for want of a munged. */
TEST(a_credential_of_one_who_does_not_know_the_launch_is_not_opened)
{
	struct side driver, shim;

	shake(&driver, &shim, &right, &right);
	driver.session.identity.kind = HVD_ID_MUNGE;
	driver.session.identity.munge_socket = "/nowhere/munge.socket";
	send_hello(&driver.hs, &driver.session, driver.conn);
	shim.hs.done = true; /* only says this, and hears the answers */
	hvd_conn_send(shim.conn,
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "t", "auth", "release", HVD_VERSION, "nonce",
				"00000000000000000000000000000000", "launch",
				"0000000000000000000000000000000000000000000000000000000000000000", "cred", "MUNGE:"));
	while (driver.rc == 0)
		run();
	assert_string_equal(driver.err.msg, "the peer does not know this launch");
	while (!shim.closed)
		run();
	hang_up(&driver, &shim);
}

/* Older ones do not say which they are. */
TEST(a_peer_of_another_release)
{
	static const char *const releases[] = {"0.0.1\033[2J", NULL};
	static const char *const says[] = {
		"the peer is of release \"0.0.1\\x1b[2J\", this one is of release " HVD_VERSION,
		"the peer is of release ?, this one is of release " HVD_VERSION};
	struct side driver, shim;

	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
		if (i > 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		shake(&driver, &shim, &right, &right);
		driver.hs.done = true; /* only greets */
		assert_int_equal(hvd_handshake_start(&shim.hs, &shim.session, NULL), 0);
		hvd_conn_send(driver.conn, hello(&driver, releases[i]));
		while (shim.rc == 0)
			run();
		assert_string_equal(shim.err.msg, says[i]);
		hang_up(&driver, &shim);

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		shake(&driver, &shim, &right, &right);
		send_hello(&driver.hs, &driver.session, driver.conn);
		shim.hs.done = true; /* only says this, and hears the answers */
		hvd_conn_send(shim.conn, json_pack("{s:s, s:s*, s:s, s:s}", "t", "auth", "release", releases[i],
						   "nonce", "00000000000000000000000000000000", "cred", "00"));
		while (driver.rc == 0)
			run();
		assert_string_equal(driver.err.msg, says[i]);
		while (!shim.closed)
			run();
		hang_up(&driver, &shim);
	}
}

RUN_TESTS(.setup = open_pair, .teardown = close_pair, .no_sigpipe = true)
