/* SPDX-License-Identifier: Apache-2.0 */
/*
 * munge.h - libmunge, loaded with dlopen(3) when it is first needed.
 *
 * The programs are not linked to libmunge, so that they build and run where munge is not installed: under LSF, with
 * ssh, on one host, or under Slurm with AuthType=auth/slurm. For the same reason this header declares the functions and
 * numbers itself, and does not take them from munge.h. They are those of the soname libmunge.so.2, which never change.
 *
 * struct hvd_munge holds addresses of functions and no other state. The library stays loaded until the process ends.
 * Any thread.
 */
#ifndef HVD_MUNGE_H
#define HVD_MUNGE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define HVD_MUNGE_SONAME "libmunge.so.2"

/* munge_err_t, as far as hvd tells errors apart. */
enum hvd_munge_error {
	HVD_MUNGE_SUCCESS = 0,
	HVD_MUNGE_SOCKET = 6,
	HVD_MUNGE_TIMEOUT = 7,
	HVD_MUNGE_CRED_INVALID = 14,
	HVD_MUNGE_CRED_EXPIRED = 15,
	HVD_MUNGE_CRED_REWOUND = 16,
	HVD_MUNGE_CRED_UNAUTHORIZED = 18,
};

/* munge_opt_t */
enum hvd_munge_option {
	HVD_MUNGE_OPT_SOCKET = 8,
	HVD_MUNGE_OPT_UID_RESTRICTION = 9,
};

struct hvd_munge {
	void *(*ctx_create)(void);
	void (*ctx_destroy)(void *ctx);
	int (*ctx_get)(void *ctx, int option, ...);
	int (*ctx_set)(void *ctx, int option, ...);
	const char *(*ctx_strerror)(void *ctx);
	int (*encode)(char **cred, void *ctx, const void *payload, int len);
	int (*decode)(const char *cred, void *ctx, void **payload, int *len, uid_t *uid, gid_t *gid);
};

/* Load the library `soname` (NULL: HVD_MUNGE_SONAME) and look its functions up. HVD_E_SYS when it is not installed, or
 * lacks a function; *munge is zeroed then. */
int hvd_munge_load(struct hvd_munge *munge, const char *soname, struct hvd_err *err);

/* Is munge installed on this host: the library, and the socket of a munged? `socket` NULL: the one that libmunge uses.
 * Returns 0, or -1 with err set. Does not find out whether that munged answers. */
int hvd_munge_here(const char *socket, struct hvd_err *err);

/* Does a munged listen on the socket (NULL: the one that libmunge uses)? True also for a munged that is stopped. Does
 * not wait. */
bool hvd_munge_listens(const char *socket);

/* Does a munged make a credential within `seconds`? False without munged, and if munged is stopped. */
bool hvd_munge_answers(const char *socket, double seconds);

#endif
