/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rvoptions.h - the command line of hvd-rendezvous.
 */
#ifndef HVD_RVOPTIONS_H
#define HVD_RVOPTIONS_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/rendezvous/server.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_rv_ports {
	uint16_t lo, hi; /* 0, 0: any */
};

struct hvd_rvoptions {
	struct hvd_strv binds, allows; /* numeric addresses or names; `binds` is never empty after parsing */
	struct hvd_strv scopes;        /* NAME=MEMBERS, checked */
	struct hvd_rv_config cfg;      /* limits and times; the caller sets `access` and `probe` */
	struct hvd_rv_ports port;
	size_t ranks; /* of a TCPStore; 0: not known */
	bool any_user, json, version;
	double idle_exit; /* seconds; 0 = never */
	int parent_fd;    /* -1 = none */
	int verbose;
};

void hvd_rvoptions_init(struct hvd_rvoptions *o);
void hvd_rvoptions_free(struct hvd_rvoptions *o);

/* Parse the command line, after hvd_rvoptions_init(). Returns 0; 1 when help or version was printed and the program is
 * to end; -1 with HVD_E_USAGE. Strings of `argv` are copied. Not thread-safe, because getopt(3) is not. */
int hvd_rvoptions_parse(struct hvd_rvoptions *o, int argc, char **argv, struct hvd_err *err);

#endif
