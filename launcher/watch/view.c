/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include "launcher/diagnosis/status_text.h"
#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Up to so many ranks have a row each; of more, so many. */
#define MOST_ROWS  200
#define FIRST_ROWS 20
/* Of the text of stacks. */
#define MOST_LINES 50000
/* Numbers of ranks that can be typed are below. */
#define MOST_RANK 10000000

enum body {
	STATUS,
	STACKS,
	LINES,
	HELP
};

struct hvd_view {
	char *job, *time, *message;
	json_t *status;
	struct hvd_status_lines text; /* stacks or last lines */
	bool awaits_text;
	long typed; /* the number that is being typed; -1: none */
	char *rank; /* that was asked about, as --rank has it; NULL: none */
	enum body body;
	enum hvd_status_order order;
	bool hosts;
	size_t top;   /* the first line of the body that is shown */
	size_t lines; /* of the body, as it was last laid out */
};

static const char *const orders[HVD_STATUS_ORDERS] = {"odd first", "by rank", "by CPU", "by memory", "by AWAIT"};

static const char *const help[] = {
	"12l        the last lines of rank 12's output; l: of the first row's; again: back",
	"12s        the stacks of rank 12; s: of all ranks; again: back",
	"o          sort: the odd ones first, by rank, by CPU, by memory, by AWAIT",
	"h          hosts instead of ranks; again: back",
	"arrows, PgUp, PgDn, Home, End    scroll",
	"q, Ctrl-C  leave; the job goes on",
	"?          this page; again: back",
	"",
	"CPU        processors in use; 100% is one",
	"AWAIT      share of the last minute in which its peers have waited for it",
	"DELAY      processors for which it was ready to run, and waited",
	"MEM        resident memory; MEM/h: how fast it grows",
	"READ       bytes a second by system calls; WRITE is alike",
	"OUT        since its last output",
	"GPU        GPUs in use; GMEM: their memory",
	"STORE      which key of the rendezvous it waits for",
};

struct hvd_view *hvd_view_create(const char *job)
{
	struct hvd_view *view = hvd_xcalloc(1, sizeof(*view));

	view->job = hvd_xstrdup(job);
	view->typed = -1;
	view->time = hvd_xstrdup("");
	return view;
}

void hvd_view_destroy(struct hvd_view *view)
{
	if (!view)
		return;
	json_decref(view->status);
	hvd_status_lines_clear(&view->text);
	free(view->job);
	free(view->time);
	free(view->message);
	free(view->rank);
	free(view);
}

void hvd_view_status(struct hvd_view *view, json_t *status, const char *time)
{
	json_decref(view->status);
	view->status = json_incref(status);
	free(view->time);
	view->time = hvd_xstrdup(time);
	free(view->message);
	view->message = NULL;
}

void hvd_view_message(struct hvd_view *view, const char *text)
{
	free(view->message);
	view->message = hvd_xstrdup(text);
}

const char *hvd_view_rank(const struct hvd_view *view)
{
	return view->rank;
}

void hvd_view_text(struct hvd_view *view, const char *text)
{
	hvd_status_lines_clear(&view->text);
	view->awaits_text = false;
	while (*text && view->text.n < MOST_LINES) {
		const size_t len = strcspn(text, "\n");

		hvd_status_add(&view->text, HVD_STATUS_ROW, hvd_xstrndup(text, len));
		text += len + (text[len] == '\n');
	}
	if (view->body == LINES)
		view->top = view->text.n; /* what is beyond the end is cut when it is laid out */
}

/* ---- keys ---- */

static enum hvd_view_action turn_to(struct hvd_view *view, enum body body)
{
	view->body = view->body == body ? STATUS : body;
	view->top = 0;
	return HVD_VIEW_DRAW;
}

static enum hvd_view_action scroll_to(struct hvd_view *view, size_t top)
{
	view->top = top; /* what is beyond the end is cut when it is laid out */
	return HVD_VIEW_DRAW;
}

/* The rank of the table's first row: the first odd one of the first launch, or 0. The caller frees it. */
static char *first_rank(const struct hvd_view *view)
{
	const json_t *launch = json_array_get(json_object_get(view->status, "launches"), 0);

	return hvd_status_first_rank(json_object_get(launch, "ranks"), view->order);
}

/* Turn to the text about the rank that was typed, or back. */
static enum hvd_view_action ask(struct hvd_view *view, enum body body)
{
	const bool back = view->body == body && view->typed < 0;

	if (back || view->awaits_text) {
		if (back || view->body != body)
			turn_to(view, body);
		return HVD_VIEW_DRAW;
	}
	free(view->rank);
	view->rank = view->typed >= 0 ? hvd_xasprintf("%ld", view->typed) : body == STACKS ? NULL : first_rank(view);
	view->body = body;
	view->top = 0;
	view->awaits_text = true;
	return body == STACKS ? HVD_VIEW_STACKS : HVD_VIEW_LINES;
}

static enum hvd_view_action type_digit(struct hvd_view *view, int digit)
{
	const long number = view->typed > 0 ? view->typed * 10 + digit : digit;

	view->typed = number < MOST_RANK ? number : view->typed;
	return HVD_VIEW_DRAW;
}

