/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - the launch's key from srun to its tasks where Slurm does not use munge.
 *
 * The key travels as the value of an option in Slurm's own launch message, which slurmd takes from the job's user
 * only, and slurmstepd reads as root before there is a task. So it is in no environment, on no command line and in
 * no file, and Slurm's commands do not show it.
 *
 * Nobody gives that option: srun does not know it, and only slurmstepd registers it. spank_option_getopt() adds an
 * option that it does not know yet to those that srun sends, with the value of the environment variable that stands
 * for it. There a row of zeros is found; the key is then written over Slurm's copy of them, in srun's own memory.
 */
#include "key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPTION     "hvd-launch-key"
#define OPTION_ENV "_SLURM_SPANK_OPTION_hvd_hvd_launch_key" /* the name that Slurm makes of plugin and option */

static int on_key(int val, const char *value, int remote)
{
	struct hvd_plugin *pl = &hvd_plugin;

	(void)val;
	/* Zeros: from a user who set the variable. There is no key then, and the task says so. */
	if (remote && value && strlen(value) == HVD_LAUNCH_KEY_HEX && strspn(value, "0") < HVD_LAUNCH_KEY_HEX)
		memcpy(pl->launch_key, value, HVD_LAUNCH_KEY_HEX + 1);
	return 0;
}

static struct spank_option option = {(char *)OPTION, (char *)"KEY", (char *)"", 1, 0, on_key};

bool hvd_launch_key_wanted(void)
{
	return slurm_conf.authtype && strcmp(slurm_conf.authtype, "auth/munge") != 0;
}

int hvd_launch_key_expect(spank_t sp)
{
	spank_err_t rc = spank_option_register(sp, &option);

	if (rc == ESPANK_SUCCESS)
		return 0;
	slurm_error("hvd: cannot register the option of the launch's key: %s", spank_strerror(rc));
	return -1;
}

/* Slurm's copy of the option's value, as long as a key in hexadecimal; NULL when this Slurm does not do that. */
static char *option_value(spank_t sp)
{
	char zeros[HVD_LAUNCH_KEY_HEX + 1], *value = NULL;
	spank_err_t rc;

	memset(zeros, '0', HVD_LAUNCH_KEY_HEX);
	zeros[HVD_LAUNCH_KEY_HEX] = '\0';
	if (setenv(OPTION_ENV, zeros, 1) != 0)
		return NULL;
	rc = spank_option_getopt(sp, &option, &value);
	unsetenv(OPTION_ENV);
	return rc == ESPANK_SUCCESS && value && strcmp(value, zeros) == 0 ? value : NULL;
}

/* Where the driver and the shim read it: raw bytes, of mode 0600, gone with the last descriptor. */
static int in_memory(const unsigned char *key, struct hvd_err *err)
{
	int fd = memfd_create("key", MFD_CLOEXEC);

	if (fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, key, HVD_LAUNCH_KEY_BYTES) == HVD_LAUNCH_KEY_BYTES)
		return fd;
	hvd_err_sys(err, "cannot keep the launch's key");
	if (fd >= 0)
		close(fd);
	return -1;
}

int hvd_launch_key_send(spank_t sp, struct hvd_err *err)
{
	unsigned char key[HVD_LAUNCH_KEY_BYTES];
	char *value = option_value(sp), hex[3];
	int fd;

	if (!value) {
		hvd_err_set(err, HVD_E_SYS,
			    "there is no munge here (AuthType=%s), and this Slurm's launch message takes "
			    "no key",
			    slurm_conf.authtype);
		return hvd_err_hint(err, "name a key file of mode 0600 that all hosts can read: --hvd-key-file=FILE");
	}
	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return hvd_err_sys(err, "cannot get random bytes from the kernel");
	fd = in_memory(key, err);
	for (size_t i = 0; i < sizeof(key) && fd >= 0; i++) {
		snprintf(hex, sizeof(hex), "%02x", key[i]);
		memcpy(value + 2 * i, hex, 2);
	}
	explicit_bzero(key, sizeof(key));
	explicit_bzero(hex, sizeof(hex));
	return fd;
}

int hvd_launch_key_take(const struct hvd_plugin *pl, struct hvd_err *err)
{
	unsigned char key[HVD_LAUNCH_KEY_BYTES];
	unsigned byte;
	int fd;

	for (size_t i = 0; i < sizeof(key); i++) {
		if (sscanf(pl->launch_key + 2 * i, "%2x", &byte) != 1)
			return hvd_err_set(err, HVD_E_AUTH,
					   "the launch's key did not come with Slurm's launch message");
		key[i] = (unsigned char)byte;
	}
	fd = in_memory(key, err);
	explicit_bzero(key, sizeof(key));
	return fd;
}
