/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks.h"

#include "lib/base/cleanup.h"
#include "lib/base/values.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

int hvd_frameworks_parse(const char *from, const char *text, unsigned *set, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	unsigned found = HVD_FW_NONE;

	if (strcasecmp(text, "auto") == 0 || strcasecmp(text, "none") == 0) {
		*set = strcasecmp(text, "auto") == 0 ? HVD_FW_AUTO : HVD_FW_NONE;
		return 0;
	}
	if (hvd_value_list(from, text, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		int bit = hvd_value_index(HVD_FRAMEWORKS_WORDS, names.v[i]);

		if (bit < 0) {
			hvd_err_set(err, HVD_E_USAGE, "%s: \"%.200s\" is not known", from, names.v[i]);
			return hvd_err_hint(err, "write auto, none, or some of " HVD_FRAMEWORKS_WORDS
						 " separated by commas");
		}
		found |= 1U << bit;
	}
	*set = found;
	return 0;
}

void hvd_frameworks_names(unsigned set, struct hvd_strv *names)
{
	const char *word = HVD_FRAMEWORKS_WORDS;

	for (unsigned bit = 1; *word; bit <<= 1) {
		size_t len = strcspn(word, "|");

		if (set & bit)
			hvd_strv_addf(names, "%.*s", (int)len, word);
		word += len + (word[len] == '|');
	}
}
