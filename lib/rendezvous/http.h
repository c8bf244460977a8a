/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - heads of HTTP/1.x requests: a parser and a writer, without sockets.
 *
 * The parser reads a buffer that the caller fills. It copies nothing, and its only state is how much of the buffer it
 * has scanned, so it scans a head that arrives in pieces only once. The result depends only on the bytes, not on the
 * pieces in which they arrived.
 *
 * Paths are opaque: percent signs and queries are ordinary bytes of a name, as in Horovod's own server and client.
 */
#ifndef HVD_RENDEZVOUS_HTTP_H
#define HVD_RENDEZVOUS_HTTP_H

#include "slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hvd_http_method {
	HVD_HTTP_GET,
	HVD_HTTP_HEAD,
	HVD_HTTP_PUT,
	HVD_HTTP_DELETE,
	HVD_HTTP_OTHER, /* a valid method name that this server does not know */
};

struct hvd_http_req {
	enum hvd_http_method method;
	struct hvd_slice target; /* path, beginning with '/', query included */
	size_t head_len;         /* bytes up to and including the empty line */
	uint64_t length;         /* of the body; 0 when there is none */
	bool has_length;
	bool has_connection;   /* a Connection header was sent */
	bool keep_alive;       /* the client may send another request on this connection */
	bool http10;           /* HTTP/1.0: keep-alive has to be confirmed */
	bool expects_continue; /* Expect: 100-continue */
	/* The values of these headers, without the blanks around them; n is 0 without the header. Of several the last
	 * one counts. */
	struct hvd_slice accept, authorization;
};

enum hvd_http_result {
	HVD_HTTP_MORE, /* the head is not complete yet */
	HVD_HTTP_DONE, /* *req is filled in */
	HVD_HTTP_BAD,  /* *status is the answer; the bytes that follow cannot be parsed */
};

/*
 * Parse the head at buf[0..len). `*scanned` must be 0 for a new head. For the next call for the same head, with more
 * bytes, it must be unchanged (the buffer may have moved). A head longer than head_max is refused with 431.
 */
enum hvd_http_result hvd_http_parse(const char *buf, size_t len, size_t head_max, size_t *scanned,
				    struct hvd_http_req *req, int *status);

/* Split "/scope/key" into its two names; -1 unless there are exactly two names, and neither is empty. */
int hvd_http_split(struct hvd_slice target, struct hvd_slice *scope, struct hvd_slice *key);

/* What a status is in words; "" for one that no server of ours sends. */
const char *hvd_http_reason(int status);

#define HVD_HTTP_HEAD_ROOM 128

enum hvd_http_after {
	HVD_HTTP_AFTER_KEEP,    /* the connection stays open, as is usual in HTTP/1.1: no header */
	HVD_HTTP_AFTER_KEEP_10, /* the connection stays open, with a header for an HTTP/1.0 client */
	HVD_HTTP_AFTER_CLOSE,
};

/* Write the head of an answer. Returns its length, always below HVD_HTTP_HEAD_ROOM. */
size_t hvd_http_head(char out[HVD_HTTP_HEAD_ROOM], int status, uint64_t length, enum hvd_http_after after);

#endif
