/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a launch goes, while it runs. tests/unit/launcher/job/test_restart_history.c has it at the end. */
#include "launcher/events/goodput.h"

#include "tests/unit/unit.h"

#define SECOND 1000000000LL

static void happens(struct hvd_goodput *goodput, enum hvd_event_name name, int when)
{
	hvd_goodput_event(goodput, &(struct hvd_event){.name = name, .at = when * SECOND});
}

static void is(const struct hvd_goodput *goodput, int when, struct hvd_phases want)
{
	const struct hvd_phases phases = hvd_goodput_phases(goodput, when * SECOND);

	assert_true(phases.start == want.start);
	assert_true(phases.init == want.init);
	assert_true(phases.training == want.training);
	assert_true(phases.ending == want.ending);
	assert_true(phases.waiting == want.waiting);
}

TEST(at_each_moment)
{
	struct hvd_goodput goodput = {.began = SECOND};

	is(&goodput, 3, (struct hvd_phases){.start = 2});
	assert_true(hvd_goodput_share(&goodput, SECOND) == 0); /* no time has passed */
	happens(&goodput, HVD_EV_GENERATION_BEGAN, 4);
	is(&goodput, 6, (struct hvd_phases){.start = 3, .training = 2});
	happens(&goodput, HVD_EV_INIT_DONE, 7);
	is(&goodput, 9, (struct hvd_phases){.start = 3, .init = 3, .training = 2});
	assert_true(hvd_goodput_share(&goodput, 9 * SECOND) == 0.25);
	happens(&goodput, HVD_EV_GENERATION_FAILED, 10);
	is(&goodput, 12, (struct hvd_phases){.start = 3, .init = 3, .training = 3, .ending = 2});
	happens(&goodput, HVD_EV_GENERATION_ENDED, 12);
	is(&goodput, 15, (struct hvd_phases){.start = 3, .init = 3, .training = 3, .ending = 2, .waiting = 3});
	happens(&goodput, HVD_EV_GENERATION_BEGAN, 15);
	/* The program is known to call init_process_group(), and has not yet. */
	is(&goodput, 17, (struct hvd_phases){.start = 3, .init = 5, .training = 3, .ending = 2, .waiting = 3});
	happens(&goodput, HVD_EV_INIT_DONE, 17);
	is(&goodput, 18, (struct hvd_phases){.start = 3, .init = 5, .training = 4, .ending = 2, .waiting = 3});
}

RUN_TESTS()
