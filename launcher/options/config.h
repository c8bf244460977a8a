/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - configuration files: hvd.conf of the site, and --config-file.
 *
 * YAML, as horovodrun's --config-file has it ("controller", and the maps
 * "params", "autotune", "timeline", "stall_check", "library_options",
 * "logging"), plus long option names as keys of the top level ("nics",
 * "start-timeout", "rendezvous"): hvd.conf(5). What a key may be and hold is
 * said by the option tables alone.
 */
#ifndef HVD_CONFIG_H
#define HVD_CONFIG_H

#include "options.h"

/* Read a file into the options. Errors name file, line and key. */
int hvd_config_read(struct hvd_options *o, enum hvd_opt_source from, const char *path, struct hvd_err *err);
/* The same on text; `path` is for messages only. */
int hvd_config_parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, size_t len, const char *path,
		     struct hvd_err *err);

/* The site's file, which may be absent, and then the one that the options name, if any. */
int hvd_config_load(struct hvd_options *o, struct hvd_err *err);

#endif
