/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_wire.h - the messages of PyTorch's TCPStore: a parser and a writer, without sockets.
 *
 * A client sends requests, a byte with the query's number and its fields:
 *
 *   u8, u32, u64, i64   as they are in the client's memory; the magic number of VALIDATE shows the byte order
 *   string              u64 length, then as many bytes
 *   keys                u64 count, then as many strings
 *
 * Requests have no heads and no lengths, so a request that is not understood ends the connection. Source:
 * torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStoreLibUvBackend.cpp of PyTorch 2.2 to 2.13, whose limits are
 * those here. Before 2.2 the queries had other numbers, and there was no VALIDATE.
 *
 * A request with a list can be gigabytes. So the parser hands out items: a request without a list is one item, and a
 * request with a list is an item for each of its keys, or one item without a key if the list is empty. It reads a
 * buffer that the caller fills, and copies nothing. The result depends only on the bytes, not on the pieces in which
 * they arrived.
 */
#ifndef HVD_RENDEZVOUS_TCPSTORE_WIRE_H
#define HVD_RENDEZVOUS_TCPSTORE_WIRE_H

#include "slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_TCPSTORE_KEY_MAX   8192      /* bytes of a key */
#define HVD_TCPSTORE_VALUE_MAX (8 << 20) /* bytes of a value */
#define HVD_TCPSTORE_LIST_MAX  131072    /* keys of a list */

/* The answer is in brackets. */
enum hvd_tcpstore_query {
	HVD_TCPSTORE_VALIDATE,    /* the first of a connection, and only that [none] */
	HVD_TCPSTORE_SET,         /* key, value [none] */
	HVD_TCPSTORE_COMPARE_SET, /* key, expected, value [string] */
	HVD_TCPSTORE_GET,         /* key [string] */
	HVD_TCPSTORE_ADD,         /* key, number [i64] */
	HVD_TCPSTORE_CHECK,       /* keys [u8: 0 all are there, 1 not all] */
	HVD_TCPSTORE_WAIT,        /* keys [u8 0, once all are there] */
	HVD_TCPSTORE_GETNUMKEYS,  /* [i64] */
	HVD_TCPSTORE_DELETE_KEY,  /* key [i64: how many there were] */
	HVD_TCPSTORE_APPEND,      /* key, value [none] */
	HVD_TCPSTORE_MULTI_GET,   /* keys [a string for each] */
	HVD_TCPSTORE_MULTI_SET,   /* list of key, value [none] */
	HVD_TCPSTORE_CANCEL_WAIT, /* ends WAIT or BARRIER [u8 1] */
	HVD_TCPSTORE_PING,        /* u32, in `number`; clients send their process id [u32: the same] */
	HVD_TCPSTORE_QUEUE_PUSH,  /* key, value [none] */
	HVD_TCPSTORE_QUEUE_POP,   /* key [i64: values before; if not 0: string] */
	HVD_TCPSTORE_QUEUE_LEN,   /* key [i64] */
	HVD_TCPSTORE_LIST_KEYS,   /* [i64 count, then as many strings] */
	HVD_TCPSTORE_BARRIER,     /* key, number: of members [u8 0, once so many have come] */
	HVD_TCPSTORE_QUERIES,
};

/* A connection's parser. Zeroed: before the first byte. */
struct hvd_tcpstore_wire {
	bool validated;
	bool big;      /* the client is big-endian */
	bool in_list;  /* in the middle of a request with a list */
	uint8_t query; /* whose list it is */
	uint64_t left; /* items of the list that have not been handed out */
};

struct hvd_tcpstore_item {
	enum hvd_tcpstore_query query;
	bool first, last; /* of its request */
	/* Fields that the query does not have are empty; key.p is NULL when there is none. */
	struct hvd_slice key, value, expected;
	int64_t number;
};

enum hvd_tcpstore_parsed {
	HVD_TCPSTORE_MORE, /* an item has begun, and its end has not come */
	HVD_TCPSTORE_ITEM,
	HVD_TCPSTORE_BAD, /* no such request; nothing of this connection can be understood any longer */
};

/*
 * Parse the next item at the front of `data`, which takes *used bytes; the item points into them. With MORE, *need is
 * how many bytes the next call needs: always more than there are, and no more than the limits allow. With BAD, *why
 * says what is wrong, for people.
 */
enum hvd_tcpstore_parsed hvd_tcpstore_parse(struct hvd_tcpstore_wire *wire, const char *data, size_t len, size_t *used,
					    size_t *need, struct hvd_tcpstore_item *item, const char **why);

/* The first byte of a connection shows that the client speaks this protocol, or the one before PyTorch 2.2, in which
 * ADD was number 3. No HTTP request begins with either. */
#define HVD_TCPSTORE_FIRST_BYTE     '\0'
#define HVD_TCPSTORE_OLD_FIRST_BYTE '\3'

/* Numbers in the client's byte order. */
void hvd_tcpstore_put_u32(const struct hvd_tcpstore_wire *wire, uint32_t n, char out[4]);
void hvd_tcpstore_put_u64(const struct hvd_tcpstore_wire *wire, uint64_t n, char out[8]);

#endif
