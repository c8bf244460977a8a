/* SPDX-License-Identifier: Apache-2.0 */
#include "html_page.h"

#include "html_template.h"
#include "lib/base/base64.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The places of page.html that are filled. */
#define SCRIPT_HASH "@SCRIPT@"
#define EVENTS      "@EVENTS@"
/* Around the script, with nothing between the text and these. */
#define SCRIPT_BEGIN "<script>"
#define SCRIPT_END   "</script>"
#define EVENTS_BEGIN "id=\"events\">"

/* A larger page is not read. */
#define MOST_PAGE (64 << 20)

/* Write `text` up to the mark. Returns what is behind the mark. */
static const char *put_until(FILE *out, const char *text, const char *mark)
{
	const char *at = strstr(text, mark);

	if (!at)
		abort();
	fwrite(text, 1, (size_t)(at - text), out);
	return at + strlen(mark);
}

/* As a Content-Security-Policy names the script. */
static void put_script_hash(FILE *out)
{
	const char *script = strstr(hvd_html_template, SCRIPT_BEGIN) + strlen(SCRIPT_BEGIN);
	char text[HVD_BASE64_LENGTH(SHA256_DIGEST_SIZE)];
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, (size_t)(strstr(script, SCRIPT_END) - script), (const uint8_t *)script);
	sha256_digest(&sha, sizeof(digest), digest);
	hvd_base64_encode(digest, sizeof(digest), text);
	fprintf(out, "sha256-%.*s", (int)sizeof(text), text);
}

char *hvd_html_page(const struct hvd_event_store *store, size_t *len)
{
	hvd_cleanup_free char *events = NULL;
	const char *rest = hvd_html_template;
	char *page = NULL;
	size_t n;
	FILE *out = open_memstream(&page, len);

	if (!out)
		abort(); /* as without memory */
	events = hvd_event_store_json(store, &n);
	rest = put_until(out, rest, SCRIPT_HASH);
	put_script_hash(out);
	rest = put_until(out, rest, EVENTS);
	fwrite(events, 1, n, out);
	fputs(rest, out);
	fclose(out);
	return page;
}

int hvd_html_page_write(const struct hvd_event_store *store, const char *path, struct hvd_err *err)
{
	size_t len;
	hvd_cleanup_free char *page = hvd_html_page(store, &len);

	return hvd_replace_file(path, "the report", page, len, err);
}

/* ---- a page that launches share ---- */

/* The launches of the page at `path`. */
static struct hvd_event_store *read_launches(const char *path)
{
	struct hvd_event_store *store = hvd_event_store_create();
	hvd_cleanup_free char *page = NULL;
	const char *from, *to;
	struct stat st;

	if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size > MOST_PAGE)
		return store;
	page = hvd_xcalloc((size_t)st.st_size + 1, 1);
	hvd_read_start(path, page, (size_t)st.st_size);
	from = strstr(page, EVENTS_BEGIN);
	to = from ? strstr(from, SCRIPT_END) : NULL;
	if (to)
		hvd_event_store_add_text(store, from + strlen(EVENTS_BEGIN),
					 (size_t)(to - from) - strlen(EVENTS_BEGIN));
	return store;
}

/* Wait until nobody else has the lock. Whoever has had it has removed its file, so it is taken again if another one is
 * there now. -1: there are no locks here. */
static int lock(const char *name)
{
	struct stat mine, there;

	for (;;) {
		hvd_cleanup_close int fd = hvd_open_written(AT_FDCWD, name, 0, false, 0600, NULL);

		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX) != 0 || fstat(fd, &mine) != 0) {
			unlink(name);
			return -1;
		}
		if (lstat(name, &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			return hvd_take_fd(&fd);
	}
}

int hvd_html_page_add(struct hvd_event_store *store, const char *path, struct hvd_err *err)
{
	hvd_cleanup_free char *name = hvd_xasprintf("%s.lock", path);
	hvd_cleanup_close int fd = lock(name);
	struct hvd_event_store *all = read_launches(path);
	int rc;

	hvd_event_store_append(all, store);
	rc = hvd_html_page_write(all, path, err);
	hvd_event_store_destroy(all);
	if (fd >= 0)
		unlink(name);
	return rc;
}
