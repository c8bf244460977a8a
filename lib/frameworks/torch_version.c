/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_version.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PATHS_MOST 64   /* folders that are looked at, of a list */
#define FILE_BYTES 4096 /* that are read of a file */

unsigned hvd_torch_version_parse(const char *text)
{
	static const char name[] = "__version__";
	const char *at = text;
	unsigned long major, minor;
	char *end;

	while (at && strncmp(at, name, sizeof(name) - 1) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return 0;
	at += strcspn(at, "'\"\n");
	if (*at == '\0' || !isdigit((unsigned char)at[1]))
		return 0;
	major = strtoul(at + 1, &end, 10);
	if (*end != '.' || !isdigit((unsigned char)end[1]))
		return 0;
	minor = strtoul(end + 1, &end, 10);
	if (major > 999 || minor > 999)
		return 0;
	if (end[0] == '.' && end[1] == '0' && isalpha((unsigned char)end[2]) && minor > 0)
		minor--;
	return HVD_TORCH(major, minor);
}

/* The version of the PyTorch in a folder of modules. */
static unsigned in_folder(const char *folder)
{
	char text[FILE_BYTES + 1];
	hvd_cleanup_free char *path = hvd_xasprintf("%s/torch/version.py", folder);

	return hvd_read_start(path, text, FILE_BYTES) ? hvd_torch_version_parse(text) : 0;
}

/* The version of PyTorch in the first of the folders PREFIX/BELOW that has one; BELOW is a pattern of glob(7). */
static unsigned in_folders(const char *prefix, const char *below)
{
	hvd_cleanup_free char *pattern = hvd_xasprintf("%s/%s", prefix, below);
	unsigned found = 0;
	glob_t folders;

	if (glob(pattern, 0, NULL, &folders) != 0)
		return 0;
	for (size_t i = 0; !found && i < folders.gl_pathc && i < PATHS_MOST; i++)
		found = in_folder(folders.gl_pathv[i]);
	globfree(&folders);
	return found;
}

/* Cut the next entry off a list with colons. NULL: there is no further one; else the caller frees it. */
static char *next_entry(const char **list)
{
	size_t len = strcspn(*list, ":");
	char *entry = **list ? hvd_xstrndup(*list, len) : NULL;

	*list += len + ((*list)[len] == ':');
	return entry;
}

/* ---- an interpreter ---- */

static void cut_names(char *path, int n)
{
	for (; n > 0; n--) {
		char *slash = strrchr(path, '/');

		if (slash)
			*slash = '\0';
	}
}

/* Do its modules include those of the Python that it was made from, and of the user? */
static bool is_closed(const char *prefix)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/pyvenv.cfg", prefix);
	char text[FILE_BYTES + 1];

	return hvd_read_start(path, text, FILE_BYTES) && !strstr(text, "include-system-site-packages = true");
}

/* Where the modules of one Python are: "python3.11", or "python3*" where no name tells the version. */
static char *modules(const char *version, const char *name)
{
	return hvd_xasprintf("%s/%s", strncmp(version, "python3.", 8) == 0 ? version : "python3*", name);
}

static unsigned in_prefix(const char *prefix, const char *version)
{
	hvd_cleanup_free char *site = modules(version, "site-packages"), *dist = modules(version, "dist-packages");
	hvd_cleanup_free char *lib = hvd_xasprintf("lib*/%s", site), *local = hvd_xasprintf("local/lib/%s", dist);
	unsigned found = in_folders(prefix, lib);

	if (!found)
		found = in_folders(prefix, local);
	return found ? found : in_folders(prefix, "lib/python3/dist-packages");
}

static unsigned in_users(char *const *envp, const char *version)
{
	const char *base = hvd_envp_get(envp, "PYTHONUSERBASE"), *home = hvd_envp_get(envp, "HOME");
	hvd_cleanup_free char *site = modules(version, "site-packages"), *lib = hvd_xasprintf("lib/%s", site);
	hvd_cleanup_free char *prefix = base ? hvd_xstrdup(base) : home ? hvd_xasprintf("%s/.local", home) : NULL;

	return prefix && !hvd_envp_get(envp, "PYTHONNOUSERSITE") ? in_folders(prefix, lib) : 0;
}

unsigned hvd_torch_of_python(const char *python, char *const *envp)
{
	const char *list = hvd_envp_get(envp, "PYTHONPATH"), *version;
	hvd_cleanup_free char *real = realpath(python, NULL), *prefix = hvd_xstrdup(python);
	unsigned found = 0;
	hvd_cleanup_free char *base = real ? hvd_xstrdup(real) : NULL;
	bool closed;
	char *entry;

	if (!real)
		return 0;
	version = strrchr(real, '/') + 1;
	for (int i = 0; !found && list && i < PATHS_MOST && (entry = next_entry(&list)); i++) {
		found = *entry == '/' ? in_folder(entry) : 0;
		free(entry);
	}
	cut_names(prefix, 2);
	closed = is_closed(prefix);
	if (!found && !closed)
		found = in_users(envp, version);
	if (!found)
		found = in_prefix(prefix, version);
	cut_names(base, 2);
	return found || closed ? found : in_prefix(base, version);
}
