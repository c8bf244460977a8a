/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_ifname.h - variables with which the user or the site chooses network interfaces for NCCL and for Gloo.
 *
 * Whoever sets such a variable knows the network: hvd does not change it, and warns if it selects interfaces that do
 * not connect the hosts. The user sets the variables in the environment. NCCL also reads its own variable from
 * nccl.conf: the file that NCCL_CONF_FILE names, else ~/.nccl.conf; then the site's /etc/nccl.conf.
 */
#ifndef HVD_USER_IFNAME_H
#define HVD_USER_IFNAME_H

#include <stdbool.h>

#define HVD_USER_IFNAME_MAX 1024 /* bytes of a value, or of the name of its source, that are kept */

enum hvd_user_ifname_var {
	HVD_NCCL_IFNAME, /* NCCL_SOCKET_IFNAME */
	HVD_GLOO_IFNAME, /* GLOO_SOCKET_IFNAME */
	HVD_N_USER_IFNAMES,
};

/* A zeroed struct is a variable that nobody has set. */
struct hvd_user_ifname {
	char *value;   /* owned; NULL: not set */
	char *source;  /* owned; "the environment", or the path of a file; NULL exactly when value is */
	char *missing; /* owned; names in Gloo's value that no interface with an address has here; NULL: none */
};

/* The variable's name in the environment. */
const char *hvd_user_ifname_name(enum hvd_user_ifname_var var);

/* Look the variable `name` up in the environment `envp` (NULL-terminated) and, when the name starts with NCCL_, in
 * nccl.conf. An empty value counts as not set. `site_conf` replaces /etc/nccl.conf unless it is NULL. Returns whether
 * the variable is set. *found (may be NULL) is then the caller's to clear, and is empty otherwise. */
bool hvd_user_ifname_find(const char *name, char *const *envp, const char *site_conf, struct hvd_user_ifname *found);
void hvd_user_ifname_clear(struct hvd_user_ifname *set);

/* The names in `value`, a list of Gloo's, that no interface with an address has on this host, with commas; NULL: none.
 * Gloo fails if one of several names is missing. Caller frees. */
char *hvd_user_ifname_missing(const char *value);

/* Does this value select the interface `iface`? NCCL's value is a list of prefixes of names; "=" in front makes them
 * whole names, and "^" in front excludes them. Gloo's value is a list of whole names. */
bool hvd_user_ifname_selects(const char *value, enum hvd_user_ifname_var var, const char *iface);

#endif
