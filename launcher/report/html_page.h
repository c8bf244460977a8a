/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html_page.h - the page of --report and --report-of: page.html with the events of launches in it.
 *
 * The page needs nothing but itself. Its script draws it in the browser, from the events alone, so the same events make the
 * same page, byte for byte. Texts of users and hosts cannot become HTML or script: the store escapes them
 * (event_store.h), the script makes text nodes of them, and the page's Content-Security-Policy allows that one script, by
 * its hash, and loads nothing.
 */
#ifndef HVD_HTML_PAGE_H
#define HVD_HTML_PAGE_H

#include "event_store.h"
#include "lib/base/err.h"

#include <stddef.h>

/* The page. *len does not count the zero byte. The caller frees it. */
char *hvd_html_page(const struct hvd_event_store *store, size_t *len);

/* Write the page to a new file, for this user only, which then takes the place of `path`. -1 with err set. */
int hvd_html_page_write(const struct hvd_event_store *store, const char *path, struct hvd_err *err);

/* Add the launches to the page at `path`: they are moved behind those that it shows, or take the place of earlier states
 * of themselves. Launches that end at the same time wait for each other. A file that is no such page of this user, or has
 * more than 64 MiB, is replaced. -1 with err set. */
int hvd_html_page_add(struct hvd_event_store *store, const char *path, struct hvd_err *err);

#endif
