/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_service.c - a thread makes the look-ups, because a call of glibc's resolver has no limit and cannot be
 * cancelled. The thread and its caller share an inquiry, and the last one that needs it frees it. A thread that is
 * still waiting ends with the process, or when the process becomes another program.
 */
#include "name_service.h"

#include "lib/base/xalloc.h"

#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct inquiry {
	pthread_mutex_t lock; /* for all that follows but `addr` */
	pthread_cond_t change;
	bool answered, left; /* the thread has ended; the asker no longer waits */
	bool own_name;
	struct hvd_addr addr, own; /* `addr`: whose name is asked for; AF_UNSPEC: nobody's */
};

static void inquiry_free(struct inquiry *q)
{
	pthread_cond_destroy(&q->change);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static bool can_bind(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
	bool can = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0;

	if (fd >= 0)
		close(fd);
	return can;
}

/* *own is the first of the addresses that belongs to this host, as Gloo chooses. */
static bool own_name_found(struct hvd_addr *own)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	char name[256] = "";
	bool is = gethostname(name, sizeof(name) - 1) == 0 && getaddrinfo(name, NULL, &hints, &found) == 0;

	for (const struct addrinfo *at = is ? found : NULL; at && own->family == AF_UNSPEC; at = at->ai_next)
		if (can_bind(at))
			hvd_addr_from_sockaddr(at->ai_addr, own, NULL);
	if (found)
		freeaddrinfo(found);
	return is;
}

static void *ask(void *arg)
{
	struct inquiry *q = arg;
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&q->addr, 0, &ss);
	struct hvd_addr own = {AF_UNSPEC};
	char name[NI_MAXHOST];
	bool own_name = own_name_found(&own), left;

	pthread_mutex_lock(&q->lock);
	q->own_name = own_name;
	q->own = own;
	pthread_mutex_unlock(&q->lock);
	/* Whether there is a name does not matter, only how long that takes. */
	if (q->addr.family != AF_UNSPEC)
		(void)getnameinfo((struct sockaddr *)&ss, len, name, sizeof(name), NULL, 0, 0);
	pthread_mutex_lock(&q->lock);
	q->answered = true;
	left = q->left;
	pthread_cond_signal(&q->change);
	pthread_mutex_unlock(&q->lock);
	if (left)
		inquiry_free(q);
	return NULL;
}

static struct inquiry *inquiry_create(const struct hvd_addr *addr)
{
	struct inquiry *q = hvd_xcalloc(1, sizeof(*q));
	pthread_condattr_t attr;

	if (addr)
		q->addr = *addr;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->change, &attr);
	pthread_condattr_destroy(&attr);
	return q;
}

struct hvd_name_service hvd_name_service_ask(const struct hvd_addr *addr)
{
	struct hvd_name_service service = {0};
	struct inquiry *q = inquiry_create(addr);
	struct timespec until;
	pthread_t thread;
	bool answered;

	if (pthread_create(&thread, NULL, ask, q) != 0) {
		inquiry_free(q);
		return service;
	}
	pthread_detach(thread);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += HVD_NAME_SERVICE_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;

	pthread_mutex_lock(&q->lock);
	while (!q->answered && pthread_cond_timedwait(&q->change, &q->lock, &until) == 0)
		;
	answered = q->answered;
	service.slow = !answered;
	service.no_own_name = !q->own_name;
	service.own = q->own;
	q->left = true;
	pthread_mutex_unlock(&q->lock);
	if (answered)
		inquiry_free(q);
	return service;
}
