/* SPDX-License-Identifier: Apache-2.0 */
/*
 * question.h - a program that answers on stdout, run again and again while the event loop goes on.
 *
 * One process runs at a time, in a process group of its own, so that a key of the terminal does not end it. It is killed
 * when it takes too long, prints too much, or the question is destroyed, and when this process ends.
 */
#ifndef HVD_QUESTION_H
#define HVD_QUESTION_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

struct hvd_answer {
	const char *text; /* what it printed, with a zero byte behind it */
	size_t len;
	int status;          /* as a shell has it; 1 if it was killed, or could not be started */
	const char *message; /* the beginning of its stderr, without a newline at its end, or why it was killed */
	double seconds;      /* that it took */
};

/* The answer is valid until the function returns. It may not destroy the question. */
typedef void hvd_answer_fn(const struct hvd_answer *answer, void *arg);

struct hvd_question;

/* `seconds` and `most` bytes are its limits. */
struct hvd_question *hvd_question_create(struct event_base *base, int seconds, size_t most, hvd_answer_fn *fn,
					 void *arg);
void hvd_question_destroy(struct hvd_question *q); /* NULL is fine */

/* Is an answer awaited? */
bool hvd_question_runs(const struct hvd_question *q);
/* Ask now, unless an answer is awaited already. `argv` begins with the program's path. `fn` is called from the event loop. */
void hvd_question_ask(struct hvd_question *q, char *const *argv);

#endif
