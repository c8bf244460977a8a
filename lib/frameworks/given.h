/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given.h - variables that name interfaces and that somebody has set before us: the user in the environment, or, for
 * NCCL's, user or site in nccl.conf. They win; what they select is looked at.
 */
#ifndef HVD_GIVEN_H
#define HVD_GIVEN_H

#include <stdbool.h>

#define HVD_GIVEN_MAX 1024 /* length of a value that is read */

/* Where the variable is set: "the environment" (envp, NULL-terminated), or the name of a file; NULL: nowhere, or to
 * nothing. *value (may be NULL) is the caller's to free. `site` is the site's nccl.conf; NULL: /etc/nccl.conf. *where
 * is the caller's as well. */
bool hvd_given(const char *name, char *const *envp, const char *site, char **value, char **where);

/* Does such a value select the interface? NCCL's: beginnings of names, = in front: whole names, ^: all others. Gloo's:
 * names. */
bool hvd_given_selects(const char *value, bool nccl, const char *iface);

#endif
