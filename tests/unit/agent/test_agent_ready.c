/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks are ready, as a feature of an agent whose driver is this test. Ranks are real processes, and servers real
 * sockets; the time is the test's. */
#include "agent/agent.h"
#include "agent/ready_notify.h"
#include "agent/ready_try.h"
#include "lib/net/addr.h"
#include "lib/protocol/ready_question.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/un.h>
#include <sys/wait.h>

#define WORLD 1

struct world {
	struct hvd_agent agent;
	struct hvd_of_world *ready; /* the features' states, which begin so */
	struct hvd_agent **scan;
	json_t *said; /* the last message */
	int n_said;
	char dir[32];
	/* a server */
	int listener;
	in_port_t port;
	struct event *on_client, *on_request;
	const char *const *answers; /* the next ones */
	int asked;
	char request[512];
};

/* In place of the agent's own. */
void hvd_driver_client_send(struct hvd_driver_client *driver, json_t *msg)
{
	struct world *w = (struct world *)driver;

	assert_string_equal(json_string_value(json_object_get(msg, "t")), "ready");
	assert_int_equal(json_integer_value(json_object_get(msg, "world")), WORLD);
	json_decref(w->said);
	w->said = msg;
	w->n_said++;
}

static void lines(const void *arg, struct hvd_world_rank rank, struct hvd_rank_lines *out)
{
	char text[32];

	snprintf(text, sizeof(text), "line of %u", (unsigned)rank.rank);
	out->text = strdup(text);
	out->of = strdup("stderr");
}

SETUP(set_up, struct world, w)
{
	static const struct hvd_rank_source source = {.lines = lines};

	alarm(60);
	w->agent = (struct hvd_agent){
		.base = event_base_new(), .driver = (struct hvd_driver_client *)w, .source = &source};
	w->ready = calloc(1, hvd_ready_feature.size);
	w->scan = calloc(1, hvd_rank_scan_feature.size);
	assert_true(w->ready && w->scan);
	*w->ready = (struct hvd_of_world){.agent = &w->agent, .world = WORLD};
	*w->scan = &w->agent;
	hvd_rank_scan_feature.begin(w->scan);
	hvd_ready_feature.begin(w->ready);
	w->listener = -1;
	snprintf(w->dir, sizeof(w->dir), "/tmp/hvd-ready-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
}

static int tear_down(void **state)
{
	struct world *w = *state;

	hvd_ready_feature.end(w->ready);
	hvd_rank_scan_feature.end(w->scan);
	if (w->on_client)
		event_free(w->on_client);
	if (w->listener >= 0)
		close(w->listener);
	free(w->ready);
	free(w->scan);
	json_decref(w->said);
	event_base_free(w->agent.base);
	while (waitpid(-1, NULL, 0) > 0) /* who waits for a file ends by itself */
		;
	remove_tree(w->dir);
	free(w);
	return 0;
}

/* Run the loop until the condition holds, and let the time pass. */
#define until(w, condition)                                                                                            \
	while (!(condition)) {                                                                                         \
		usleep(20);                                                                                            \
		test_clock_pass((w)->agent.base, 0.01);                                                                \
	}
/* The same for what other processes do: the time stands still. */
#define until_done(w, condition)                                                                                       \
	while (!(condition)) {                                                                                         \
		usleep(20);                                                                                            \
		event_base_loop((w)->agent.base, EVLOOP_NONBLOCK);                                                     \
	}

/* Let so much time pass. */
static void pass(struct world *w, double seconds)
{
	const hvd_time end = test_clock + (hvd_time)(seconds * 1e9);

	until(w, test_clock >= end);
}

/* ---- the driver ---- */

static void tell(struct world *w, json_t *msg)
{
	assert_non_null(msg);
	hvd_ready_feature.messages[0].read(w->ready, msg);
	json_decref(msg);
}

static void ask(struct world *w, int n, const char *how, int ranks, double seconds)
{
	tell(w, json_pack("{s:s, s:i, s:s, s:i, s:f}", "t", "ready", "n", n, "how", how, "ranks", ranks, "seconds",
			  seconds));
}

static bool is_up(const struct world *w, int n)
{
	struct hvd_ready_answer answer;

	if (!w->said)
		return false;
	assert_int_equal(hvd_ready_answer_read(w->said, &answer, NULL), 0);
	assert_int_equal(answer.n, n);
	assert_true(answer.up);
	return true;
}

/* Wait for the answer that the ranks are late. */
static struct hvd_ready_answer late(struct world *w, int n)
{
	struct hvd_ready_answer answer;

	until(w, w->said);
	assert_int_equal(hvd_ready_answer_read(w->said, &answer, NULL), 0);
	assert_int_equal(answer.n, n);
	assert_false(answer.up);
	return answer;
}

/* ---- ranks ---- */

struct rank {
	uint32_t id;
	pid_t pid;
	int to, from; /* pipes to it: it sends what it gets to an address, and writes a byte when it has */
	char name[64];
};

static void send_to(const char *name, const char *text)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), barrier[2];
	struct iovec iov = {(void *)(uintptr_t) "BARRIER=1", 9};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {{0}};
	struct msghdr msg = {.msg_name = &sun,
			     .msg_namelen = len,
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	char c;

	memcpy(sun.sun_path, name, strlen(name));
	*sun.sun_path = '\0';
	if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&sun, len) < 0 || pipe(barrier) != 0)
		_exit(1);
	/* sd_notify_barrier(3): the other side has read all until it closes this. */
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &barrier[1], sizeof(int));
	if (sendmsg(fd, &msg, 0) < 0)
		_exit(1);
	close(barrier[1]);
	if (read(barrier[0], &c, 1) != 0)
		_exit(1);
	close(barrier[0]);
	close(fd);
}

