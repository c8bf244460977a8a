/* SPDX-License-Identifier: Apache-2.0 */
#include "host_check.h"

#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add_number(json_t *object, const char *key, int64_t value)
{
	if (value >= 0)
		json_object_set_new(object, key, json_integer(value));
}

json_t *hvd_host_check_json(const struct hvd_host_check *check)
{
	json_t *object = json_pack("{s:O*, s:s*, s:s*, s:s*, s:s*}", "mib", check->mib, "held", check->held, "gpu",
				   check->gpu, "hook", check->hook, "failed", check->failed);

	add_number(object, "tmp", check->tmp);
	add_number(object, "shm", check->shm);
	add_number(object, "memlock", check->memlock);
	add_number(object, "nofile", check->nofile);
	add_number(object, "gpus", check->gpus);
	return object;
}

static int64_t number(const json_t *object, const char *key, int64_t max)
{
	int64_t value;

	return hvd_get_int(object, key, 0, max, &value, NULL) == 0 ? value : -1;
}

static char *text(const json_t *object, const char *key)
{
	char shown[HVD_HOST_CHECK_TEXT + 1];
	const char *said;

	if (hvd_get_str(object, key, HVD_HOST_CHECK_TEXT, &said, NULL) != 0)
		return NULL;
	hvd_printable(said, shown, sizeof(shown));
	return hvd_xstrdup(shown);
}

bool hvd_host_check_is_mib(const json_t *list)
{
	bool all = json_is_array(list) && json_array_size(list) <= HVD_HOST_CHECK_GPUS;

	for (size_t i = 0; all && i < json_array_size(list); i++)
		all = json_is_integer(json_array_get(list, i)) && json_integer_value(json_array_get(list, i)) >= 0;
	return all;
}

void hvd_host_check_read(const json_t *object, struct hvd_host_check *check)
{
	*check = (struct hvd_host_check){.known = json_is_object(object),
					 .tmp = number(object, "tmp", INT64_MAX),
					 .shm = number(object, "shm", INT64_MAX),
					 .memlock = number(object, "memlock", INT64_MAX),
					 .nofile = number(object, "nofile", INT64_MAX),
					 .gpus = (int)number(object, "gpus", INT_MAX),
					 .mib = hvd_host_check_is_mib(json_object_get(object, "mib"))
							? json_incref(json_object_get(object, "mib"))
							: NULL,
					 .held = text(object, "held"),
					 .gpu = text(object, "gpu"),
					 .hook = text(object, "hook"),
					 .failed = text(object, "failed")};
}

void hvd_host_check_clear(struct hvd_host_check *check)
{
	if (!check)
		return;
	json_decref(check->mib);
	free(check->held);
	free(check->gpu);
	free(check->hook);
	free(check->failed);
	memset(check, 0, sizeof(*check));
}
