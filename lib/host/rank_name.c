/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_name.h"

#include "lib/base/digits.h"
#include "lib/base/size.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int hvd_rank_name_parse(const char *text, struct hvd_rank_name *name)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyz0123456789-_/";
	const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
	const size_t len = colon ? (size_t)(colon - text) : 0;
	const int64_t rank = hvd_digits(digits, strlen(digits), HVD_MAX_RANKS - 1);

	if (rank < 0 || len >= sizeof(name->role) || (colon && len == 0) || (colon && strspn(text, known) != len))
		return -1;
	*name = (struct hvd_rank_name){.rank = (uint32_t)rank};
	memcpy(name->role, text, len);
	return 0;
}

const char *hvd_rank_name_text(const char *role, int64_t rank, char text[HVD_RANK_NAME])
{
	const bool any = role && *role;

	snprintf(text, HVD_RANK_NAME, "%.*s%s%" PRId64, HVD_ROLE_NAME - 1, any ? role : "", any ? ":" : "", rank);
	return text;
}