/* Each order is "ADDRESS TEXT". */
static void run_rank(int in, int out)
{
	char order[512];
	ssize_t n;

	while ((n = read(in, order, sizeof(order) - 1)) > 0) {
		order[n] = '\0';
		*strchr(order, ' ') = '\0';
		send_to(order, order + strlen(order) + 1);
		if (write(out, "", 1) != 1)
			break;
	}
}

static void start(struct world *w, struct rank *rank, uint32_t id)
{
	json_t *env = json_object();
	int to[2], from[2];

	*rank = (struct rank){.id = id};
	hvd_ready_feature.rank_starts(w->ready, (struct hvd_world_rank){WORLD, id}, env);
	snprintf(rank->name, sizeof(rank->name), "%s",
		 json_object_get(env, "NOTIFY_SOCKET") ? json_string_value(json_object_get(env, "NOTIFY_SOCKET")) : "");
	json_decref(env);
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC | O_NONBLOCK), 0);
	rank->pid = fork();
	if (rank->pid == 0) {
		close(to[1]);
		close(from[0]);
		run_rank(to[0], from[1]);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	rank->to = to[1];
	rank->from = from[0];
	setpgid(rank->pid, rank->pid);
	hvd_rank_scan_feature.rank_began(w->scan, (struct hvd_world_rank){WORLD, id}, rank->pid);
	hvd_ready_feature.rank_began(w->ready, (struct hvd_world_rank){WORLD, id}, rank->pid);
}

/* Its process ends, and the agent hears of it. */
static void finish(struct world *w, struct rank *rank)
{
	close(rank->to);
	close(rank->from);
	kill(rank->pid, SIGKILL);
	assert_int_equal(waitpid(rank->pid, NULL, 0), rank->pid);
	hvd_ready_feature.rank_ending(w->ready, (struct hvd_world_rank){WORLD, rank->id});
	hvd_rank_scan_feature.rank_ended(w->scan, (struct hvd_world_rank){WORLD, rank->id});
}

/* The rank sends a text to an address, and the agent has read it. */
static void sends(struct world *w, const struct rank *rank, const char *address, const char *text)
{
	char c;

	assert_true(dprintf(rank->to, "%s %s", address, text) > 0);
	until_done(w, read(rank->from, &c, 1) == 1);
}

