/* SPDX-License-Identifier: Apache-2.0 */
#include "html_page.h"

#include "html_template.h"
#include "lib/base/base64.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The places of page.html that are filled. */
#define SCRIPT_HASH "@SCRIPT@"
#define EVENTS      "@EVENTS@"
/* Around the script, with nothing between the text and these. */
#define SCRIPT_BEGIN "<script>"
#define SCRIPT_END   "</script>"

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
