/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.h - the small part of Python's pickle format that elastic workers send: read it (unpickler.c), and write it
 * (pickler.c).
 *
 * Reading makes a tree of plain values and never calls or imports anything: a class is two names, an object is its
 * class, arguments and state, and the reader of the tree decides which classes it accepts. The reader refuses all
 * opcodes that such values do not need, and pickles that are too long, hold too many values, nest too deeply, or
 * remember too many values. Format: protocols 4 and 5, PEP 3154 and Python's pickletools.
 */
#ifndef HVD_PICKLE_H
#define HVD_PICKLE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_PICKLE_MAX        65536 /* bytes */
#define HVD_PICKLE_MAX_VALUES 8192  /* values; and separately items of all containers together */

/* The opcodes that hvd reads or writes, with the names that pickletools gives them. */
enum hvd_pickle_opcode {
	HVD_OP_MARK = '(',
	HVD_OP_EMPTY_TUPLE = ')',
	HVD_OP_STOP = '.',
	HVD_OP_SHORT_BINBYTES = 'C',
	HVD_OP_BININT = 'J',
	HVD_OP_BININT1 = 'K',
	HVD_OP_BININT2 = 'M',
	HVD_OP_NONE = 'N',
	HVD_OP_REDUCE = 'R',
	HVD_OP_EMPTY_LIST = ']',
	HVD_OP_APPEND = 'a',
	HVD_OP_BUILD = 'b',
	HVD_OP_APPENDS = 'e',
	HVD_OP_BINGET = 'h',
	HVD_OP_LONG_BINGET = 'j',
	HVD_OP_SETITEM = 's',
	HVD_OP_TUPLE = 't',
	HVD_OP_SETITEMS = 'u',
	HVD_OP_EMPTY_DICT = '}',
	HVD_OP_PROTO = 0x80,
	HVD_OP_NEWOBJ = 0x81,
	HVD_OP_TUPLE1 = 0x85,
	HVD_OP_TUPLE2 = 0x86,
	HVD_OP_TUPLE3 = 0x87,
	HVD_OP_NEWTRUE = 0x88,
	HVD_OP_NEWFALSE = 0x89,
	HVD_OP_LONG1 = 0x8a,
	HVD_OP_SHORT_BINUNICODE = 0x8c,
	HVD_OP_STACK_GLOBAL = 0x93,
	HVD_OP_MEMOIZE = 0x94,
	HVD_OP_FRAME = 0x95,
};

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

/*
 * A pickle that is written: protocol 4, without frames and memo.
 *
 * The caller writes one opcode after the other, in the order in which pickletools shows them; the pickler does not
 * check that they make a value. Bytes that do not fit into `room` are left out, but `n` counts them: n > room means
 * that the pickle is incomplete, and shows how much room it needs.
 */
struct hvd_pickler {
	unsigned char *bytes; /* owned by the caller; NULL with room 0, to measure */
	size_t room, n;       /* bytes; start with n = 0 */
};

void hvd_pickler_begin(struct hvd_pickler *p);                /* write the protocol's number */
void hvd_pickler_op(struct hvd_pickler *p, unsigned char op); /* an opcode without an argument */
void hvd_pickler_int(struct hvd_pickler *p, int64_t number);
void hvd_pickler_str(struct hvd_pickler *p, const char *text); /* UTF-8; cut after 255 bytes */

#endif
