/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks_question.h - where the ranks of all worlds of a job are (hvdrun --stacks): one answer of those of the worlds
 * (launcher/world/stacks.h). An element of "hosts" has in "world" the number of its ranks' world, if that is not 0
 * (lib/protocol/worlds.h). A host that several worlds have asked is there for each.
 */
#ifndef HVD_STACKS_QUESTION_H
#define HVD_STACKS_QUESTION_H

#include "launcher/world/world.h"

#include <jansson.h>

struct hvd_stacks_question;

/* The worlds are not owned, and outlive the result. */
struct hvd_stacks_question *hvd_stacks_question_create(struct hvd_world *const *worlds, unsigned n);
void hvd_stacks_question_destroy(struct hvd_stacks_question *question); /* before the worlds; NULL is fine */

/* As in struct hvd_control_question, with the question as `owner`. The answer has all ranks, also if one is asked for. */
void hvd_stacks_question_ask(void *question, double seconds, const char *rank, void (*done)(char *answer, void *arg),
			     void *arg);
void hvd_stacks_question_forget(void *question);

#endif
