/* SPDX-License-Identifier: Apache-2.0 */
/* host_addrs.c - the child process has some threads. Each looks up one name after the other, and writes each result as
 * one `struct found`. The child ends with its main thread, whatever the other threads still wait for. */
#include "host_addrs.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"

#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS       32
#define CHILD_SECONDS 1.0 /* more than the child takes for itself, for starting and ending it */

struct found {
	uint32_t host;
	struct hvd_host_addrs addrs;
};
_Static_assert(sizeof(struct found) <= PIPE_BUF, "written at once, or other threads' answers get between");

struct names {
	const char *const *names;
	size_t n;
	hvd_time end;
	int out;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t change;
	size_t next;
	unsigned running;
};

static void resolve(const char *name, struct hvd_host_addrs *addrs)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;

	if (getaddrinfo(name, NULL, &hints, &list) != 0)
		return;
	for (const struct addrinfo *ai = list; ai && addrs->n < HVD_HOST_ADDRS_MAX; ai = ai->ai_next)
		if (hvd_addr_from_sockaddr(ai->ai_addr, &addrs->v[addrs->n], NULL) == 0)
			addrs->n++;
	freeaddrinfo(list);
}

static void *ask(void *arg)
{
	struct names *all = arg;

	pthread_mutex_lock(&all->lock);
	while (all->next < all->n) {
		struct found found = {.host = (uint32_t)all->next++};

		pthread_mutex_unlock(&all->lock);
		resolve(all->names[found.host], &found.addrs);
		if (found.addrs.n && write(all->out, &found, sizeof(found)) != (ssize_t)sizeof(found))
			_exit(1);
		pthread_mutex_lock(&all->lock);
	}
	all->running--;
	pthread_cond_signal(&all->change);
	pthread_mutex_unlock(&all->lock);
	return NULL;
}

static void ask_all(int out, void *arg)
{
	struct names *all = arg;
	struct timespec until = {.tv_sec = all->end / 1000000000, .tv_nsec = all->end % 1000000000};
	pthread_condattr_t attr;

	all->out = out;
	pthread_mutex_init(&all->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&all->change, &attr);
	pthread_mutex_lock(&all->lock);
	for (size_t i = 0; i < THREADS && i < all->n; i++) {
		pthread_t thread;

		all->running += pthread_create(&thread, NULL, ask, all) == 0;
	}
	while (all->running > 0 && pthread_cond_timedwait(&all->change, &all->lock, &until) == 0)
		;
}

struct hvd_host_addrs *hvd_host_addrs_find(const char *const *names, size_t n)
{
	struct hvd_host_addrs *out = hvd_xcalloc(n, sizeof(*out));
	hvd_cleanup_free const char **asked = hvd_xcalloc(n, sizeof(const char *));
	hvd_cleanup_free size_t *at = hvd_xcalloc(n, sizeof(*at));
	struct names all = {.names = asked, .end = hvd_deadline_in(HVD_HOST_ADDRS_SECONDS)};
	hvd_cleanup_free char *answer = NULL;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (hvd_addr_parse(names[i], &out[i].v[0]) == 0) {
			out[i].n = 1;
			continue;
		}
		at[all.n] = i;
		asked[all.n++] = names[i];
	}
	if (all.n)
		answer = hvd_call(ask_all, &all, "the look-up of host names", all.n * sizeof(struct found),
				  hvd_deadline_in(HVD_HOST_ADDRS_SECONDS + CHILD_SECONDS), &len, NULL, NULL);
	for (size_t i = 0; answer && i + sizeof(struct found) <= len; i += sizeof(struct found)) {
		struct found found;

		memcpy(&found, answer + i, sizeof(found));
		if (found.host < all.n && found.addrs.n <= HVD_HOST_ADDRS_MAX)
			out[at[found.host]] = found.addrs;
	}
	return out;
}
