/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the launch's end. A client is one connection: it is accepted, sends its request, waits for the answer, reads
 * it, and is closed. Until then the next client waits in the kernel's queue. Each step has a deadline. */
#include "control.h"

#include "control_internal.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/accept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PER_WAKE (256 * 1024)

struct hvd_control {
	struct event_base *base;
	const struct hvd_control_question *questions, *asked; /* NULL: none is being answered */
	struct hvd_acceptor *acceptor;
	int client; /* -1 = none */
	struct hvd_timer *timer;
	struct event *event;
	char request[MAX_REQUEST];
	size_t got;
	char *answer;
	size_t len, sent;
};

/* ---- names ---- */

/* The job that this process runs in, in the form of LAUNCH. */
static void own_launch(char text[64])
{
	const struct hvd_batch_job job = hvd_batch_job_here();
	const char *key = job.scheduler->key;

	/* The tasks of an array have its number. */
	if (*job.name)
		snprintf(text, 64, "%.20s-%.*s", key, (int)strcspn(job.name, "["), job.name);
	else
		snprintf(text, 64, "%s", key);
}

/* ---- the launch's end ---- */

static void finish_client(struct hvd_control *control)
{
	if (control->asked)
		control->asked->forget(control->asked->owner);
	control->asked = NULL;
	event_free(control->event);
	control->event = NULL;
	hvd_timer_stop(control->timer);
	close(control->client);
	control->client = -1;
	free(control->answer);
	control->answer = NULL;
	control->got = control->len = control->sent = 0;
	hvd_acceptor_resume(control->acceptor);
}

static void on_client_time(void *arg)
{
	finish_client(arg);
}

static void wait_for_client(struct hvd_control *control, short events, void (*on_event)(evutil_socket_t, short, void *),
			    double seconds)
{
	if (control->event)
		event_free(control->event);
	control->event = event_new(control->base, control->client, (short)(events | EV_PERSIST), on_event, control);
	event_add(control->event, NULL);
	hvd_timer_at(control->timer, hvd_deadline_in(seconds));
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_control *control = arg;
	size_t left = control->len - control->sent;
	ssize_t n = send(fd, control->answer + control->sent, left < PER_WAKE ? left : PER_WAKE, MSG_NOSIGNAL);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		control->sent += (size_t)n;
	if (n <= 0 || control->sent == control->len)
		finish_client(control);
}

static void on_answer(char *answer, void *arg)
{
	struct hvd_control *control = arg;

	control->asked = NULL;
	control->answer = answer;
	control->len = control->answer ? strlen(control->answer) : 0;
	wait_for_client(control, EV_WRITE, on_writable, CLIENT_SECONDS);
}

/* The client has closed its end, or has sent more than a request. */
static void on_impatient(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	finish_client(arg);
}

/* The question of a line "NAME SECONDS RANK". NULL: there is none. */
static const struct hvd_control_question *parse(const struct hvd_control *control, double *seconds,
						char rank[MAX_REQUEST])
{
	const struct hvd_control_question *question = control->questions;
	char name[MAX_REQUEST];

	*rank = '\0';
	if (sscanf(control->request, "%63s %lf %63s", name, seconds, rank) < 2 ||
	    !(*seconds > 0 && *seconds <= HVD_CONTROL_MAX_SECONDS))
		return NULL;
	while (question->name && strcmp(question->name, name) != 0)
		question++;
	return question->name ? question : NULL;
}

static void on_request(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_control *control = arg;
	ssize_t n = recv(fd, control->request + control->got, sizeof(control->request) - 1 - control->got, 0);
	const struct hvd_control_question *question;
	char rank[MAX_REQUEST];
	double seconds;

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		control->got += (size_t)n;
	control->request[control->got] = '\0';
	if (n > 0 && !strchr(control->request, '\n') && control->got < sizeof(control->request) - 1)
		return;
	question = n > 0 ? parse(control, &seconds, rank) : NULL;
	if (!question) {
		finish_client(control);
		return;
	}
	wait_for_client(control, EV_READ, on_impatient, seconds + 2);
	control->asked = question;
	question->ask(question->owner, seconds, *rank ? rank : NULL, on_answer, control);
}

static void on_client(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct hvd_control *control = arg;

	(void)peer;
	if (!hvd_control_is_own(fd, true)) {
		close(fd);
		return;
	}
	hvd_acceptor_pause(control->acceptor);
	control->client = fd;
	wait_for_client(control, EV_READ, on_request, CLIENT_SECONDS);
}

/* Give a socket the name of the launch, or a longer one where another user has taken that. -1 with errno. */
static int bind_name(int fd, const char *launch, pid_t pid)
{
	struct sockaddr_un sun;
	char name[100];
	socklen_t len;
	unsigned more;

	snprintf(name, sizeof(name), "hvd/%u/%.50s/%d", (unsigned)getuid(), launch, (int)pid);
	len = hvd_control_address(name, &sun);
	if (bind(fd, (struct sockaddr *)&sun, len) == 0)
		return 0;
	if (errno != EADDRINUSE || hvd_random(&more, sizeof(more), NULL) != 0)
		return -1;
	snprintf(name, sizeof(name), "hvd/%u/%.50s/%08x/%d", (unsigned)getuid(), launch, more, (int)pid);
	len = hvd_control_address(name, &sun);
	return bind(fd, (struct sockaddr *)&sun, len);
}

struct hvd_control *hvd_control_open(struct event_base *base, const char *launch, pid_t pid,
				     const struct hvd_control_question *questions)
{
	static const struct hvd_acceptor_ops ops = {.accepted = on_client};
	struct hvd_control *control;
	char own[64];
	int fd;

	if (!launch) {
		own_launch(own);
		launch = own;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	control = hvd_xcalloc(1, sizeof(*control));
	*control = (struct hvd_control){.base = base, .questions = questions, .client = -1};
	if (fd >= 0 && bind_name(fd, launch, pid) == 0 && listen(fd, 4) == 0)
		control->acceptor = hvd_acceptor_create(base, fd, &ops, control, NULL);
	if (!control->acceptor) {
		if (fd >= 0)
			close(fd);
		free(control);
		return NULL;
	}
	control->timer = hvd_timer_new(base, on_client_time, control);
	return control;
}

void hvd_control_close(struct hvd_control *control)
{
	if (!control)
		return;
	if (control->client >= 0)
		finish_client(control);
	hvd_acceptor_destroy(control->acceptor);
	hvd_timer_free(control->timer);
	free(control);
}
