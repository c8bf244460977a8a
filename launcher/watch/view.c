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

enum body {
	STATUS,
	STACKS,
	HELP
};

struct hvd_view {
	char *job, *time, *message;
	json_t *status;
	struct hvd_status_lines stacks;
	bool awaits_stacks;
	enum body body;
	enum hvd_status_order order;
	bool hosts;
	size_t top;   /* the first line of the body that is shown */
	size_t lines; /* of the body, as it was last laid out */
};

static const char *const orders[HVD_STATUS_ORDERS] = {"odd first", "by rank", "by CPU", "by memory", "by AWAIT"};

static const char *const help[] = {
	"s          take the stacks of all ranks, and show them; again: back",
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
	"store      which rank waits for which key of the rendezvous",
};

struct hvd_view *hvd_view_create(const char *job)
{
	struct hvd_view *view = hvd_xcalloc(1, sizeof(*view));

	view->job = hvd_xstrdup(job);
	view->time = hvd_xstrdup("");
	return view;
}

void hvd_view_destroy(struct hvd_view *view)
{
	if (!view)
		return;
	json_decref(view->status);
	hvd_status_lines_clear(&view->stacks);
	free(view->job);
	free(view->time);
	free(view->message);
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

void hvd_view_stacks(struct hvd_view *view, const char *text)
{
	hvd_status_lines_clear(&view->stacks);
	view->awaits_stacks = false;
	while (*text && view->stacks.n < MOST_LINES) {
		const size_t len = strcspn(text, "\n");

		hvd_status_add(&view->stacks, HVD_STATUS_ROW, hvd_xstrndup(text, len));
		text += len + (text[len] == '\n');
	}
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

enum hvd_view_action hvd_view_key(struct hvd_view *view, int key, size_t height)
{
	const size_t page = height > 3 ? height - 3 : 1;

	switch (key) {
	case 'q':
	case 'Q':
		return HVD_VIEW_LEAVE;
	case '?':
		return turn_to(view, HELP);
	case 's':
		turn_to(view, STACKS);
		if (view->body != STACKS || view->awaits_stacks)
			return HVD_VIEW_DRAW;
		view->awaits_stacks = true;
		return HVD_VIEW_STACKS;
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
	else if (view->body == STACKS && view->awaits_stacks)
		hvd_status_add(body, HVD_STATUS_ROW, hvd_xstrdup("taking the stacks …"));
	else if (view->body == STACKS)
		for (size_t i = 0; i < view->stacks.n; i++)
			hvd_status_add(body, HVD_STATUS_ROW, hvd_xstrdup(view->stacks.v[i].text));
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
	else
		hvd_xappendf(&text, "  %s", view->body == HELP ? "help" : "stacks");
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
	if (height > 1)
		put(out, HVD_STATUS_TITLES, width,
		    hvd_xstrdup(view->message ? view->message
					      : "q leave  s stacks  o sort  h hosts  ? help  arrows scroll"));
	hvd_status_lines_clear(&body);
}
