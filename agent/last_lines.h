/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_lines.h - the last lines that ranks have written, while they run: a question of the driver, and its answer.
 *
 *   {"t":"lines", "id":I, "rank":RANK}       what has the rank written last?
 *   {"t":"answer", "id":I, "lines":TEXT, "of":OF}
 *                                            OF: what of its output the agent sees (struct hvd_rank_lines)
 * RANK is what the driver calls the process (agent.h).
 */
#ifndef HVD_LAST_LINES_H
#define HVD_LAST_LINES_H

#include "agent.h"

/* Add "lines" and "of" to a message. The text is escaped. */
void hvd_last_lines_add(const struct hvd_agent *agent, struct hvd_world_rank rank, json_t *msg);

#endif
