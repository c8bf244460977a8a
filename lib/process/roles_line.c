/* SPDX-License-Identifier: Apache-2.0 */
#include "roles_line.h"

#include "command_line.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Is it srun's option that names groups? It may be abbreviated. */
static bool names_groups(const char *word)
{
	return strncmp(word, "--het", 5) == 0 || strncmp(word, "--pack", 6) == 0;
}

bool hvd_roles_line_has_group(char *const *argv)
{
	for (; argv && *argv; argv++)
		if (names_groups(*argv))
			return true;
	return false;
}

/* The groups that this word names. NULL: it is another word. */
static const char *groups_of(const char *word)
{
	const char *equals = names_groups(word) ? strchr(word, '=') : NULL;

	return equals ? equals + 1 : NULL;
}

/* The groups of a list as bits: "0,2-3". 0: it is no such list. */
static uint64_t parse_groups(const char *text)
{
	uint64_t groups = 0;

	for (;; text++) {
		int64_t first = hvd_take_digits(&text, HVD_MAX_WORLDS - 1), last = first;

		if (*text == '-') {
			text++;
			last = hvd_take_digits(&text, HVD_MAX_WORLDS - 1);
		}
		if (first < 0 || last < first || !strchr(",", *text))
			return 0;
		for (; first <= last; first++)
			groups |= UINT64_C(1) << first;
		if (!*text)
			return groups;
	}
}

/* Add a role for the component with these words. `group` below 0: its options name none, or one. */
static void add_role(struct hvd_strv *out, char *const *words, size_t n, int number, int group)
{
	bool command = false;

	if (number > 0)
		hvd_strv_add(out, ":");
	hvd_strv_addf(out, "--role=r%d", number);
	for (size_t i = 0; i < n; i++) {
		command |= words[i][0] != '-';
		if (group >= 0 && groups_of(words[i]))
			hvd_strv_addf(out, "--het-group=%d", group);
		else if (strcmp(words[i], "--hvd") != 0 && strcmp(words[i], "--no-hvd") != 0)
			hvd_strv_add(out, words[i]);
	}
	if (!command)
		hvd_strv_add(out, "COMMAND");
}

/* The same, or a role for each group of its list. Returns the number of the next role. */
static int add_component(struct hvd_strv *out, char *const *words, size_t n, int number)
{
	uint64_t groups = 0;

	for (size_t i = 0; i < n; i++)
		if (groups_of(words[i]))
			groups = parse_groups(groups_of(words[i]));
	if (!(groups & (groups - 1))) {
		add_role(out, words, n, number, -1);
		return number + 1;
	}
	for (int group = 0; group < HVD_MAX_WORLDS; group++)
		if (groups & UINT64_C(1) << group)
			add_role(out, words, n, number++, group);
	return number;
}

char *hvd_roles_line(char *const *argv)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0}, out = {0};
	int number = 0;

	for (size_t i = 0; argv && argv[i]; i++) {
		if (names_groups(argv[i]) && !strchr(argv[i], '=') && argv[i + 1]) {
			hvd_strv_addf(&words, "--het-group=%s", argv[i + 1]);
			i++;
		} else {
			hvd_strv_add(&words, argv[i]);
		}
	}
	hvd_strv_add(&out, "hvdrun");
	for (size_t i = 0; i < words.n;) {
		const size_t first = i + 1;

		for (i++; i < words.n && strcmp(words.v[i], ":") != 0; i++)
			;
		number = add_component(&out, words.v + first, i - first, number);
	}
	return number > 1 ? hvd_command_line(out.v) : NULL;
}
