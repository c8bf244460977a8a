/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "launcher/diagnosis/status_text.h"
#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "question.h"
#include "screen.h"
#include "view.h"

#include <event2/event.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST_FAILURES 3
/* Times of what the last answer took, from its beginning to the next question. */
#define PAUSE_TIMES 4
/* Limits of the answers. */
#define STATUS_SECONDS 60
#define TEXT_SECONDS   180 /* of stacks, last lines */
#define STATUS_BYTES   (64u << 20)
#define TEXT_BYTES     (8u << 20)
/* Keys that are read in a row. */
#define MOST_KEYS 64

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

struct watch {
	const struct hvd_watch_opts *opts;
	struct event_base *base;
	struct event *input, *on_signal[N_SIGNALS];
	struct hvd_timer *next;
	struct hvd_question *status, *text;
	struct hvd_screen *screen; /* NULL: there is none */
	struct hvd_view *view;
	json_t *last;   /* answer; NULL: none yet */
	int failures;   /* in a row */
	bool postponed; /* the next question is: a launch answers one at a time */
	char *end;      /* messages of why it ends, for the user; NULL: the user knows */
	int rc, by_signal;
};

static void leave(struct watch *w, int rc, const char *why)
{
	w->rc = rc;
	free(w->end);
	w->end = why ? hvd_xstrdup(why) : NULL;
	event_base_loopbreak(w->base);
}

static void draw(struct watch *w)
{
	struct hvd_status_lines lines = {0};
	size_t width, height;

	hvd_screen_size(w->screen, &width, &height);
	hvd_view_lines(w->view, width, height, &lines);
	hvd_screen_draw(w->screen, &lines);
	hvd_status_lines_clear(&lines);
}

static void time_of_day(char *text, size_t size)
{
	const time_t now = time(NULL);
	struct tm tm;

	if (!localtime_r(&now, &tm) || strftime(text, size, "%H:%M:%S", &tm) == 0)
		*text = '\0';
}

static void print(struct watch *w, const char *time)
{
	hvd_cleanup_free char *text = w->opts->json ? json_dumps(w->last, JSON_COMPACT | JSON_REAL_PRECISION(12))
						    : hvd_job_status_text(w->last);
	const int printed = w->opts->json ? printf("%s\n", text) : printf("---- %s ----\n%s", time, text);

	if (printed < 0 || fflush(stdout) != 0)
		leave(w, 1, "hvdrun: error: cannot write the status");
}

static void show(struct watch *w)
{
	char time[16];

	time_of_day(time, sizeof(time));
	if (w->screen) {
		hvd_view_status(w->view, w->last, time);
		draw(w);
	} else {
		print(w, time);
	}
}

static void ask_later(struct watch *w, double took)
{
	const double pause = took * PAUSE_TIMES > w->opts->interval ? took * PAUSE_TIMES : w->opts->interval;

	hvd_timer_in_ms(w->next, (int64_t)((pause - took) * 1000));
}

static void on_status(const struct hvd_answer *answer, void *arg)
{
	struct watch *w = arg;
	json_t *said = answer->status == 0 ? json_loadb(answer->text, answer->len, 0, NULL) : NULL;
	const char *message = *answer->message ? answer->message : "hvdrun: error: --status has failed";

	if (json_array_size(json_object_get(said, "launches"))) {
		json_decref(w->last);
		w->last = said;
		w->failures = 0;
		show(w);
		ask_later(w, answer->seconds);
		return;
	}
	json_decref(said);
	if (!w->last)
		leave(w, answer->status ? answer->status : 1, message);
	else if (answer->status == 2)
		leave(w, 0, "hvdrun: the launch has ended");
	else if (++w->failures == MOST_FAILURES)
		leave(w, 1, message);
	else {
		if (w->screen) {
			hvd_view_message(w->view, message);
			draw(w);
		}
		ask_later(w, answer->seconds);
	}
}

static void on_next(void *arg)
{
	struct watch *w = arg;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};

	w->postponed = hvd_question_runs(w->text);
	if (w->postponed)
		return;
	hvd_strv_add(&argv, w->opts->hvdrun);
	hvd_strv_add(&argv, "--json");
	hvd_strv_addf(&argv, "--status=%s", w->opts->job);
	hvd_question_ask(w->status, argv.v);
}

