/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - what hvdrun --watch shows on a screen of some size, and what a key changes of that.
 *
 * Pure: no terminal, no clock, no processes. The screen has a bar with the job and the time, the body, and a bar with the
 * keys or the last message. The body is the state of the launches with the table of their ranks or hosts, the stacks, the last
 * lines of a rank, or the help; it scrolls. Digits name a rank for the next key.
 */
#ifndef HVD_VIEW_H
#define HVD_VIEW_H

#include "launcher/diagnosis/status_lines.h"

#include <jansson.h>
#include <stddef.h>

/* Keys that are no characters. */
enum hvd_view_key {
	HVD_KEY_UP = 0x110000,
	HVD_KEY_DOWN,
	HVD_KEY_PAGE_UP,
	HVD_KEY_PAGE_DOWN,
	HVD_KEY_HOME,
	HVD_KEY_END,
};

enum hvd_view_action {
	HVD_VIEW_NOTHING,
	HVD_VIEW_DRAW,   /* the view has changed */
	HVD_VIEW_STACKS, /* the same, and it waits for hvd_view_text(), with the stacks of hvd_view_rank() */
	HVD_VIEW_LINES,  /* the same, with the last lines of that rank */
	HVD_VIEW_LEAVE,
};

struct hvd_view;

struct hvd_view *hvd_view_create(const char *job);
void hvd_view_destroy(struct hvd_view *view); /* NULL is fine */

/* The JSON of --status, which is not changed any more and of which the view takes a reference; `time`: of day, as text.
 * A message is forgotten. */
void hvd_view_status(struct hvd_view *view, json_t *status, const char *time);
/* The stacks or last lines, or why there are none. */
void hvd_view_text(struct hvd_view *view, const char *text);
/* The rank that is asked about, as --rank has it; NULL: all. */
const char *hvd_view_rank(const struct hvd_view *view);
/* Show this instead of the keys. */
void hvd_view_message(struct hvd_view *view, const char *text);

/* A character or an enum hvd_view_key was typed; the screen has `height` lines. */
enum hvd_view_action hvd_view_key(struct hvd_view *view, int key, size_t height);

/* Append `height` lines of at most `width` characters. */
void hvd_view_lines(struct hvd_view *view, size_t width, size_t height, struct hvd_status_lines *out);

#endif
