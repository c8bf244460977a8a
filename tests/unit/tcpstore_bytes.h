/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_bytes.h - requests of TCPStore clients, byte by byte, for tests.
 */
#ifndef HVD_TESTS_TCPSTORE_BYTES_H
#define HVD_TESTS_TCPSTORE_BYTES_H

#include "lib/rendezvous/tcpstore_wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
	char *p;
	size_t n, room;
	bool big; /* write as a big-endian client does */
};

static inline void add_raw(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n >= b->room) {
		b->room = 2 * (b->n + n) + 64;
		b->p = realloc(b->p, b->room);
	}
	if (!b->p)
		abort();
	if (n > 0)
		memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void add_number(struct bytes *b, uint64_t v, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		char byte = (char)(v >> 8 * (b->big ? size - 1 - i : i));

		add_raw(b, &byte, 1);
	}
}

static inline void add_string(struct bytes *b, const char *s)
{
	add_number(b, strlen(s), 8);
	add_raw(b, s, strlen(s));
}

static inline void add_validate(struct bytes *b)
{
	add_number(b, HVD_TCPSTORE_VALIDATE, 1);
	add_number(b, 0x3C85F7CE, 4);
}

static inline void add_ping(struct bytes *b, uint32_t pid)
{
	add_number(b, HVD_TCPSTORE_PING, 1);
	add_number(b, pid, 4);
}

static inline void add_query(struct bytes *b, enum hvd_tcpstore_query query)
{
	add_number(b, query, 1);
}

static inline void add_key(struct bytes *b, enum hvd_tcpstore_query query, const char *key)
{
	add_query(b, query);
	add_string(b, key);
}

static inline void add_pair(struct bytes *b, enum hvd_tcpstore_query query, const char *key, const char *value)
{
	add_key(b, query, key);
	add_string(b, value);
}

static inline void add_count(struct bytes *b, enum hvd_tcpstore_query query, const char *key, int64_t n)
{
	add_key(b, query, key);
	add_number(b, (uint64_t)n, 8);
}

/* `n` keys, of one or two letters: "a", "b" … */
static inline void add_keys(struct bytes *b, enum hvd_tcpstore_query query, const char *const *keys, size_t n)
{
	add_query(b, query);
	add_number(b, n, 8);
	for (size_t i = 0; i < n; i++)
		add_string(b, keys[i]);
}

/* One of each query, after VALIDATE and PING; none of them waits. Returns how many requests there are. */
static inline int add_all_queries(struct bytes *b)
{
	static const char *const keys[] = {"a", "b", "counter"};

	add_validate(b);
	add_ping(b, 4711);
	add_count(b, HVD_TCPSTORE_ADD, "init/", 1);
	add_pair(b, HVD_TCPSTORE_SET, "a", "one");
	add_pair(b, HVD_TCPSTORE_SET, "b", "");
	add_pair(b, HVD_TCPSTORE_APPEND, "a", " and two");
	add_key(b, HVD_TCPSTORE_COMPARE_SET, "c");
	add_string(b, "");
	add_string(b, "three");
	add_key(b, HVD_TCPSTORE_GET, "a");
	add_count(b, HVD_TCPSTORE_ADD, "counter", -7);
	add_keys(b, HVD_TCPSTORE_CHECK, keys, 3);
	add_keys(b, HVD_TCPSTORE_CHECK, keys, 0);
	add_keys(b, HVD_TCPSTORE_WAIT, keys, 3);
	add_query(b, HVD_TCPSTORE_GETNUMKEYS);
	add_keys(b, HVD_TCPSTORE_MULTI_GET, keys, 3);
	add_query(b, HVD_TCPSTORE_MULTI_SET);
	add_number(b, 2, 8);
	add_string(b, "m");
	add_string(b, "1");
	add_string(b, "n");
	add_string(b, "2");
	add_query(b, HVD_TCPSTORE_CANCEL_WAIT);
	add_pair(b, HVD_TCPSTORE_QUEUE_PUSH, "q", "first");
	add_key(b, HVD_TCPSTORE_QUEUE_LEN, "q");
	add_key(b, HVD_TCPSTORE_QUEUE_POP, "q");
	add_key(b, HVD_TCPSTORE_QUEUE_POP, "q");
	add_key(b, HVD_TCPSTORE_DELETE_KEY, "b");
	add_query(b, HVD_TCPSTORE_LIST_KEYS);
	add_count(b, HVD_TCPSTORE_BARRIER, "barrier", 1);
	return 23;
}

#endif
