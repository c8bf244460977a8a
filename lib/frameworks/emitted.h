/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emitted.h - the names of the variables that emit.c may give to a rank.
 *
 * The SPANK plugin has to know them before there is a plan: a container plugin replaces variables that the image has
 * too, unless it was told their names beforehand. Tunables of a configuration file are not among them.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_EMITTED_H
#define HVD_EMITTED_H

#include <stdbool.h>

struct hvd_emitted {
	const char *name;
	bool iface;  /* the value names network interfaces, which means nothing in another network namespace */
	bool yields; /* it is not set where user or site have set it (lib/job/user_ifname.h) */
};

/* Ends with an entry whose name is NULL. */
extern const struct hvd_emitted hvd_emitted[];

/* Is that a variable that names network interfaces? */
bool hvd_emitted_iface(const char *name);
/* Is it one that is left as user or site have set it? */
bool hvd_emitted_yields(const char *name);

#endif
