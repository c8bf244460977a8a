/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nicspec.h - which network interfaces a user wants: the list that --nics takes.
 *
 *   NAME       the interface of that name, which every host must have
 *   PATTERN    interfaces whose names match, with *, ? and [...] as in a shell
 *   ADDR/BITS  the addresses of that subnet, on whatever interface
 *   ^…         excludes what follows, which is one of the three
 *
 * An address of an interface is wanted when an entry without ^ names it, or when there is no such entry, and no entry
 * with ^ names it. When the first entry has ^, all entries exclude, as in NCCL's ^docker0,virbr0.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_NICSPEC_H
#define HVD_NICSPEC_H

#include "addr.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct hvd_nicspec_entry {
	enum {
		HVD_NIC_NAME,
		HVD_NIC_PATTERN,
		HVD_NIC_SUBNET,
	} kind;
	bool excluded;
	char text[64];       /* without ^ */
	struct hvd_addr net; /* HVD_NIC_SUBNET only, as is `bits` */
	int bits;
};

/* A zeroed struct wants everything. */
struct hvd_nicspec {
	struct hvd_nicspec_entry *v;
	size_t n;
};

/* Read a list of entries, which is NULL-terminated or NULL. On success the caller clears *spec. After an error
 * (HVD_E_USAGE, which names the wrong entry and why it is wrong) *spec is empty. */
int hvd_nicspec_parse(struct hvd_nicspec *spec, char *const *entries, struct hvd_err *err);
/* Only check: entries as above, or a list with commas between them, which `from` names in messages (values.h). */
int hvd_nicspec_check_all(char *const *entries, struct hvd_err *err);
int hvd_nicspec_check(const char *from, const char *text, struct hvd_err *err);
void hvd_nicspec_clear(struct hvd_nicspec *spec); /* leaves it empty; NULL is fine */

/* Is the address of the interface wanted? `addr` NULL: is the interface wanted by its name alone? */
bool hvd_nicspec_wants(const struct hvd_nicspec *spec, const char *iface, const struct hvd_addr *addr);

/* The i-th interface (from 0) that is listed by its full name, and so must exist on every host; NULL: there are no
 * more. */
const char *hvd_nicspec_name(const struct hvd_nicspec *spec, size_t i);

/* Does the list want IPv6 subnets and nothing else? Then the user accepts a network without IPv4. */
bool hvd_nicspec_ipv6(const struct hvd_nicspec *spec);

#endif