/* Ask for the stacks or the last lines of a rank. */
static void ask_text(struct watch *w, const char *option)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};

	hvd_strv_add(&argv, w->opts->hvdrun);
	hvd_strv_addf(&argv, "--%s=%s", option, w->opts->job);
	if (hvd_view_rank(w->view))
		hvd_strv_addf(&argv, "--rank=%s", hvd_view_rank(w->view));
	hvd_question_ask(w->text, argv.v);
}

static void on_text(const struct hvd_answer *answer, void *arg)
{
	struct watch *w = arg;

	hvd_view_text(w->view, answer->len ? answer->text : answer->message);
	draw(w);
	if (w->postponed)
		hvd_timer_in_ms(w->next, 0);
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	struct pollfd gone = {.fd = fd};
	enum hvd_view_action action;
	size_t width, height;
	int key = 0;

	(void)what;
	for (int n = 0; n < MOST_KEYS && (key = hvd_screen_key(w->screen)) >= 0; n++) {
		hvd_screen_size(w->screen, &width, &height);
		action = hvd_view_key(w->view, key, height);
		if (action == HVD_VIEW_LEAVE) {
			leave(w, 0, NULL);
			return;
		}
		if (action == HVD_VIEW_STACKS)
			ask_text(w, "stacks");
		else if (action == HVD_VIEW_LINES)
			ask_text(w, "status");
		if (action != HVD_VIEW_NOTHING)
			draw(w);
	}
	if (key < 0 && poll(&gone, 1, 0) > 0 && gone.revents & (POLLHUP | POLLERR | POLLNVAL))
		leave(w, 1, "hvdrun: error: the terminal is gone");
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct watch *w = arg;

	(void)what;
	if (number == SIGWINCH) {
		hvd_screen_resize(w->screen);
		draw(w);
		return;
	}
	if (number != SIGINT)
		w->by_signal = (int)number;
	leave(w, 0, NULL);
}

static void begin_screen(struct watch *w)
{
	/* Handlers that are there before stay. */
	for (size_t i = 0; i < N_SIGNALS; i++) {
		w->on_signal[i] = evsignal_new(w->base, signals[i], on_signal, w);
		event_add(w->on_signal[i], NULL);
	}
	w->screen = w->opts->json ? NULL : hvd_screen_open();
	if (w->screen) {
		w->view = hvd_view_create(w->opts->job);
		w->input = event_new(w->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, w);
		event_add(w->input, NULL);
		draw(w);
		return;
	}
	/* Nothing is to be restored. */
	for (size_t i = 0; i < N_SIGNALS; i++) {
		event_free(w->on_signal[i]);
		w->on_signal[i] = NULL;
	}
}

/* What was seen last stays on the terminal when the launch has ended. */
static void end_screen(struct watch *w)
{
	const bool had = w->screen != NULL;
	char message[8192];

	hvd_screen_close(w->screen);
	w->screen = NULL;
	if (had && w->end && w->last) {
		hvd_cleanup_free char *text = hvd_job_status_text(w->last);

		fputs(text, stdout);
		fflush(stdout);
	}
	if (w->end) {
		hvd_printable(w->end, message, sizeof(message));
		fprintf(stderr, "%s\n", message);
	}
}

int hvd_watch(const struct hvd_watch_opts *opts)
{
	struct watch w = {.opts = opts, .base = event_base_new()};

	if (!w.base)
		abort();
	w.status = hvd_question_create(w.base, STATUS_SECONDS, STATUS_BYTES, on_status, &w);
	w.text = hvd_question_create(w.base, TEXT_SECONDS, TEXT_BYTES, on_text, &w);
	w.next = hvd_timer_new(w.base, on_next, &w);
	begin_screen(&w);
	hvd_timer_in_ms(w.next, 0);
	event_base_dispatch(w.base);

	end_screen(&w);
	hvd_question_destroy(w.status);
	hvd_question_destroy(w.text);
	hvd_timer_free(w.next);
	if (w.input)
		event_free(w.input);
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (w.on_signal[i])
			event_free(w.on_signal[i]);
	event_base_free(w.base);
	hvd_view_destroy(w.view);
	json_decref(w.last);
	free(w.end);
	if (w.by_signal)
		raise(w.by_signal);
	return w.rc;
}
