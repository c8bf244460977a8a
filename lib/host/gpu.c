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

static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};

/* The first of these variables that is set; NULL: none. */
static const char *name_in(char *const *envp)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (hvd_envp_get(envp, names[i]))
			return names[i];
	return NULL;
}

static const char *list_of(char *const *envp)
{
	const char *name = name_in(envp);

	return name ? hvd_envp_get(envp, name) : NULL;
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

/* n entries of a list, which has them, from number `first` on. */
static char *cut(const char *list, int first, int n)
{
	const char *end;

	for (int i = 0; i < first && n > 0; i++)
		list += strcspn(list, ",") + 1;
	end = list;
	for (int i = 0; i < n; i++)
		end += strcspn(end, ",") + (i + 1 < n);
	return hvd_xstrndup(list, (size_t)(end - list));
}

static char *count_up(int first, int n)
{
	char *list = hvd_xstrdup("");

	for (int i = first; i < first + n; i++)
		hvd_xappendf(&list, "%s%d", i > first ? "," : "", i);
	return list;
}

int hvd_gpu_share(const char *root, char *const *envp, const struct hvd_share *share, const char **name, char **list,
		  struct hvd_err *err)
{
	const bool listed = hvd_gpu_visible(envp) >= 0;
	int have, rest, n;

	*name = name_in(envp);
	*list = NULL;
	if (hvd_share_is_all(share))
		return 0;
	have = hvd_gpu_count(root, envp);
	rest = have > share->first ? have - share->first : 0;
	n = share->n < 0 ? rest : share->n;
	if (n > rest) {
		hvd_err_set(err, HVD_E_USAGE, "asked for %d GPU%s from number %d on, but %s%s%d", n, n == 1 ? "" : "s",
			    share->first, listed ? *name : "this host", listed ? " lists " : " has ", have);
		return hvd_err_hint(err, "lower --gpus-per-task or --ntasks-per-node of the roles on this host");
	}
	if (!have && !listed)
		return 0;
	if (!*name)
		*name = names[count_in(root, "/dev", is_nvidia) ? 0 : 1];
	*list = listed ? cut(list_of(envp), share->first, n) : count_up(share->first, n);
	return 0;
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
