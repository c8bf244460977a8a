/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.h - values of the store, and the budget of bytes that pays for them.
 *
 * Values have reference counts: a value that is being sent to many readers is in memory once, and stays readable for
 * them if it is replaced or removed from the store. One thread.
 */
#ifndef HVD_RENDEZVOUS_VALUE_H
#define HVD_RENDEZVOUS_VALUE_H

#include <stdbool.h>
#include <stddef.h>

/* Limits of what clients may store in the server's memory. Must outlive the values. */
struct hvd_rv_budget {
	size_t value_max; /* bytes of one value */
	size_t total_max; /* bytes of everything */
	size_t used, peak;
};

struct hvd_rv_packed;

struct hvd_rv_value {
	struct hvd_rv_budget *budget;
	struct hvd_rv_packed *packed; /* NULL: not made yet, or no use; private */
	unsigned refs;
	bool unpackable; /* compressing it is no use; private */
	size_t len;
	unsigned char data[];
};

enum hvd_rv_stored {
	HVD_RV_STORED,
	HVD_RV_TOO_LONG, /* the value or a name is longer than is allowed: trying again is no use */
	HVD_RV_NO_ROOM,  /* the total, the number of scopes or the number of keys is used up */
};

/* Take `n` bytes from the budget; hvd_rv_refund() gives them back. False, and nothing taken, if the budget has too
 * few. */
bool hvd_rv_charge(struct hvd_rv_budget *budget, size_t n);
void hvd_rv_refund(struct hvd_rv_budget *budget, size_t n);

/* A copy of `data` with one reference; with NULL the caller fills in the bytes. NULL with *why set. */
struct hvd_rv_value *hvd_rv_value_new(struct hvd_rv_budget *budget, const void *data, size_t len,
				      enum hvd_rv_stored *why);
/* Make a value longer, to `len` bytes. The caller must have its only reference, and fills in the new bytes. Returns the
 * value's new place. NULL with *why set if there is no room: `v` is unchanged. */
struct hvd_rv_value *hvd_rv_value_grow(struct hvd_rv_value *v, size_t len, enum hvd_rv_stored *why);
struct hvd_rv_value *hvd_rv_value_ref(struct hvd_rv_value *v);
void hvd_rv_value_unref(struct hvd_rv_value *v); /* NULL is fine */
/* The caller, who has the only reference, is going to change the bytes. */
void hvd_rv_value_edit(struct hvd_rv_value *v);

/* Bytes of values that are compressed. Longer ones would keep the server busy for too long. */
#define HVD_RV_PACK_MIN 256
#define HVD_RV_PACK_MAX (16 << 20)
/* The value compressed by zstd. The first call compresses it, and the result stays in memory as long as the value.
 * False if it would not be smaller, or the budget has no room for it. */
bool hvd_rv_value_packed(struct hvd_rv_value *v, const void **data, size_t *len);
/*
 * Decompress a value of `len` bytes; the compressed form is kept, if there is room. NULL with *why set; HVD_RV_STORED
 * means that `data` is malformed, or does not have that length. Takes no more memory than the value needs, and none
 * before the budget has it.
 */
struct hvd_rv_value *hvd_rv_value_unpack(struct hvd_rv_budget *budget, const void *data, size_t data_len, size_t len,
					 enum hvd_rv_stored *why);

#endif
