/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 1

struct hvd_rv_packed {
	size_t len;
	unsigned char data[];
};

bool hvd_rv_charge(struct hvd_rv_budget *budget, size_t n)
{
	if (n > budget->total_max || budget->used > budget->total_max - n)
		return false;
	budget->used += n;
	if (budget->used > budget->peak)
		budget->peak = budget->used;
	return true;
}

void hvd_rv_refund(struct hvd_rv_budget *budget, size_t n)
{
	budget->used -= n;
}

void hvd_rv_value_edit(struct hvd_rv_value *v)
{
	if (v->packed)
		hvd_rv_refund(v->budget, sizeof(*v->packed) + v->packed->len);
	free(v->packed);
	v->packed = NULL;
	v->unpackable = false;
}

/* Give `old` (or a new value, where that is NULL) `len` bytes, for which `more` bytes are to be charged. */
static struct hvd_rv_value *resize(struct hvd_rv_budget *budget, struct hvd_rv_value *old, size_t len, size_t more,
				   enum hvd_rv_stored *why)
{
	struct hvd_rv_value *v;

	*why = len > budget->value_max ? HVD_RV_TOO_LONG : HVD_RV_NO_ROOM;
	if (len > budget->value_max || !hvd_rv_charge(budget, more))
		return NULL;
	v = realloc(old, sizeof(*v) + len);
	if (!v) {
		hvd_rv_refund(budget, more);
		return NULL;
	}
	v->len = len;
	*why = HVD_RV_STORED;
	return v;
}

struct hvd_rv_value *hvd_rv_value_new(struct hvd_rv_budget *budget, const void *data, size_t len,
				      enum hvd_rv_stored *why)
{
	struct hvd_rv_value *v = resize(budget, NULL, len, sizeof(*v) + len, why);

	if (v) {
		v->budget = budget;
		v->packed = NULL;
		v->unpackable = false;
		v->refs = 1;
		if (len > 0 && data)
			memcpy(v->data, data, len);
	}
	return v;
}

struct hvd_rv_value *hvd_rv_value_grow(struct hvd_rv_value *v, size_t len, enum hvd_rv_stored *why)
{
	hvd_rv_value_edit(v);
	return resize(v->budget, v, len, len - v->len, why);
}

struct hvd_rv_value *hvd_rv_value_ref(struct hvd_rv_value *v)
{
	v->refs++;
	return v;
}

void hvd_rv_value_unref(struct hvd_rv_value *v)
{
	if (!v || --v->refs > 0)
		return;
	hvd_rv_value_edit(v);
	hvd_rv_refund(v->budget, sizeof(*v) + v->len);
	free(v);
}

/* --- compressed --- */

static void keep_packed(struct hvd_rv_value *v, const void *data, size_t len)
{
	struct hvd_rv_packed *p;

	if (!hvd_rv_charge(v->budget, sizeof(*p) + len))
		return;
	p = hvd_xcalloc(1, sizeof(*p) + len);
	p->len = len;
	memcpy(p->data, data, len);
	v->packed = p;
}

bool hvd_rv_value_packed(struct hvd_rv_value *v, const void **data, size_t *len)
{
	if (!v->packed && !v->unpackable && v->len >= HVD_RV_PACK_MIN && v->len <= HVD_RV_PACK_MAX) {
		size_t room = v->len - v->len / 8, n; /* less is not worth the trouble */
		void *out = hvd_xcalloc(1, room);

		n = ZSTD_compress(out, room, v->data, v->len, LEVEL);
		if (!ZSTD_isError(n))
			keep_packed(v, out, n);
		v->unpackable = !v->packed;
		free(out);
	}
	if (!v->packed)
		return false;
	*data = v->packed->data;
	*len = v->packed->len;
	return true;
}

struct hvd_rv_value *hvd_rv_value_unpack(struct hvd_rv_budget *budget, const void *data, size_t data_len, size_t len,
					 enum hvd_rv_stored *why)
{
	struct hvd_rv_value *v;

	*why = HVD_RV_STORED;
	if (len > HVD_RV_PACK_MAX)
		return NULL;
	v = hvd_rv_value_new(budget, NULL, len, why);
	if (!v)
		return NULL;
	if (ZSTD_decompress(v->data, len, data, data_len) != len) {
		hvd_rv_value_unref(v);
		return NULL;
	}
	if (data_len < len)
		keep_packed(v, data, data_len);
	return v;
}
