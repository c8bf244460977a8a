/* SPDX-License-Identifier: Apache-2.0 */
#include "goodput.h"

#include <string.h>

double hvd_goodput_seconds(hvd_time from, hvd_time to)
{
	return to > from ? (double)((to - from) / 1000000) / 1000 : 0;
}

struct hvd_phases hvd_goodput_current(const struct hvd_goodput *goodput, hvd_time now)
{
	const hvd_time began = goodput->now.began, over = goodput->now.over ? goodput->now.over : now;
	const hvd_time failed = goodput->now.failed ? goodput->now.failed : over;
	const hvd_time init = goodput->now.init ? goodput->now.init : goodput->inits ? failed : began;

	if (!began)
		return (struct hvd_phases){.start = hvd_goodput_seconds(goodput->began, now)};
	return (struct hvd_phases){.init = hvd_goodput_seconds(began, init),
				   .training = hvd_goodput_seconds(init, failed),
				   .ending = hvd_goodput_seconds(failed, over),
				   .waiting = hvd_goodput_seconds(over, now)};
}

struct hvd_phases hvd_goodput_phases(const struct hvd_goodput *goodput, hvd_time now)
{
	struct hvd_phases sum = hvd_goodput_current(goodput, now);

	sum.start += goodput->past.start;
	sum.init += goodput->past.init;
	sum.training += goodput->past.training;
	sum.ending += goodput->past.ending;
	sum.waiting += goodput->past.waiting;
	return sum;
}

double hvd_goodput_share(const struct hvd_goodput *goodput, hvd_time now)
{
	const double total = hvd_goodput_seconds(goodput->began, now);

	return total > 0 ? hvd_goodput_phases(goodput, now).training / total : 0;
}

static void init_done(struct hvd_goodput *goodput, hvd_time at)
{
	if (!goodput->now.began || goodput->now.init || goodput->now.failed)
		return;
	goodput->now.init = at;
	if (goodput->inits)
		return;
	/* Now it is known that the generations before have not trained. */
	goodput->inits = true;
	goodput->past.init += goodput->past.training;
	goodput->past.training = 0;
}

void hvd_goodput_event(struct hvd_goodput *goodput, const struct hvd_event *event)
{
	switch (event->name) {
	case HVD_EV_GENERATION_BEGAN:
		goodput->past = hvd_goodput_phases(goodput, event->at);
		memset(&goodput->now, 0, sizeof(goodput->now));
		goodput->now.began = event->at;
		break;
	case HVD_EV_INIT_DONE:
		init_done(goodput, event->at);
		break;
	case HVD_EV_GENERATION_FAILED:
	case HVD_EV_GENERATION_ENDING: /* only the first reason counts */
		if (goodput->now.began && !goodput->now.failed)
			goodput->now.failed = event->at;
		break;
	case HVD_EV_GENERATION_ENDED:
		goodput->now.over = event->at;
		break;
	default:
		break;
	}
}