/* ---- a server ---- */

static void reserve(struct world *w, const char *address)
{
	struct hvd_addr addr;
	struct sockaddr_storage ss;
	socklen_t len;

	assert_int_equal(hvd_addr_parse(address, &addr), 0);
	len = hvd_addr_to_sockaddr(&addr, 0, &ss);
	w->listener = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(w->listener, (struct sockaddr *)&ss, len), 0);
	w->port = hvd_addr_port_of(w->listener);
}

static void on_request(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;
	const ssize_t n = read(fd, w->request, sizeof(w->request) - 1);
	const char *answer = w->answers[w->asked];

	assert_true(n > 0);
	w->request[n] = '\0';
	w->asked += w->answers[w->asked + 1] != NULL;
	assert_true(write(fd, answer, strlen(answer)) >= 0);
	event_free(w->on_request);
	close(fd);
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	assert_true(client >= 0);
	if (!w->answers) {
		w->asked++;
		close(client);
		return;
	}
	w->on_request = event_new(w->agent.base, client, EV_READ, on_request, w);
	event_add(w->on_request, NULL);
}

static void serve(struct world *w, const char *const *answers)
{
	w->answers = answers;
	assert_int_equal(listen(w->listener, 16), 0);
	w->on_client = event_new(w->agent.base, w->listener, EV_READ | EV_PERSIST, on_client, w);
	event_add(w->on_client, NULL);
}

/* For GET of a path, or only for a connection (NULL). */
static void ask_server(struct world *w, int n, const char *path, double seconds)
{
	char how[64];

	snprintf(how, sizeof(how), "%s:%d%s", path ? "http" : "tcp", (int)w->port, path ? path : "");
	ask(w, n, how, 1, seconds);
}

/* ---- tests ---- */

TEST_IN(a_server_that_comes_later, struct world *w)
{
	struct rank rank;

	reserve(w, "127.0.0.1");
	ask_server(w, 4, NULL, 600);
	start(w, &rank, 7);
	pass(w, 3);
	assert_null(w->said);
	serve(w, NULL);
	until(w, is_up(w, 4));
	pass(w, 60); /* it is not asked any more */
	assert_int_equal(w->asked, 1);
	assert_int_equal(w->n_said, 1);
	finish(w, &rank);
}

/* Ports of other programs are left alone. */
TEST_IN(no_server_is_asked_before_the_first_rank, struct world *w)
{
	struct rank rank;

	reserve(w, "127.0.0.1");
	serve(w, NULL);
	ask_server(w, 1, NULL, 600);
	pass(w, 10);
	assert_int_equal(w->asked, 0);
	start(w, &rank, 0);
	until(w, is_up(w, 1));
	finish(w, &rank);
}

TEST_IN(a_server_on_another_address_of_the_host, struct world *w)
{
	char own[HVD_ADDR_TEXT] = "";
	struct hvd_addr addr;
	struct ifaddrs *all;
	struct rank rank;

	assert_int_equal(getifaddrs(&all), 0);
	for (const struct ifaddrs *i = all; i && !*own; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
		    hvd_addr_from_sockaddr(i->ifa_addr, &addr, NULL) == 0 && !hvd_addr_loopback(&addr))
			hvd_addr_text(&addr, own);
	freeifaddrs(all);
	if (!*own)
		skip_because("this host has no address but loopback");
	reserve(w, own);
	serve(w, NULL);
	ask_server(w, 1, NULL, 600);
	start(w, &rank, 0);
	until(w, is_up(w, 1));
	finish(w, &rank);
}

