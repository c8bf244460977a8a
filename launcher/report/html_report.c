/* SPDX-License-Identifier: Apache-2.0 */
#include "html_report.h"

#include "event_store.h"
#include "html_page.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/capture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long the end of the launch waits for the writer, and before it for the writer of a page about a hang. */
#define END_SECONDS 5.0
/* How long the writer goes on at most: another launch's may hold the lock of the page, and be stopped. */
#define WRITER_SECONDS 300
#define MAX_ANSWER     2048

struct hvd_html_report {
	char *launch;
	const char *path;
	const struct hvd_log *log;
	struct hvd_event_store *store;
	int answer; /* why the page cannot be written, up to the writer's end; -1: nobody writes */
};

/* In a process of its own. */
static void write_page(int out, void *arg)
{
	struct hvd_html_report *report = arg;
	struct hvd_err err = {0};

	alarm(WRITER_SECONDS);
	if (hvd_html_page_add(report->store, report->path, &err) != 0)
		dprintf(out, "%s", err.msg);
}

/* Wait for the writer. False: it does not end. */
static bool finish(struct hvd_html_report *report)
{
	hvd_cleanup_free char *answer = NULL;
	size_t len;

	if (report->answer < 0)
		return true;
	answer = hvd_capture_fd(report->answer, "the report", MAX_ANSWER, hvd_deadline_in(END_SECONDS), &len, NULL);
	close(report->answer);
	report->answer = -1;
	if (!answer)
		hvd_warn(report->log, "%s may be missing (--report): it takes too long to write", report->path);
	else if (*answer)
		hvd_warn(report->log, "%s (--report)", answer);
	return answer;
}

static void begin(struct hvd_html_report *report)
{
	struct hvd_err err = {0};

	if (hvd_call_detached(write_page, report, NULL, &report->answer, &err) == 0)
		return;
	report->answer = -1;
	hvd_warn(report->log, "cannot write the report %s (--report): %s", report->path, err.msg);
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_html_report *report = arg;
	char line[HVD_EVENT_LINE + 1];

	hvd_event_store_add(report->store, line, hvd_event_line(report->launch, event, line));
	if (event->name == HVD_EV_LAUNCH_ENDED) {
		if (finish(report))
			begin(report);
		finish(report);
	} else if (event->name == HVD_EV_HANG_ACTION && report->answer < 0) {
		begin(report);
	}
}

struct hvd_html_report *hvd_html_report_create(struct hvd_event_log *events, const char *path,
					       const struct hvd_log *log)
{
	struct hvd_html_report *report = hvd_xcalloc(1, sizeof(*report));

	*report = (struct hvd_html_report){.launch = hvd_xstrdup(hvd_event_log_launch(events)),
					   .path = path,
					   .log = log,
					   .store = hvd_event_store_create(),
					   .answer = -1};
	hvd_event_log_listen(events, on_event, report);
	return report;
}

void hvd_html_report_destroy(struct hvd_html_report *report)
{
	if (!report)
		return;
	finish(report);
	hvd_event_store_destroy(report->store);
	free(report->launch);
	free(report);
}
