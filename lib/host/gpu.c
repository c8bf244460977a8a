/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* How many devices a list like "0,1" or "GPU-1f2e,MIG-7c" has. As for the vendors' libraries, the list ends at an entry
 * that is neither a number nor the name of a GPU or of a part of one ("", "-1", "NoDevFiles"). */
static int listed(const char *s)
{
	int n = 0;

	while ((*s >= '0' && *s <= '9') || strncmp(s, "GPU-", 4) == 0 || strncmp(s, "MIG-", 4) == 0) {
		n++;
		s += strcspn(s, ",");
		if (*s)
			s++;
	}
	return n;
}

static const char *list_of(char *const *envp)
{
	static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};
	const char *list = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !list; i++)
		list = hvd_envp_get(envp, names[i]);
	return list;
}

int hvd_gpu_visible(char *const *envp)
{
	const char *list = list_of(envp);

	return list && strcmp(list, "all") != 0 ? listed(list) : -1;
}

bool hvd_gpu_mig(char *const *envp)
{
	const char *list = list_of(envp);

	return list && strncmp(list, "MIG-", 4) == 0;
}

static bool is_nvidia(const char *dir, const char *name)
{
	(void)dir;
	return strncmp(name, "nvidia", 6) == 0 && name[6] && name[6 + strspn(name + 6, "0123456789")] == '\0';
}

/* Is this node of the kernel's AMD topology a GPU? CPUs are nodes as well, with the id 0. */
static bool is_kfd_gpu(const char *dir, const char *name)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s/gpu_id", dir, name);
	hvd_cleanup_fclose FILE *f = fopen(path, "re");
	unsigned long id = 0;

	return f && fscanf(f, "%lu", &id) == 1 && id != 0;
}

static int count_in(const char *root, const char *sub, bool (*is)(const char *, const char *))
{
	hvd_cleanup_free char *dir = hvd_xasprintf("%s%s", root, sub);
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += is(dir, e->d_name);
	if (d)
		closedir(d);
	return n;
}

int hvd_gpu_count(const char *root, char *const *envp)
{
	int n = hvd_gpu_visible(envp);

	if (n >= 0)
		return n;
	n = count_in(root, "/dev", is_nvidia);
	return n ? n : count_in(root, "/sys/class/kfd/kfd/topology/nodes", is_kfd_gpu);
}

int hvd_gpu_asked(const char *text)
{
	int sum = 0;

	while (text) {
		const char *comma = strchr(text, ',');
		size_t len = comma ? (size_t)(comma - text) : strlen(text), from = len;
		int n;

		while (from > 0 && text[from - 1] != ':')
			from--;
		n = (int)hvd_digits(text + from, len - from, HVD_MAX_RANKS - sum);
		if (n < 0)
			return -1;
		sum += n;
		text = comma ? comma + 1 : NULL;
	}
	return sum;
}
