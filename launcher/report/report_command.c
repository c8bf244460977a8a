/* SPDX-License-Identifier: Apache-2.0 */
#include "report_command.h"

#include "event_store.h"
#include "html_page.h"
#include "launcher/events/event_log.h"
#include "lib/base/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line and its newline may be so long: twice of what this release writes. */
#define MAX_LINE (2 * HVD_EVENT_LINE)

/* Each line of the file. False: a read has failed. */
static bool read_lines(FILE *f, struct hvd_event_store *store)
{
	char line[MAX_LINE];
	size_t n = 0;
	bool cut = false; /* the line is longer */
	int c;

	while ((c = getc_unlocked(f)) != EOF) {
		if (c != '\n' && n < sizeof(line)) {
			line[n++] = (char)c;
			continue;
		}
		cut = cut || c != '\n';
		if (c != '\n')
			continue;
		if (cut)
			hvd_event_store_skip(store);
		else if (n > 0)
			hvd_event_store_add(store, line, n);
		n = 0;
		cut = false;
	}
	/* The last line of a launch that writes it at this moment may lack its end. */
	if (cut)
		hvd_event_store_skip(store);
	else if (n > 0)
		hvd_event_store_add(store, line, n);
	return !ferror(f);
}

static int read_events(const char *path, struct hvd_event_store *store, struct hvd_err *err)
{
	hvd_cleanup_fclose FILE *f = fopen(path, "re");

	if (!f || !read_lines(f, store)) {
		hvd_err_set(err, HVD_E_USAGE, "--report-of: the events %.200s cannot be read: %s", path,
			    strerror(errno));
		return hvd_err_hint(err, "name a file that hvdrun or srun has written with --events");
	}
	if (hvd_event_store_count(store))
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "--report-of: %.200s has no events of a launch", path);
	return hvd_err_hint(err, "name a file that hvdrun or srun has written with --events");
}

static int print(const struct hvd_event_store *store, struct hvd_err *err)
{
	size_t len;
	hvd_cleanup_free char *page = hvd_html_page(store, &len);

	if (fwrite(page, 1, len, stdout) == len && fflush(stdout) == 0)
		return 0;
	return hvd_err_sys(err, "cannot write the report");
}

int hvd_report_command(const char *events, const char *path, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_event_store *store = hvd_event_store_create();
	int rc = read_events(events, store, err);

	if (rc == 0)
		rc = path ? hvd_html_page_write(store, path, err) : print(store, err);
	if (rc == 0)
		hvd_verbose(log, "the report has %zu events", hvd_event_store_count(store));
	hvd_event_store_destroy(store);
	return rc;
}
