/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - the launch's key on its way from srun to its tasks, where Slurm does not use munge.
 *
 * The key is the value of an option in Slurm's launch message. slurmd accepts that message only from the job's user,
 * and slurmstepd reads it as root before there is a task. So the key is in no environment, on no command line and in no
 * file, and Slurm's commands do not show it.
 *
 * No user gives that option: srun does not know it, and only slurmstepd registers it. spank_option_getopt() adds an
 * option that srun does not know to the options that srun sends; its value is that of a certain environment variable.
 * So the plugin sets the variable to a row of zeros for that call, and then writes the key over Slurm's copy of the
 * zeros in srun's memory.
 */
#include "plugin.h"

#include "host_slurm.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/key.h"
#include "lib/base/random.h"

#include <stdlib.h>
#include <string.h>

#define OPTION     "hvd-launch-key"
#define OPTION_ENV "_SLURM_SPANK_OPTION_hvd_hvd_launch_key" /* the name that Slurm makes of plugin and option */

static int on_key(int val, const char *value, int remote)
{
	struct hvd_plugin *pl = &hvd_plugin;

	(void)val;
	/* The value is zeros if a user has set the variable. Then there is no key, and the task says so. */
	if (remote && value && strlen(value) == HVD_LAUNCH_KEY_HEX && strspn(value, "0") < HVD_LAUNCH_KEY_HEX)
		memcpy(pl->launch_key, value, HVD_LAUNCH_KEY_HEX + 1);
	return 0;
}

static struct spank_option option = {(char *)OPTION, (char *)"KEY", (char *)"", 1, 0, on_key};

bool hvd_launch_key_wanted(void)
{
	hvd_cleanup_free char *type = hvd_host_slurm_value("AuthType");

	return type && strcmp(type, "auth/munge") != 0;
}

int hvd_launch_key_expect(spank_t sp)
{
	spank_err_t rc = spank_option_register(sp, &option);

	if (rc == ESPANK_SUCCESS)
		return 0;
	slurm_error("hvd: cannot register the option of the launch's key: %s", spank_strerror(rc));
	return -1;
}

/* Slurm's copy of the option's value, as long as a key in hexadecimal; NULL if this release of Slurm does not send
 * it. */
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

int hvd_launch_key_send(spank_t sp, struct hvd_err *err)
{
	struct hvd_key key;
	char *value = option_value(sp), hex[HVD_LAUNCH_KEY_HEX + 1];
	int fd;

	if (!value) {
		hvd_err_set(err, HVD_E_SYS,
			    "AuthType is not auth/munge here, and this Slurm's launch message takes no key");
		return hvd_err_hint(err, "name a key file of mode 0600 that all hosts can read: --hvd-key-file=FILE");
	}
	if (hvd_random(key.b, sizeof(key.b), err) < 0)
		return -1;
	fd = hvd_key_memfd(&key, err);
	if (fd >= 0) {
		hvd_hex(key.b, sizeof(key.b), hex);
		memcpy(value, hex, HVD_LAUNCH_KEY_HEX);
		explicit_bzero(hex, sizeof(hex));
	}
	explicit_bzero(&key, sizeof(key));
	return fd;
}

int hvd_launch_key_take(const struct hvd_plugin *pl, struct hvd_err *err)
{
	struct hvd_key key;
	int fd;

	if (hvd_unhex(pl->launch_key, key.b, sizeof(key.b)) < 0)
		return hvd_err_set(err, HVD_E_AUTH, "Slurm's launch message does not contain the launch's key");
	fd = hvd_key_memfd(&key, err);
	explicit_bzero(&key, sizeof(key));
	return fd;
}
