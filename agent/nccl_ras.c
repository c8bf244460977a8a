/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_ras.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "nccl_comms.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROTOCOL      "2"
#define PEERS_SECONDS "2" /* how long NCCL waits for its own processes on other hosts, several times */
#define LINE_MAX_LEN  1024
#define MOST_JSON     (64 << 20)
#define MOST_TEXT     4096
#define PAUSE_SECONDS 2.0
#define HELLO_SECONDS 2.0 /* in which NCCL answers to each of the first commands, or the process is stopped */
#define PROCESSES     3   /* that are tried: the kernel chooses one for each connection */
#define AGAIN_SECONDS 2.0 /* that there must be for a second question, besides the pause */

int hvd_nccl_ras_addr(const char *text, struct hvd_addr *addr, in_port_t *port)
{
	const char *colon = strrchr(text, ':');
	const size_t len = colon ? (size_t)(colon - text) : 0;
	char host[HVD_ADDR_TEXT];
	int64_t number = colon ? hvd_digits(colon + 1, strlen(colon + 1), 65535) : -1;

	if (number <= 0 || len >= sizeof(host))
		return -1;
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		memmove(host, host + 1, len - 1);
	}
	*port = (in_port_t)number;
	return hvd_addr_parse(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, addr) == 0 && hvd_addr_loopback(addr)
		       ? 0
		       : -1;
}

/* ---- a conversation ---- */

static int wait_fd(int fd, short events, hvd_time deadline, struct hvd_err *err)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	int rc;

	do
		rc = poll(&pfd, 1, hvd_left_ms(deadline));
	while (rc < 0 && errno == EINTR);
	return rc > 0 ? 0 : hvd_err_set(err, HVD_E_TIMEOUT, "NCCL does not answer");
}

static int dial(const struct hvd_addr *addr, in_port_t port, hvd_time deadline, struct hvd_err *err)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(addr, port, &ss), size = sizeof(int);
	hvd_cleanup_close int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return hvd_err_sys(err, "cannot ask NCCL");
	if (connect(fd, (const struct sockaddr *)&ss, len) != 0) {
		if (errno != EINPROGRESS)
			return hvd_err_sys(err, "NCCL does not serve its RAS");
		if (wait_fd(fd, POLLOUT, deadline, err) != 0)
			return -1;
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
		errno = error;
		if (error)
			return hvd_err_sys(err, "NCCL does not serve its RAS");
	}
	return hvd_take_fd(&fd);
}

/* Send a command, which is short enough for the socket's memory. */
static int say(int fd, const char *command, struct hvd_err *err)
{
	return send(fd, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command)
		       ? 0
		       : hvd_err_sys(err, "cannot ask NCCL");
}

/* Read the answer to a command, without its end. NCCL sends nothing more before the next command. */
static int hear(int fd, char line[LINE_MAX_LEN], hvd_time deadline, struct hvd_err *err)
{
	size_t len = 0;

	for (;;) {
		ssize_t n;

		if (wait_fd(fd, POLLIN, deadline, err) != 0)
			return -1;
		n = recv(fd, line + len, LINE_MAX_LEN - 1 - len, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return hvd_err_set(err, HVD_E_PROTO, "NCCL has closed the connection");
		len += (size_t)n;
		if (line[len - 1] == '\n') {
			line[len - 1] = '\0';
			return 0;
		}
		if (len == LINE_MAX_LEN - 1)
			return hvd_err_set(err, HVD_E_PROTO, "NCCL sends a line without end");
	}
}

static int command(int fd, const char *text, const char *answer, hvd_time deadline, struct hvd_err *err)
{
	char line[LINE_MAX_LEN];

	if (say(fd, text, err) != 0 || hear(fd, line, deadline, err) != 0)
		return -1;
	return strncasecmp(line, answer, strlen(answer)) == 0
		       ? 0
		       : hvd_err_set(err, HVD_E_PROTO, "NCCL has another protocol: %s", line);
}

/* The beginning of a text that people read. */
static json_t *text_only(const char *text, size_t len)
{
	return json_pack("{s:o}", "text", json_stringn_nocheck(text, len < MOST_TEXT ? len : MOST_TEXT));
}

/* A status, or {"text":TEXT}. */
static json_t *ask_process(const struct hvd_addr *addr, in_port_t port, hvd_time deadline, struct hvd_err *err)
{
	const hvd_time hello = hvd_earlier(deadline, hvd_deadline_in(HELLO_SECONDS));
	hvd_cleanup_close int fd = dial(addr, port, hello, err);
	hvd_cleanup_free char *text = NULL;
	json_t *status;
	struct hvd_err why = {0};
	bool json;
	size_t len;

	if (fd < 0 || command(fd, "CLIENT PROTOCOL " PROTOCOL "\n", "SERVER PROTOCOL ", hello, err) != 0 ||
	    command(fd, "TIMEOUT " PEERS_SECONDS "\n", "OK", hello, err) != 0)
		return NULL;
	json = command(fd, "SET FORMAT json\n", "OK", hello, &why) == 0;
	if (!json && !strstr(why.msg, "ERROR")) {
		if (err)
			*err = why;
		return NULL;
	}
	if (say(fd, "STATUS\n", err) != 0 || !(text = hvd_capture_fd(fd, "NCCL", MOST_JSON, deadline, &len, err)))
		return NULL;
	if (!json)
		return text_only(text, len);
	status = json_loadb(text, len, 0, NULL);
	if (!json_is_array(json_object_get(status, "communicators"))) {
		json_decref(status);
		hvd_err_set(err, HVD_E_PROTO, "NCCL's status has another form");
		return NULL;
	}
	return status;
}

static json_t *ask_once(const struct hvd_addr *addr, in_port_t port, hvd_time deadline, struct hvd_err *err)
{
	struct hvd_err why = {0};
	json_t *status = NULL;

	for (int i = 0; i < PROCESSES && !status && (i == 0 || why.code == HVD_E_TIMEOUT); i++)
		status = ask_process(addr, port, deadline, &why);
	if (!status && err)
		*err = why;
	return status;
}

json_t *hvd_nccl_ras_ask(const struct hvd_addr *addr, in_port_t port, bool twice, hvd_time deadline,
			 struct hvd_err *err)
{
	json_auto_t *first = ask_once(addr, port, deadline, err), *second = NULL;

	if (!first || json_object_get(first, "text"))
		return json_incref(first);
	if (twice && hvd_left(deadline) > PAUSE_SECONDS + AGAIN_SECONDS) {
		poll(NULL, 0, (int)(1000 * PAUSE_SECONDS));
		second = ask_once(addr, port, deadline, NULL);
	}
	return second ? hvd_nccl_comms(second, first) : hvd_nccl_comms(first, NULL);
}
