/* SPDX-License-Identifier: Apache-2.0 */
/* role_shares.h - what the worlds on a host share: its CPUs, its GPUs and its ports. For role_hosts.c. */
#ifndef HVD_ROLE_SHARES_H
#define HVD_ROLE_SHARES_H

#include "role_hosts.h"

/* Set the shares of all places. -1 with HVD_E_USAGE if roles ask for more than a host has. */
int hvd_role_shares_set(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			const struct hvd_role_ground *ground, struct hvd_err *err);
/* -1 with HVD_E_USAGE if two worlds on a host listen at one port, or if --ports asks for more than a host reserves. */
int hvd_role_ports_check(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			 const struct hvd_alloc *alloc, struct hvd_err *err);

#endif
