/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nicspec.h - which network interfaces a user wants: a list of
 *
 *   NAME       the interface of that name, which every host must have
 *   PATTERN    those whose names match, with *, ? and [...] as in a shell
 *   ADDR/BITS  the addresses of that subnet, whatever the interfaces are called that have them
 *   ^…         not what follows, one of the three
 *
 * Wanted is what an entry without ^ names, or everything when there is none, except for what one with ^ names. In a
 * list that begins with ^ all entries are of that kind, as in NCCL's: ^docker0,virbr0.
 *
 * Uses nothing but libc: the SPANK plugin links it, too.
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
	char text[64]; /* without ^ */
	struct hvd_addr net;
	int bits;
};

/* A zeroed struct wants everything. */
struct hvd_nicspec {
	struct hvd_nicspec_entry *v;
	size_t n;
};

/* Read the entries of a list (NULL-terminated, may be NULL). HVD_E_USAGE names the one that is wrong, and why; *spec is
 * empty then. */
int hvd_nicspec_parse(struct hvd_nicspec *spec, char *const *entries, struct hvd_err *err);
/* Only to see whether they are right: entries, or a list with commas. */
int hvd_nicspec_check_all(char *const *entries, struct hvd_err *err);
int hvd_nicspec_check(const char *list, struct hvd_err *err);
void hvd_nicspec_clear(struct hvd_nicspec *spec); /* leaves it empty; NULL is fine */

/* Is that address of an interface wanted? NULL: of one that has none, whatever it is. */
bool hvd_nicspec_wants(const struct hvd_nicspec *spec, const char *iface, const struct hvd_addr *addr);

/* The `i`th interface that was wanted by its very name, and must be there; NULL past the last. */
const char *hvd_nicspec_name(const struct hvd_nicspec *spec, size_t i);

/* Subnets of IPv6 are wanted, and nothing else: whoever says so knows that it is without IPv4. */
bool hvd_nicspec_ipv6(const struct hvd_nicspec *spec);

#endif
