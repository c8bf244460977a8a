/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_settings.h - what an agent must know of the options of its launch once its host has a plan: the object
 * "settings" of that message (agent/driver_client.h). What it must know to reach the driver is in the boot text (boot.h).
 *
 * A setting is one row. The driver takes its value from the member of struct hvd_launch_spec with the same name.
 */
#ifndef HVD_AGENT_SETTINGS_H
#define HVD_AGENT_SETTINGS_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <jansson.h>

/* NUMBER(field, most), SECONDS(field, most) */
#define HVD_AGENT_SETTINGS(NUMBER, SECONDS)                                                                            \
	/* How many last lines of a rank's standard error are kept; 0: it is not read. */                              \
	NUMBER(stderr_lines, 1000)                                                                                     \
	/* How long a rank that was asked to end has until it is killed; Slurm's KillWait may be a day. */             \
	SECONDS(kill_wait, 100000)                                                                                     \
	/* How often the agent looks at what the ranks use (lib/host/rank_usage.h); 0: never. */                       \
	SECONDS(sample, HVD_MOST_SECONDS)

struct hvd_agent_settings {
#define HVD_AGENT_NUMBER(field, most)  unsigned field;
#define HVD_AGENT_SECONDS(field, most) double field;
	HVD_AGENT_SETTINGS(HVD_AGENT_NUMBER, HVD_AGENT_SECONDS)
#undef HVD_AGENT_NUMBER
#undef HVD_AGENT_SECONDS
};

/* A new reference. */
json_t *hvd_agent_settings_json(const struct hvd_agent_settings *settings);
/* -1 with err set if a setting is missing, or is no number that it may have; then *settings is zeroed. Untrusted input
 * is fine. */
int hvd_agent_settings_read(const json_t *object, struct hvd_agent_settings *settings, struct hvd_err *err);

#endif
