/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - configuration files: hvd.conf of the site, and --config-file.
 *
 * The files are YAML, as horovodrun's --config-file is: "controller", and the
 * maps "params", "autotune", "timeline", "stall_check", "library_options" and
 * "logging". Long option names are keys of the top level as well ("nics",
 * "start-timeout", "store"): hvd.conf(5). The option tables say which keys
 * there are and which values they take.
 */
#ifndef HVD_CONFIG_H
#define HVD_CONFIG_H

#include "options.h"

/* Store the values of a file's text. Errors name the file, by `path`, and the line, and are HVD_E_USAGE. */
int hvd_config_parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, size_t len, const char *path,
		     struct hvd_err *err);

/* Read the site's hvd.conf, which may be absent, and then the file that the options name, if any. */
int hvd_config_load(struct hvd_options *o, struct hvd_err *err);

#endif
