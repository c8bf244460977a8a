/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - from what the user set to what the driver does.
 */
#ifndef HVD_SETTINGS_H
#define HVD_SETTINGS_H

#include "launcher/driver/driver_opts.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "options.h"

#define HVD_ID_TEXT sizeof(((struct hvd_boot *)0)->id)

/* How long the whole start may take, in seconds; at most HVD_MOST_SECONDS, whatever the user has set. */
double hvd_start_timeout(const struct hvd_options *o);

/* Take over time limit, rendezvous place, controller, interfaces, trace file and the workers' tunables. Adds to `opts`;
 * strings stay the options'. */
void hvd_driver_opts_from(const struct hvd_options *o, struct hvd_driver_opts *opts);

/* Who the launcher is: munge's word, or the secret of --key-file. `id_text` is what the shims are told of it (boot.h).
 */
int hvd_identity_from(const struct hvd_options *o, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
		      struct hvd_err *err);

#endif
