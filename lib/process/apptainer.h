/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apptainer.h - variables for ranks whose command starts a container: apptainer exec IMAGE python train.py
 *
 * With --cleanenv or --containall Apptainer passes no variable of the host on to the container, and an image may
 * replace variables by its own. Only APPTAINERENV_NAME (Singularity: SINGULARITYENV_NAME) always arrives in the
 * container, as NAME.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_APPTAINER_H
#define HVD_APPTAINER_H

#include "lib/base/strv.h"

#include <stdbool.h>

/* The prefix of such variables for this command (argv[0], with or without a path); NULL if it is neither of the two. */
const char *hvd_apptainer_prefix(const char *command);

/* Does the name, or NAME=VALUE, begin with such a prefix? */
bool hvd_apptainer_prefixed(const char *name);

/* Set a variable for a command. If the command is Apptainer, also set the variable with the prefix, unless the user has
 * set that one for the container. `command` may be NULL. */
void hvd_apptainer_setenv(struct hvd_strv *env, const char *command, const char *name, const char *value);

#endif
