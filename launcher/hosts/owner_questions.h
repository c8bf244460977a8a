/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_questions.h - passes questions whose a socket is from one agent to another, and the answers back
 * (lib/protocol/owner_question.h).
 *
 * The driver keeps nothing of them: a question names its asker, and so does the answer. The relay that asks limits how
 * many questions are open, and gives each a deadline.
 */
#ifndef HVD_DRIVER_OWNER_QUESTIONS_H
#define HVD_DRIVER_OWNER_QUESTIONS_H

#include "clients.h"
#include "host_table.h"

#include <jansson.h>

/* A message "whose" and a message "owner" from a client. Those of clients that are no admitted host's agent are
 * ignored. */
void hvd_owner_questions_ask(const struct hvd_host_table *table, const struct hvd_client *cl, const json_t *msg);
void hvd_owner_questions_answer(const struct hvd_host_table *table, const struct hvd_client *cl, const json_t *msg);

#endif
