/* SPDX-License-Identifier: Apache-2.0 */
#include "timer_wheel.h"

void hvd_rv_timer_wheel_init(struct hvd_rv_timer_wheel *w)
{
	for (size_t i = 0; i < HVD_RV_TIMER_WHEEL_SLOTS; i++)
		w->slots[i].prev = w->slots[i].next = &w->slots[i];
	w->tick = hvd_now() / HVD_RV_TIMER_WHEEL_TICK;
	w->n = 0;
}

static void unlink_timer(struct hvd_rv_timer *s)
{
	s->prev->next = s->next;
	s->next->prev = s->prev;
	s->prev = s->next = NULL;
}

static void link_timer(struct hvd_rv_timer_wheel *w, struct hvd_rv_timer *s)
{
	int64_t tick = s->deadline / HVD_RV_TIMER_WHEEL_TICK + 1;
	struct hvd_rv_timer *head;

	if (tick <= w->tick)
		tick = w->tick + 1;
	head = &w->slots[(uint64_t)tick % HVD_RV_TIMER_WHEEL_SLOTS];
	s->next = head;
	s->prev = head->prev;
	head->prev->next = s;
	head->prev = s;
}

void hvd_rv_timer_wheel_set(struct hvd_rv_timer_wheel *w, struct hvd_rv_timer *s, hvd_time deadline)
{
	if (s->next)
		unlink_timer(s);
	else
		w->n++;
	s->deadline = deadline;
	link_timer(w, s);
}

void hvd_rv_timer_wheel_remove(struct hvd_rv_timer_wheel *w, struct hvd_rv_timer *s)
{
	if (!s->next)
		return;
	unlink_timer(s);
	w->n--;
}

struct hvd_rv_timer *hvd_rv_timer_wheel_due(struct hvd_rv_timer_wheel *w, hvd_time now)
{
	int64_t to = now / HVD_RV_TIMER_WHEEL_TICK;

	/* After a long sleep, one turn of the wheel checks all deadlines. */
	if (w->n == 0)
		w->tick = to;
	if (to - w->tick > HVD_RV_TIMER_WHEEL_SLOTS)
		w->tick = to - HVD_RV_TIMER_WHEEL_SLOTS;
	while (w->tick < to) {
		struct hvd_rv_timer *head = &w->slots[(uint64_t)(w->tick + 1) % HVD_RV_TIMER_WHEEL_SLOTS];

		for (struct hvd_rv_timer *s = head->next; s != head; s = s->next) {
			if (s->deadline <= now) {
				unlink_timer(s);
				w->n--;
				return s;
			}
		}
		w->tick++;
	}
	return NULL;
}
