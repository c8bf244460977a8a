/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apptainer.h - variables of a rank whose command starts a container by itself: apptainer exec IMAGE python train.py
 *
 * With --cleanenv or --containall Apptainer gives the container no variable of the host's, and an image may set its own
 * over them. Only APPTAINERENV_NAME (Singularity: SINGULARITYENV_NAME) arrives as NAME in each case.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_APPTAINER_H
#define HVD_APPTAINER_H

#include "lib/base/strv.h"

/* What has to stand in front of a name for this command (argv[0], with or without a path); NULL: it is neither. */
const char *hvd_apptainer_prefix(const char *command);

/* Set a variable for a command, and where that is Apptainer the one with the prefix too, unless the environment has it
 * already: then the user has another value in mind for the container. */
void hvd_apptainer_setenv(struct hvd_strv *env, const char *command, const char *name, const char *value);

#endif
