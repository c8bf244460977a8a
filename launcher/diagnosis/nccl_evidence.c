/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_evidence.h"

static const json_t *nccl_of(const json_t *answers)
{
	return json_object_get(answers, "nccl");
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* The first communicator in which ranks are behind: those of a summary begin with the largest. */
static const json_t *first_behind(const json_t *answers)
{
	json_t *comm;
	size_t i;

	json_array_foreach(json_object_get(nccl_of(answers), "odd"), i, comm)
	{
		if (number_of(comm, "behind") > 0)
			return comm;
	}
	return NULL;
}

enum hvd_nccl_evidence hvd_nccl_evidence(const json_t *first, const json_t *second)
{
	const json_t *a = nccl_of(first), *b = nccl_of(second);

	if (number_of(a, "comms") <= 0 || number_of(b, "comms") <= 0 ||
	    number_of(a, "missing") != number_of(b, "missing"))
		return HVD_NCCL_NONE;
	if (number_of(a, "comms") != number_of(b, "comms") || number_of(a, "begun") != number_of(b, "begun"))
		return HVD_NCCL_MOVES;
	if (first_behind(second))
		return HVD_NCCL_BEHIND;
	return number_of(b, "missing") ? HVD_NCCL_NONE : HVD_NCCL_EVEN;
}

bool hvd_nccl_is_behind(const json_t *answers, json_int_t rank)
{
	json_t *comm, *one;
	size_t i, k;

	json_array_foreach(json_object_get(nccl_of(answers), "odd"), i, comm)
	{
		json_array_foreach(json_object_get(comm, "ranks"), k, one)
		{
			if (json_is_integer(json_object_get(one, "rank")) && number_of(one, "rank") == rank)
				return true;
		}
	}
	return false;
}

bool hvd_nccl_knows_behind(const json_t *answers)
{
	json_t *comm, *one;
	size_t i, k;

	json_array_foreach(json_object_get(nccl_of(answers), "odd"), i, comm)
	{
		json_int_t known = 0;

		json_array_foreach(json_object_get(comm, "ranks"), k, one)
		{
			known += json_is_integer(json_object_get(one, "rank"));
		}
		if (known != number_of(comm, "behind"))
			return false;
	}
	return true;
}

void hvd_nccl_counts(const json_t *answers, json_int_t *count, json_int_t *most)
{
	*count = number_of(first_behind(answers), "count");
	*most = number_of(first_behind(answers), "most");
}

json_int_t hvd_nccl_called(const json_t *answers)
{
	return number_of(nccl_of(answers), "most");
}
