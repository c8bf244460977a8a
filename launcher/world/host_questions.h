/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_questions.h - asks the agents of some hosts something about their ranks, with one deadline for all of them.
 *
 * agent/rank_watch.c and last_lines.h have the questions. Each object has one caller at a time.
 */
#ifndef HVD_HOST_QUESTIONS_H
#define HVD_HOST_QUESTIONS_H

#include "launcher/hosts/clients.h"
#include "launcher/hosts/host_table.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>

struct hvd_host_questions;

/* About the ranks of this world. `table` is not owned. */
struct hvd_host_questions *hvd_host_questions_create(struct event_base *base, unsigned world,
						     const struct hvd_host_table *table);
void hvd_host_questions_destroy(struct hvd_host_questions *questions); /* NULL is fine */

/* The answers by the number of the host, as text, in the order in which they came. `false`: the agent was told to end, and
 * has ended with its ranks instead. Those that have not come are missing. They stay the object's. */
typedef void hvd_host_answers_fn(const json_t *answers, void *arg);

/* `asked` has a message for each host that is asked, by its number as text; the messages are changed. Hosts that are not
 * admitted or not connected are left out. `done` is called once, from the event loop, at the latest after so many seconds.
 * `also`: it waits for hvd_host_questions_also(), too. A former caller that waits gets no answer. */
void hvd_host_questions_ask(struct hvd_host_questions *questions, json_t *asked, bool also, double seconds,
			    hvd_host_answers_fn *done, void *arg);
/* Somebody else has answered, whom the caller has asked as well. False: this is not awaited, or not any longer. */
bool hvd_host_questions_also(struct hvd_host_questions *questions);
/* Do not answer. */
void hvd_host_questions_forget(struct hvd_host_questions *questions);

/* The answer of an agent, and the end of a connection. */
void hvd_host_questions_message(struct hvd_host_questions *questions, const struct hvd_client *cl, const json_t *msg);
void hvd_host_questions_gone(struct hvd_host_questions *questions, const struct hvd_client *cl,
			     const struct hvd_err *why);

#endif
