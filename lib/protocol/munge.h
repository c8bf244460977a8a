/* SPDX-License-Identifier: Apache-2.0 */
/*
 * munge.h - libmunge, loaded by dlopen(3) when it is used.
 *
 * The programs are not linked to libmunge: a machine without munge (LSF, ssh, one host, Slurm with
 * AuthType=auth/slurm) needs none of it, neither to build nor to run. So what is used of libmunge's interface is
 * declared here; it is that of soname libmunge.so.2, whose numbers do not change.
 *
 * struct hvd_munge holds no state but addresses of functions. The library stays loaded until the process ends. Both
 * functions may be called by several threads.
 */
#ifndef HVD_MUNGE_H
#define HVD_MUNGE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define HVD_MUNGE_SONAME "libmunge.so.2"

/* munge_err_t: those that are told apart here. */
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

/* Load the library `soname` (NULL: HVD_MUNGE_SONAME) and find its functions. HVD_E_SYS when it is not installed or is
 * another library; then *munge is zeroed. */
int hvd_munge_load(struct hvd_munge *munge, const char *soname, struct hvd_err *err);

/* Can this host make credentials: is there the library, and the socket of a munged (NULL: where libmunge looks by
 * itself)? Says nothing of whether that munged answers. */
int hvd_munge_here(const char *socket, struct hvd_err *err);

/* Does a munged listen on that socket (NULL: where libmunge looks by itself)? Also true for one that is stopped. Does
 * not wait. */
bool hvd_munge_listens(const char *socket);

#endif
