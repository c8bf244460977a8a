/* SPDX-License-Identifier: Apache-2.0 */
/* event_queue.c - a queue, and a timer for when the machine wants to be called. */
#include "event_queue.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct hosts {
	struct hvd_alloc list;
	uint32_t *jobs;
};

struct item {
	enum hvd_news_kind kind;
	uint32_t id;
	int value;
	struct hosts *hosts; /* then it is of these */
	struct item *next;
};

struct hvd_news {
	struct hvd_machine *machine;
	struct event *read, *tick;
	struct item *first, **last;
	struct hosts *hosts; /* as handed over last */
	bool stopped;
};

static void free_hosts(struct hosts *hosts)
{
	if (!hosts)
		return;
	hvd_alloc_clear(&hosts->list);
	free(hosts->jobs);
	free(hosts);
}

static void set_tick(struct hvd_news *news)
{
	hvd_time due = hvd_machine_due(news->machine);

	event_del(news->tick);
	if (due && !news->stopped) {
		struct timeval tv = hvd_left_tv(due);

		evtimer_add(news->tick, &tv);
	}
}

static void tell_hosts(struct hvd_news *news, struct item *it, hvd_time now)
{
	free_hosts(news->hosts);
	news->hosts = it->hosts;
	it->hosts = NULL;
	hvd_machine_hosts(news->machine, &news->hosts->list, now);
}

static void tell(struct hvd_news *news, const struct item *it, hvd_time now)
{
	struct hvd_machine *m = news->machine;

	switch (it->kind) {
	case HVD_NEWS_HOST_HERE:
		hvd_machine_host_here(m, it->id, now);
		break;
	case HVD_NEWS_HOST_LOST:
		hvd_machine_host_gone(m, it->id, HVD_HOST_LOST, now);
		break;
	case HVD_NEWS_HOST_UNFIT:
		hvd_machine_host_gone(m, it->id, HVD_HOST_UNFIT, now);
		break;
	case HVD_NEWS_ARRIVED:
		hvd_machine_arrived(m, it->id, now);
		break;
	case HVD_NEWS_CONNECTED:
		hvd_machine_connected(m, now);
		break;
	case HVD_NEWS_READY:
		hvd_machine_ready(m, it->id, now);
		break;
	case HVD_NEWS_EXITED:
		hvd_machine_exited(m, it->id, it->value, now);
		break;
	case HVD_NEWS_NOTIFIED:
		hvd_machine_notified(m, it->value != 0, now);
		break;
	case HVD_NEWS_UNCUT:
		hvd_machine_uncut(m, now);
		break;
	}
}

static void drop(struct item *it)
{
	free_hosts(it->hosts);
	free(it);
}

static struct item *take(struct hvd_news *news)
{
	struct item *it = news->first;

	news->first = it->next;
	if (!news->first)
		news->last = &news->first;
	return it;
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_news *news = arg;

	(void)fd;
	(void)what;
	while (news->first) {
		struct item *it = take(news);

		if (!news->stopped && it->hosts)
			tell_hosts(news, it, hvd_now());
		else if (!news->stopped)
			tell(news, it, hvd_now());
		drop(it);
	}
	set_tick(news);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_news *news = arg;

	(void)fd;
	(void)what;
	hvd_machine_tick(news->machine, hvd_now());
	set_tick(news);
}

static struct item *add(struct hvd_news *news)
{
	struct item *it = hvd_xcalloc(1, sizeof(*it));

	*news->last = it;
	news->last = &it->next;
	event_active(news->read, EV_TIMEOUT, 0);
	return it;
}

void hvd_news_add(struct hvd_news *news, enum hvd_news_kind kind, uint32_t id, int value)
{
	struct item *it = add(news);

	it->kind = kind;
	it->id = id;
	it->value = value;
}

void hvd_news_add_hosts(struct hvd_news *news, const struct hvd_alloc *hosts, const uint32_t *jobs)
{
	struct hosts *copy = hvd_xcalloc(1, sizeof(*copy));

	for (int i = 0; i < hosts->n_hosts; i++)
		hvd_alloc_add(&copy->list, hosts->hosts[i].name, hosts->hosts[i].slots, NULL);
	hvd_alloc_merge(&copy->list);
	copy->jobs = hvd_xcalloc((size_t)hosts->n_hosts + 1, sizeof(*copy->jobs));
	memcpy(copy->jobs, jobs, (size_t)hosts->n_hosts * sizeof(*copy->jobs));
	add(news)->hosts = copy;
}

uint32_t hvd_news_job_of(const struct hvd_news *news, const char *host)
{
	int at = news->hosts ? hvd_alloc_find(&news->hosts->list, host) : -1;

	return at >= 0 ? news->hosts->jobs[at] : 0;
}

void hvd_news_stop(struct hvd_news *news)
{
	news->stopped = true;
	event_del(news->tick);
}

struct hvd_news *hvd_news_create(struct event_base *base, struct hvd_machine *machine)
{
	struct hvd_news *news = hvd_xcalloc(1, sizeof(*news));

	news->machine = machine;
	news->last = &news->first;
	news->read = evtimer_new(base, on_read, news);
	news->tick = evtimer_new(base, on_tick, news);
	return news;
}

void hvd_news_destroy(struct hvd_news *news)
{
	if (!news)
		return;
	while (news->first)
		drop(take(news));
	event_free(news->read);
	event_free(news->tick);
	free_hosts(news->hosts);
	free(news);
}
