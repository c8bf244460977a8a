/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input for an agent's responder. The first byte tells how the rest is sent: as it is, or as JSON texts, one in each
 * line, signed with the launch's key. Only signed messages are answered; after any input the next ping is answered. In
 * a network namespace of its own.
 */
#include "agent/probe_server.h"
#include "fuzz.h"
#include "lib/protocol/conn.h"
#include "tests/unit/wire_decode.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const struct hvd_key key = {{7}};

static void go_apart(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	must(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &ifr) == 0);
	close(fd);
}

static int connect_to(in_port_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct linger reset = {.l_onoff = 1};
	int rc, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(fd >= 0);
	/* libFuzzer's timer interrupts it, every few seconds, if the machine is so busy that it has to wait. */
	while ((rc = connect(fd, (struct sockaddr *)&sin, sizeof(sin))) != 0 && errno == EINTR)
		;
	must(rc == 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return fd;
}

static void put_signed(int fd, struct hvd_wire *wire, json_t *msg)
{
	unsigned char *bytes;
	size_t len;

	if (msg && hvd_wire_encode(wire, msg, &bytes, &len, NULL) == 0) {
		send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		free(bytes);
	}
	json_decref(msg);
}

static void put_lines(int fd, struct hvd_wire *wire, char *text)
{
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		put_signed(fd, wire, json_loads(line, 0, NULL));
}

static void turns(struct event_base *base)
{
	for (int i = 0; i < 4; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

/* What a busy machine's network has not delivered yet makes a turn of the loop find nothing: wait for it. NULL: the
 * connection has ended before a whole message has come, or it is none, or none comes. */
static json_t *hear(struct event_base *base, int fd, struct hvd_wire *wire)
{
	unsigned char buf[HVD_PING_MAX + HVD_WIRE_BODY];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	json_t *msg = NULL;
	size_t len = 0, used;
	int rc = 0;

	for (int i = 0; rc == 0 && i < 1000; i++) {
		ssize_t n;

		turns(base);
		if (poll(&p, 1, i == 0 ? 0 : 5) <= 0)
			continue;
		n = recv(fd, buf + len, sizeof(buf) - len, MSG_DONTWAIT);
		if (n <= 0)
			return NULL;
		len += (size_t)n;
		rc = wire_decode(wire, buf, len, &used, &msg, NULL);
	}
	return msg;
}

/* Send a ping and read its answer. */
static void still_answers(struct event_base *base, in_port_t port)
{
	struct hvd_wire wire;
	json_t *pong;
	int fd = connect_to(port);

	hvd_wire_init(&wire, false);
	hvd_wire_set_key(&wire, &key);
	put_signed(fd, &wire, json_pack("{s:s, s:i, s:s}", "t", "ping", "to", 3, "nonce", "00ff"));
	pong = hear(base, fd, &wire);
	must(pong != NULL);
	must(json_integer_value(json_object_get(pong, "node")) == 3);
	json_decref(pong);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool apart;
	struct event_base *base;
	struct hvd_probe_server *rs;
	struct hvd_wire wire;
	char *text, c;
	int fd;

	if (!apart)
		go_apart();
	apart = true;
	if (size < 1)
		return 0;
	base = event_base_new();
	rs = hvd_probe_server_create(base, &key, 3, NULL);
	must(base && rs);
	hvd_wire_init(&wire, false);
	hvd_wire_set_key(&wire, &key);
	fd = connect_to(hvd_probe_server_port(rs));
	text = fuzz_text(data + 1, size - 1);
	if (data[0] % 2)
		put_lines(fd, &wire, text);
	else
		send(fd, text, size - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	turns(base);
	/* A signature cannot be guessed. */
	must(data[0] % 2 || recv(fd, &c, 1, MSG_DONTWAIT) <= 0);
	still_answers(base, hvd_probe_server_port(rs));
	close(fd);
	free(text);
	hvd_probe_server_destroy(rs);
	event_base_dispatch(base); /* until answers that are on their way are out, or lost */
	event_base_free(base);
	return 0;
}
