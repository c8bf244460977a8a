/* SPDX-License-Identifier: Apache-2.0 */
#include "apptainer.h"

#include <stdio.h>
#include <string.h>

#define APPTAINER   "APPTAINERENV_"
#define SINGULARITY "SINGULARITYENV_"

const char *hvd_apptainer_prefix(const char *command)
{
	const char *base = command ? strrchr(command, '/') : NULL;

	base = base ? base + 1 : command;
	if (base && strcmp(base, "apptainer") == 0)
		return APPTAINER;
	if (base && strcmp(base, "singularity") == 0)
		return SINGULARITY;
	return NULL;
}

bool hvd_apptainer_prefixed(const char *name)
{
	return strncmp(name, APPTAINER, strlen(APPTAINER)) == 0 || strncmp(name, SINGULARITY, strlen(SINGULARITY)) == 0;
}

void hvd_apptainer_setenv(struct hvd_strv *env, const char *command, const char *name, const char *value)
{
	const char *prefix = hvd_apptainer_prefix(command);
	char full[512];

	hvd_env_set(env, name, value);
	if (!prefix || (size_t)snprintf(full, sizeof(full), "%s%s", prefix, name) >= sizeof(full))
		return;
	if (!hvd_env_get(env, full))
		hvd_env_set(env, full, value);
}