TEST_IN(a_status_that_becomes_200, struct world *w)
{
	static const char *const answers[] = {"HTTP/1.1 503 Service Unavailable\r\n\r\n",
					      "HTTP/1.0 404 Not Found\r\n\r\n",
					      "SSH-2.0-x\r\n",
					      "",
					      "HTTP/1.1 204 No Content\r\n\r\n",
					      NULL};
	char host[64];
	struct rank rank;

	reserve(w, "127.0.0.1");
	serve(w, answers);
	ask_server(w, 2, "/health?a=b", 600);
	start(w, &rank, 0);
	until(w, is_up(w, 2));
	assert_int_equal(w->asked, 4);
	assert_int_equal(strncmp(w->request, "GET /health?a=b HTTP/1.1\r\n", 26), 0);
	snprintf(host, sizeof(host), "\r\nHost: 127.0.0.1:%d\r\n", (int)w->port);
	assert_in(w->request, host);
	assert_in(w->request, "\r\n\r\n");
	finish(w, &rank);
}

TEST_IN(a_server_that_never_becomes_ready, struct world *w)
{
	static const char *const answers[] = {"HTTP/1.1 503 Service Unavailable\r\n\r\n", NULL};
	struct hvd_ready_answer answer;
	struct rank rank;

	reserve(w, "127.0.0.1");
	serve(w, answers);
	ask_server(w, 2, "", 20);
	start(w, &rank, 3);
	answer = late(w, 2);
	assert_in(answer.why, "answers with status 503");
	assert_int_equal(answer.id, 3);
	assert_string_equal(answer.lines, "line of 3");
	assert_string_equal(answer.of, "stderr");
	assert_int_equal(strncmp(w->request, "GET / HTTP/1.1\r\n", 16), 0);
	finish(w, &rank);
}

/* Its kernel takes connections, as that of a program that has stopped. */
TEST_IN(a_server_that_says_nothing, struct world *w)
{
	struct rank rank;

	reserve(w, "127.0.0.1");
	assert_int_equal(listen(w->listener, 16), 0);
	ask_server(w, 2, "", 20);
	start(w, &rank, 3);
	assert_in(late(w, 2).why, "does not answer within 5 s");
	finish(w, &rank);
}

TEST_IN(nothing_is_left_when_the_ranks_have_ended, struct world *w)
{
	struct rank ranks[2];

	reserve(w, "127.0.0.1");
	ask(w, 2, "tcp:1", 2, 20);
	for (uint32_t i = 0; i < 2; i++)
		start(w, &ranks[i], i);
	pass(w, 2);
	finish(w, &ranks[0]);
	finish(w, &ranks[1]);
	pass(w, 60);
	assert_null(w->said);
	/* The next generation is asked anew. */
	ask_server(w, 3, NULL, 20);
	start(w, &ranks[0], 2);
	serve(w, NULL);
	until(w, is_up(w, 3));
	finish(w, &ranks[0]);
}

TEST_IN(a_file_that_is_made, struct world *w)
{
	char path[64], how[80];
	struct rank rank;

	snprintf(path, sizeof(path), "%s/ready", w->dir);
	snprintf(how, sizeof(how), "file:%s", path);
	ask(w, 1, how, 1, 1e6);
	start(w, &rank, 0);
	pass(w, 1);
	assert_null(w->said);
	make_file(w->dir, "/ready", "");
	until_done(w, is_up(w, 1));
	finish(w, &rank);
}

/* One of an earlier run. */
TEST_IN(an_old_file_counts_when_it_is_another, struct world *w)
{
	char path[64], other[64], how[80];
	struct hvd_ready_answer answer;
	struct rank rank;

	snprintf(path, sizeof(path), "%s/ready", w->dir);
	snprintf(other, sizeof(other), "%s/other", w->dir);
	snprintf(how, sizeof(how), "file:%s", path);
	assert_int_equal(symlink("/proc/self/exe", path), 0);
	make_file(w->dir, "/other", "");
	ask(w, 1, how, 1, 20);
	start(w, &rank, 0);
	answer = late(w, 1);
	assert_in(answer.why, "/ready was not made or changed since the start");
	assert_int_equal(answer.id, 0);
	json_decref(w->said);
	w->said = NULL;
	ask(w, 2, how, 1, 1e6);
	assert_int_equal(rename(other, path), 0);
	until_done(w, is_up(w, 2));
	finish(w, &rank);
}

