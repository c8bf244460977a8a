/* SPDX-License-Identifier: Apache-2.0 */
#include "host_slurm.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The first part of slurm_api_version() in 22.05. */
#define FIRST_API 38

/* Values that the plugin is built with, and that each release must share with all others. */
_Static_assert(S_CTX_LOCAL == 1 && S_CTX_REMOTE == 2 && S_CTX_ALLOCATOR == 3, "contexts");
_Static_assert(S_JOB_ID == 2 && S_JOB_STEPID == 3 && S_JOB_NNODES == 4, "items of the job");
_Static_assert(S_JOB_TOTAL_TASK_COUNT == 7 && S_JOB_ARGV == 9 && S_JOB_ENV == 10, "items of the step");
_Static_assert(S_TASK_ID == 11 && S_TASK_EXIT_STATUS == 13 && S_TASK_PID == 14, "items of a task");
_Static_assert(ESPANK_SUCCESS == 0, "the result of a call that went well");
_Static_assert(sizeof(struct spank_option) == 40 || sizeof(void *) != 8, "the table of options");

/* What slurm.h declares is needed only where it is there. */
extern __typeof(slurm_api_version) slurm_api_version __attribute__((weak));
extern __typeof(slurm_ctl_conf_2_key_pairs) slurm_ctl_conf_2_key_pairs __attribute__((weak));
extern __typeof(slurm_list_iterator_create) slurm_list_iterator_create __attribute__((weak));
extern __typeof(slurm_list_iterator_destroy) slurm_list_iterator_destroy __attribute__((weak));
extern __typeof(slurm_list_next) slurm_list_next __attribute__((weak));
extern __typeof(slurm_list_destroy) slurm_list_destroy __attribute__((weak));

/* The configuration, whose type is another one in each release. */
extern char hvd_host_conf[] __asm__("slurm_conf") __attribute__((weak));

/* An element of the list of slurm_ctl_conf_2_key_pairs(), which Slurm's public headers do not declare. */
struct key_pair {
	char *name, *value;
};

/* srun's options, and the functions by which Slurm's cli_filter plugins use them. */
extern char hvd_srun_opt __asm__("opt") __attribute__((weak));
extern bool slurm_option_isset(void *opt, const char *name) __attribute__((weak));
extern bool slurm_option_set_by_cli(void *opt, int letter) __attribute__((weak));
extern int slurm_option_set(void *opt, const char *name, const char *value, bool early) __attribute__((weak));

/* ---- the release ---- */

/* The releases with which this suite was tried, or whose headers were compared. */
static const struct {
	uint8_t major, minor;
} known[] = {{22, 5}, {23, 2}, {23, 11}, {24, 5}, {24, 11}, {25, 5}, {25, 11}, {26, 5}};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

uint32_t hvd_host_slurm_release_of(unsigned api)
{
	unsigned later;

	if (api < FIRST_API || api > UINT8_MAX)
		return 0;
	if (api - FIRST_API < N_KNOWN)
		return SLURM_VERSION_NUM(known[api - FIRST_API].major, known[api - FIRST_API].minor, 0);
	later = api - FIRST_API - (N_KNOWN - 1);
	return SLURM_VERSION_NUM(known[N_KNOWN - 1].major + later / 2, later % 2 ? 11 : 5, 0);
}

bool hvd_host_slurm_is_known(uint32_t release)
{
	return release <= (uint32_t)SLURM_VERSION_NUM(known[N_KNOWN - 1].major, known[N_KNOWN - 1].minor, 0);
}

uint32_t hvd_host_slurm_release(void)
{
	if (!slurm_api_version)
		return SLURM_VERSION_NUMBER;
	return hvd_host_slurm_release_of(SLURM_VERSION_MAJOR((unsigned long)slurm_api_version()));
}

/* ---- the configuration ---- */

char *hvd_host_slurm_value(const char *name)
{
	void *list, *at;
	const struct key_pair *pair;
	char *value = NULL;

	if (!hvd_host_conf || !slurm_ctl_conf_2_key_pairs || !slurm_list_iterator_create || !slurm_list_next ||
	    !slurm_list_iterator_destroy || !slurm_list_destroy)
		return NULL;
	list = slurm_ctl_conf_2_key_pairs((void *)hvd_host_conf);
	if (!list)
		return NULL;
	at = slurm_list_iterator_create(list);
	while ((pair = slurm_list_next(at)))
		if (pair->name && strcmp(pair->name, name) == 0)
			break;
	if (pair && pair->value && strcmp(pair->value, "(null)") != 0)
		value = hvd_xstrdup(pair->value);
	slurm_list_iterator_destroy(at);
	slurm_list_destroy(list);
	return value;
}

/* ---- a value in place of another ---- */

/* Does `p`, which may be anything, point to this text? The kernel reads it, for which a bad address is an error, and not
 * the end of this process. */
static bool points_to(char *p, const char *text)
{
	char there[PATH_MAX] = {0};
	size_t len = strlen(text) + 1;
	struct iovec from = {.iov_base = p, .iov_len = len}, to = {.iov_base = there, .iov_len = len};

	return len <= sizeof(there) && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len &&
	       memcmp(there, text, len) == 0;
}

/* The one pointer of the configuration that points to this text; NULL if there are none or several. */
static char **find_pointer(const char *text)
{
	const ElfW(Sym) *symbol = NULL;
	char **found = NULL;
	Dl_info info;

	if (!dladdr1(hvd_host_conf, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    info.dli_saddr != hvd_host_conf)
		return NULL;
	for (size_t at = 0; at + sizeof(char *) <= symbol->st_size; at += sizeof(char *)) {
		char **word = (char **)(void *)(hvd_host_conf + at);

		if (!points_to(*word, text))
			continue;
		if (found)
			return NULL;
		found = word;
	}
	return found;
}

bool hvd_host_slurm_replace(const char *text, char *other)
{
	char **pointer = hvd_host_conf ? find_pointer(text) : NULL;

	if (pointer)
		*pointer = other;
	return pointer;
}

/* ---- srun's options ---- */

bool hvd_host_slurm_option(const char *name)
{
	return &hvd_srun_opt && slurm_option_isset && slurm_option_isset(&hvd_srun_opt, name);
}

bool hvd_host_slurm_option_by_cli(int letter)
{
	return &hvd_srun_opt && slurm_option_set_by_cli && slurm_option_set_by_cli(&hvd_srun_opt, letter);
}

bool hvd_host_slurm_set_option(const char *name, const char *value)
{
	return &hvd_srun_opt && slurm_option_set && slurm_option_set(&hvd_srun_opt, name, value, false) == 0;
}