static enum hvd_view_action on_key(struct hvd_view *view, int key, size_t height)
{
	const size_t page = height > 3 ? height - 3 : 1;

	switch (key) {
	case 'q':
	case 'Q':
		return HVD_VIEW_LEAVE;
	case '?':
		return turn_to(view, HELP);
	case 's':
		return ask(view, STACKS);
	case 'l':
		return ask(view, LINES);
	case 'o':
		view->order = (view->order + 1) % HVD_STATUS_ORDERS;
		view->body = STATUS;
		return scroll_to(view, 0);
	case 'h':
		view->hosts = !view->hosts;
		view->body = STATUS;
		return scroll_to(view, 0);
	case HVD_KEY_UP:
		return scroll_to(view, view->top > 0 ? view->top - 1 : 0);
	case HVD_KEY_DOWN:
		return scroll_to(view, view->top + 1);
	case HVD_KEY_PAGE_UP:
		return scroll_to(view, view->top > page ? view->top - page : 0);
	case HVD_KEY_PAGE_DOWN:
	case ' ':
		return scroll_to(view, view->top + page);
	case HVD_KEY_HOME:
		return scroll_to(view, 0);
	case HVD_KEY_END:
		return scroll_to(view, view->lines);
	default:
		return HVD_VIEW_NOTHING;
	}
}

enum hvd_view_action hvd_view_key(struct hvd_view *view, int key, size_t height)
{
	const bool typed = view->typed >= 0;
	enum hvd_view_action action;

	if (key >= '0' && key <= '9')
		return type_digit(view, key - '0');
	action = on_key(view, key, height);
	view->typed = -1;
	return action == HVD_VIEW_NOTHING && typed ? HVD_VIEW_DRAW : action;
}

/* ---- layout ---- */

/* Cut a text after so many characters of UTF-8. */
static void cut(char *text, size_t width)
{
	size_t n = 0;

	for (; *text; text++)
		if ((*text & 0xc0) != 0x80 && n++ == width) {
			*text = '\0';
			return;
		}
}

static void put(struct hvd_status_lines *out, enum hvd_status_kind kind, size_t width, char *text)
{
	hvd_status_add(out, kind, text);
	cut(out->v[out->n - 1].text, width);
}

static void lay_out_body(const struct hvd_view *view, size_t width, size_t height, struct hvd_status_lines *body)
{
	const struct hvd_status_look look = {.width = width > 20 ? width : 20,
					     .rows = MOST_ROWS,
					     .first = FIRST_ROWS,
					     .reasons = height / 8 + 1,
					     .order = view->order,
					     .hosts = view->hosts};

	if (view->body == HELP)
		for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
			hvd_status_add(body, HVD_STATUS_ROW, hvd_xstrdup(help[i]));
	else if (view->body != STATUS && view->awaits_text)
		hvd_status_add(
			body, HVD_STATUS_ROW,
			hvd_xstrdup(view->body == STACKS ? "taking the stacks …" : "asking for the last lines …"));
	else if (view->body != STATUS)
		for (size_t i = 0; i < view->text.n; i++)
			hvd_status_add(body, HVD_STATUS_ROW, hvd_xstrdup(view->text.v[i].text));
	else if (view->status)
		hvd_job_status_lines(view->status, &look, body);
	else
		hvd_status_add(body, HVD_STATUS_ROW, hvd_xstrdup("asking …"));
}

static char *head(const struct hvd_view *view, size_t shown)
{
	char *text = hvd_xasprintf("hvdrun --watch %s  %s", view->job, view->time);

	if (view->body == STATUS)
		hvd_xappendf(&text, "  %s %s", view->hosts ? "hosts" : "ranks", orders[view->order]);
	else if (view->body == HELP)
		hvd_xappendf(&text, "  help");
	else if (!view->rank)
		hvd_xappendf(&text, "  stacks");
	else
		hvd_xappendf(&text, "  %s of rank %s", view->body == STACKS ? "stacks" : "last lines", view->rank);
	if (view->lines > shown)
		hvd_xappendf(&text, "  lines %zu-%zu of %zu", view->top + 1, view->top + shown, view->lines);
	return text;
}

void hvd_view_lines(struct hvd_view *view, size_t width, size_t height, struct hvd_status_lines *out)
{
	const size_t room = height > 2 ? height - 2 : 0;
	struct hvd_status_lines body = {0};

	lay_out_body(view, width, height, &body);
	view->lines = body.n;
	if (view->top + room > body.n)
		view->top = body.n > room ? body.n - room : 0;
	if (height > 0)
		put(out, HVD_STATUS_TITLES, width, head(view, room));
	for (size_t i = view->top; i < view->top + room; i++)
		put(out, i < body.n ? body.v[i].kind : HVD_STATUS_ROW, width,
		    hvd_xstrdup(i < body.n ? body.v[i].text : ""));
	if (height > 1 && view->typed >= 0)
		put(out, HVD_STATUS_TITLES, width, hvd_xasprintf("rank %ld: l last lines  s stacks", view->typed));
	else if (height > 1)
		put(out, HVD_STATUS_TITLES, width,
		    hvd_xstrdup(view->message
					? view->message
					: "q leave  l last lines  s stacks  o sort  h hosts  ? help  arrows scroll"));
	hvd_status_lines_clear(&body);
}
