/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.h - reads the small part of Python's pickle format that elastic workers send.
 *
 * Reading makes a tree of plain values and never calls or imports anything: a class is two names, an object is its
 * class, arguments and state, and the reader of the tree decides which classes it accepts. The reader refuses all
 * opcodes that such values do not need, and pickles that are too long, hold too many values, nest too deeply, or
 * remember too many values. Format: protocols 4 and 5, PEP 3154 and Python's pickletools. To write pickles: pickler.h.
 */
#ifndef HVD_PICKLE_H
#define HVD_PICKLE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_PICKLE_MAX        65536 /* bytes */
#define HVD_PICKLE_MAX_VALUES 8192  /* values; and separately items of all containers together */

enum hvd_pickle_kind {
	HVD_PICKLE_NONE,
	HVD_PICKLE_BOOL,
	HVD_PICKLE_INT,
	HVD_PICKLE_STR, /* UTF-8, not checked, not terminated */
	HVD_PICKLE_BYTES,
	HVD_PICKLE_TUPLE,
	HVD_PICKLE_LIST,
	HVD_PICKLE_DICT,   /* items: key, value, key, value, … */
	HVD_PICKLE_CLASS,  /* items: module, name (both STR) */
	HVD_PICKLE_OBJECT, /* items: class, arguments (TUPLE) and, if it has one, state */
	HVD_PICKLE_CALL,   /* items: class or function, arguments (TUPLE) */
};

/* A value may be an item of several others, and a list or dict may contain itself: walk to a fixed depth only. */
struct hvd_pickle_value {
	enum hvd_pickle_kind kind;
	int64_t number;                  /* BOOL, INT */
	const char *text;                /* STR, BYTES: points into what was read */
	size_t len;                      /* STR, BYTES: in bytes */
	struct hvd_pickle_value **items; /* TUPLE … CALL */
	size_t n;
};

struct hvd_pickle;

/* Read a whole pickle. The values point into `bytes`, which must not change or go before hvd_pickle_free(). NULL with
 * err set (HVD_E_PROTO, HVD_E_LIMIT). Untrusted input is fine. */
struct hvd_pickle *hvd_pickle_read(const void *bytes, size_t len, struct hvd_err *err);
void hvd_pickle_free(struct hvd_pickle *pickle); /* NULL is fine */
const struct hvd_pickle_value *hvd_pickle_root(const struct hvd_pickle *pickle);

/* Is the value a STR with this text; a CLASS with this module and name? False for NULL. */
bool hvd_pickle_is_str(const struct hvd_pickle_value *v, const char *text);
bool hvd_pickle_is_class(const struct hvd_pickle_value *v, const char *module, const char *name);
/* The value under a STR key of a DICT; NULL when there is no such key, or `v` is NULL or no DICT. */
const struct hvd_pickle_value *hvd_pickle_find(const struct hvd_pickle_value *v, const char *key);

#endif
