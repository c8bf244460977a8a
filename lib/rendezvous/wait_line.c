/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_line.h"

#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MOST 200

static const char waits_for[] = " waits for ", pid_is[] = " (pid ";

void hvd_wait_line_add(char **text, const struct hvd_addr *addr, uint32_t pid, struct hvd_slice key, size_t more)
{
	char where[HVD_ADDR_TEXT];

	hvd_xappendf(text, "%s%s", *text ? "\n" : "", hvd_addr_text(addr, where));
	if (pid)
		hvd_xappendf(text, "%s%u)", pid_is, (unsigned)pid);
	hvd_xappendf(text, "%s%.*s", waits_for, key.n > KEY_MOST ? KEY_MOST : (int)key.n, key.p);
	if (more > 0)
		hvd_xappendf(text, " and %zu more", more);
}

static void read_who(struct hvd_wait_line *line)
{
	const char *pid = memmem(line->who.p, line->who.n, pid_is, sizeof(pid_is) - 1);
	char addr[HVD_ADDR_TEXT];

	if (!pid)
		return;
	snprintf(addr, sizeof(addr), "%.*s", (int)(pid - line->who.p), line->who.p);
	if (hvd_addr_parse(addr, &line->addr) == 0)
		line->pid = (uint32_t)strtoul(pid + sizeof(pid_is) - 1, NULL, 10);
}

bool hvd_wait_line_next(const char **text, struct hvd_wait_line *line)
{
	const char *p = *text ? *text + strspn(*text, "\n") : "";
	const size_t n = strcspn(p, "\n");
	const char *at = memmem(p, n, waits_for, sizeof(waits_for) - 1);

	if (n == 0)
		return false;
	*text = p + n;
	*line = (struct hvd_wait_line){.line = {p, n}};
	if (!at)
		return true;
	line->who = (struct hvd_slice){p, (size_t)(at - p)};
	line->key.p = at + sizeof(waits_for) - 1;
	line->key.n = (size_t)(p + n - line->key.p);
	read_who(line);
	return true;
}
