/* SPDX-License-Identifier: Apache-2.0 */
#include "nicspec.h"

#include "lib/base/strv.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <fnmatch.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

/* Read a subnet, "10.77.0.0/24", from nic->text. Returns NULL, or what is wrong with it. */
static const char *read_subnet(struct hvd_nicspec_entry *nic, char *slash)
{
	char *end;
	long bits;

	*slash = '\0';
	if (hvd_addr_parse(nic->text, &nic->net) != 0)
		return "the part before / is not an address";
	*slash = '/';
	bits = strtol(slash + 1, &end, 10);
	if (!isdigit((unsigned char)slash[1]) || *end || bits > (nic->net.family == AF_INET ? 32 : 128))
		return "the part after / is not a number of bits";
	nic->bits = (int)bits;
	nic->kind = HVD_NIC_SUBNET;
	return NULL;
}

/* Read one entry. Returns NULL, or what is wrong with it. */
static const char *read_entry(struct hvd_nicspec_entry *nic, const char *text)
{
	struct hvd_addr addr;

	memset(nic, 0, sizeof(*nic));
	nic->excluded = *text == '^';
	text += nic->excluded;
	if (!*text)
		return "it is empty";
	if (strlen(text) >= sizeof(nic->text))
		return "it is too long";
	for (const char *c = text; *c; c++)
		if (isspace((unsigned char)*c) || iscntrl((unsigned char)*c) || *c == '^')
			return "no interface has such a name";
	memcpy(nic->text, text, strlen(text) + 1);
	if (strchr(nic->text, '/'))
		return read_subnet(nic, strchr(nic->text, '/'));
	if (hvd_addr_parse(nic->text, &addr) == 0)
		return "that is the address of one host; write a subnet with its number of bits, as in 10.77.0.0/24";
	if (strpbrk(nic->text, "*?["))
		nic->kind = HVD_NIC_PATTERN;
	else if (strlen(nic->text) >= IF_NAMESIZE)
		return "no interface has so long a name";
	return NULL;
}

int hvd_nicspec_parse(struct hvd_nicspec *spec, char *const *entries, struct hvd_err *err)
{
	memset(spec, 0, sizeof(*spec));
	for (; entries && *entries; entries++) {
		const char *wrong;

		spec->v = hvd_xrealloc(spec->v, spec->n + 1, sizeof(*spec->v));
		wrong = read_entry(&spec->v[spec->n], *entries);
		if (wrong) {
			hvd_nicspec_clear(spec);
			hvd_err_set(err, HVD_E_USAGE, "\"%.100s\" names no network interfaces: %s", *entries, wrong);
			return hvd_err_hint(err, "give names (eth0), patterns (ib*), subnets (10.77.0.0/24), or "
						 "exclusions with ^ (^docker0)");
		}
		if (spec->v[0].excluded)
			spec->v[spec->n].excluded = true;
		spec->n++;
	}
	return 0;
}

int hvd_nicspec_check_all(char *const *entries, struct hvd_err *err)
{
	struct hvd_nicspec spec;
	int rc = hvd_nicspec_parse(&spec, entries, err);

	hvd_nicspec_clear(&spec);
	return rc;
}

int hvd_nicspec_check(const char *from, const char *text, struct hvd_err *err)
{
	struct hvd_strv entries = {0};
	int rc = hvd_value_list(from, text, &entries, err) != 0 ? -1 : hvd_nicspec_check_all(entries.v, err);

	hvd_strv_free(&entries);
	return rc;
}

void hvd_nicspec_clear(struct hvd_nicspec *spec)
{
	if (!spec)
		return;
	free(spec->v);
	memset(spec, 0, sizeof(*spec));
}

static bool in_subnet(const struct hvd_nicspec_entry *nic, const struct hvd_addr *addr)
{
	const unsigned char *a = (const unsigned char *)&nic->net.u, *b = (const unsigned char *)&addr->u;
	int bytes = nic->bits / 8, rest = nic->bits % 8;

	if (addr->family != nic->net.family || memcmp(a, b, (size_t)bytes) != 0)
		return false;
	return !rest || ((a[bytes] ^ b[bytes]) >> (8 - rest)) == 0;
}

static bool names(const struct hvd_nicspec_entry *nic, const char *iface, const struct hvd_addr *addr)
{
	switch (nic->kind) {
	case HVD_NIC_NAME:
		return strcmp(nic->text, iface) == 0;
	case HVD_NIC_PATTERN:
		return fnmatch(nic->text, iface, 0) == 0;
	case HVD_NIC_SUBNET:
		break;
	}
	return addr && in_subnet(nic, addr);
}

bool hvd_nicspec_wants(const struct hvd_nicspec *spec, const char *iface, const struct hvd_addr *addr)
{
	bool wanted = false, all = true;

	for (size_t i = 0; i < spec->n; i++) {
		if (spec->v[i].excluded && names(&spec->v[i], iface, addr))
			return false;
		if (spec->v[i].excluded)
			continue;
		all = false;
		wanted = wanted || names(&spec->v[i], iface, addr);
	}
	return wanted || all;
}

const char *hvd_nicspec_name(const struct hvd_nicspec *spec, size_t i)
{
	for (size_t k = 0; k < spec->n; k++)
		if (!spec->v[k].excluded && spec->v[k].kind == HVD_NIC_NAME && i-- == 0)
			return spec->v[k].text;
	return NULL;
}

bool hvd_nicspec_ipv6(const struct hvd_nicspec *spec)
{
	bool any = false;

	for (size_t i = 0; i < spec->n; i++) {
		if (spec->v[i].excluded)
			continue;
		if (spec->v[i].kind != HVD_NIC_SUBNET || spec->v[i].net.family != AF_INET6)
			return false;
		any = true;
	}
	return any;
}
