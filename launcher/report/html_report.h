/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html_report.h - the file of --report: a page of HTML about a launch, made of the launch's events (html_page.h).
 *
 * It is written when a hang has been reported, and again at the end of the launch. Other launches that are in the page stay
 * there. A process of its own writes it, since that may take for ever: on a file system of the network, say. A hang waits
 * for nothing; the end of the launch waits for a few seconds. The writer gives up after five minutes.
 */
#ifndef HVD_HTML_REPORT_H
#define HVD_HTML_REPORT_H

#include "launcher/events/event_log.h"

struct hvd_html_report;

/* Listen to the events, and write the file. Nothing is owned, and all must outlive the report, but for the events. */
struct hvd_html_report *hvd_html_report_create(struct hvd_event_log *events, const char *path,
					       const struct hvd_log *log);
void hvd_html_report_destroy(struct hvd_html_report *report); /* NULL is fine; no event may follow */

#endif