TEST_IN(all_ranks_have_to_notify, struct world *w)
{
	struct rank ranks[2];

	ask(w, 5, "notify", 2, 600);
	for (uint32_t i = 0; i < 2; i++)
		start(w, &ranks[i], 10 + i);
	assert_int_equal(*ranks[0].name, '@');
	assert_string_not_equal(ranks[0].name, ranks[1].name);
	sends(w, &ranks[0], ranks[0].name, "STATUS=loading");
	sends(w, &ranks[0], ranks[0].name, "READY=1\nSTATUS=at work");
	sends(w, &ranks[0], ranks[0].name, "READY=1"); /* it counts once */
	assert_null(w->said);
	sends(w, &ranks[1], ranks[1].name, "READY=1\n");
	until(w, is_up(w, 5));
	sends(w, &ranks[1], ranks[1].name, "STOPPING=1"); /* it is still read */
	assert_int_equal(w->n_said, 1);
	for (int i = 0; i < 2; i++)
		finish(w, &ranks[i]);
}

TEST_IN(a_rank_cannot_notify_for_another, struct world *w)
{
	struct hvd_ready_answer answer;
	struct rank ranks[2];

	ask(w, 5, "notify", 2, 60);
	for (uint32_t i = 0; i < 2; i++)
		start(w, &ranks[i], i);
	sends(w, &ranks[1], ranks[0].name, "READY=1");
	sends(w, &ranks[1], ranks[1].name, "READY=1");
	assert_null(w->said);
	answer = late(w, 5);
	assert_string_equal(answer.why, "1 of the 2 ranks have not sent READY=1");
	assert_int_equal(answer.id, 0);
	assert_string_equal(answer.lines, "line of 0");
	for (int i = 0; i < 2; i++)
		finish(w, &ranks[i]);
}

/* Its socket is read a last time. */
TEST_IN(a_rank_that_ends_as_soon_as_it_has_notified, struct world *w)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct rank rank;

	ask(w, 5, "notify", 1, 60);
	start(w, &rank, 0);
	strcpy(sun.sun_path + 1, rank.name + 1);
	assert_int_equal(sendto(fd, "READY=1", 7, 0, (struct sockaddr *)&sun,
				(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(rank.name))),
			 7);
	close(fd);
	finish(w, &rank);
	assert_true(is_up(w, 5));
}

TEST_IN(questions_that_are_none, struct world *w)
{
	struct rank rank;

	tell(w, json_pack("{s:s}", "t", "ready"));
	ask(w, 1, "tcp:0", 1, 60);
	ask(w, 1, "notify", 0, 60);
	ask(w, 1, "notify", 1, 0);
	ask(w, 1, "started", 1, 60);
	start(w, &rank, 0);
	assert_string_equal(rank.name, "");
	pass(w, 100);
	assert_null(w->said);
	finish(w, &rank);
}

TEST(lines_of_servers_and_ranks)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {{"HTTP/1.1 200 OK", 200}, {"HTTP/1.0 503", 503}, {"HTTP/1.1 20", 0},   {"", 0},
		     {"HTTP/1.1 2x0", -1},     {"HTTP/x", -1},        {"HTTP/1.1 099", -1}, {"HTTP/2.0 200 ", -1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hvd_http_status(cases[i].text, strlen(cases[i].text)), cases[i].status);
	assert_true(hvd_notify_is_ready("READY=1", 7));
	assert_true(hvd_notify_is_ready("A=b\nREADY=1\n", 12));
	assert_false(hvd_notify_is_ready("READY=12", 8));
	assert_false(hvd_notify_is_ready("XREADY=1", 8));
	assert_false(hvd_notify_is_ready("READY=1\0", 8));
	assert_false(hvd_notify_is_ready("", 0));
}

RUN_TESTS(.setup = set_up, .teardown = tear_down, .no_sigpipe = true)
