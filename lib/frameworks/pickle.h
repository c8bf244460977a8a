/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.h - the small part of Python's pickle format that elastic workers speak.
 *
 * Reading makes a tree of plain values. Nothing is ever called or imported: a class is its two names, an object what
 * it is to be made of, and whoever reads the tree says which classes he takes. Only the opcodes that those
 * values need are known, all others are refused, as are pickles that are too long, hold too many values, or
 * nest or remember too much. Format: protocols 4 and 5, PEP 3154 and Python's pickletools.
 */
#ifndef HVD_PICKLE_H
#define HVD_PICKLE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_PICKLE_MAX        65536 /* bytes */
#define HVD_PICKLE_MAX_VALUES 8192  /* … and places in lists and the like */

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

/* Values may be shared, and a list or dict may even be within itself: walk to a known depth only. */
struct hvd_pickle_value {
	enum hvd_pickle_kind kind;
	int64_t number;                  /* BOOL, INT */
	const char *text;                /* STR, BYTES: points into what was read */
	size_t len;                      /* … their bytes */
	struct hvd_pickle_value **items; /* TUPLE … CALL */
	size_t n;
};

struct hvd_pickle;

/* Read a whole pickle. `bytes` must stay as they are while the result is in use. NULL with err set (HVD_E_PROTO,
 * HVD_E_LIMIT). Untrusted input is fine. */
struct hvd_pickle *hvd_pickle_read(const void *bytes, size_t len, struct hvd_err *err);
void hvd_pickle_free(struct hvd_pickle *pickle); /* NULL is fine */
const struct hvd_pickle_value *hvd_pickle_root(const struct hvd_pickle *pickle);

/* Is it a STR of that text; a CLASS of that module and name? False for NULL. */
bool hvd_pickle_is_str(const struct hvd_pickle_value *v, const char *text);
bool hvd_pickle_is_class(const struct hvd_pickle_value *v, const char *module, const char *name);
/* The value of a STR key in a DICT; NULL when it is not there or `v` is no DICT. */
const struct hvd_pickle_value *hvd_pickle_find(const struct hvd_pickle_value *v, const char *key);

#endif
