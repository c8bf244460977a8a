/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_slurm.h - the Slurm that has loaded the plugin: its release, its configuration and srun's options.
 *
 * One build of the plugin runs in every release from 22.05 on. For that it relies on nothing that changes between
 * releases: not on the layout of slurm_conf_t, whose values it reads by their names in slurm.conf, nor on that of srun's
 * options, which it reads and sets by name. All symbols of Slurm beyond spank.h are weak: a release that lacks one loses
 * what is said at the function here, and no more.
 */
#ifndef HVD_HOST_SLURM_H
#define HVD_HOST_SLURM_H

#include <stdbool.h>
#include <stdint.h>

/* The release of this Slurm, as SLURM_VERSION_NUM(23, 2, 0) without its last part. `api` is the first part of
 * slurm_api_version(), which has grown by one with each release: 38 is 22.05. Later releases are taken to come every six
 * months. 0: it is older than 22.05. */
uint32_t hvd_host_slurm_release_of(unsigned api);
/* Has this suite been tried with the release, or an older one? */
bool hvd_host_slurm_is_known(uint32_t release);
/* hvd_host_slurm_release_of() of the Slurm that has loaded the plugin. If it cannot be told, that of the headers of the build. */
uint32_t hvd_host_slurm_release(void);

/* In srun: a value of slurm.conf by its name there ("AuthType"), as scontrol show config prints it. NULL if it is not set,
 * or if this Slurm does not say. The caller frees it. slurmstepd has only parts of the configuration, and must not call
 * this. */
char *hvd_host_slurm_value(const char *name);

/* In a task: if Slurm's configuration has `text` as one of its values, that value is `other` from now on, which must never
 * be freed. False if it has no such value, or several. */
bool hvd_host_slurm_replace(const char *text, char *other);

/* In srun: was the option given, by a command line or a variable? False for an option that this release does not
 * know. */
bool hvd_host_slurm_option(const char *name);
/* In srun: was the option with this letter given on the command line? */
bool hvd_host_slurm_option_by_cli(int letter);
/* In srun: set an option, in place of the user's value. False if this release does not know it. */
bool hvd_host_slurm_set_option(const char *name, const char *value);

#endif
