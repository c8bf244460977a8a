/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include <stdlib.h>
#include <string.h>

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
		v->refs = 1;
		if (len > 0)
			memcpy(v->data, data, len);
	}
	return v;
}

struct hvd_rv_value *hvd_rv_value_grow(struct hvd_rv_value *v, size_t len, enum hvd_rv_stored *why)
{
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
	hvd_rv_refund(v->budget, sizeof(*v) + v->len);
	free(v);
}
