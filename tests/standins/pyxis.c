/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyxis.c - what NVIDIA's pyxis and enroot do to a task, without either: a SPANK plugin for tests.
 *
 * --container-image=DIR puts each task into that folder as its root. As in pyxis 0.24 that is done in task_init:
 *   - DIR/etc/environment, the image's variables, come over those of the task, except the names in --container-env, or
 *     without that in PYXIS_CONTAINER_ENV, which is read in init_post_opt of slurmstepd;
 *   - where the image has PYTORCH_VERSION the container has MASTER_ADDR, MASTER_PORT, WORLD_SIZE and OMP_NUM_THREADS as
 *     enroot's hook 50-slurm-pytorch.sh writes them, and each task RANK and LOCAL_RANK;
 *   - LANG and its like are removed;
 *   - the task gets a user and a mount namespace (--container-unshare=net: one of the network too), DIR by pivot_root,
 *     and a filter that lets setuid and its like pretend success. The old root is detached: nothing leads back.
 * pyxis has one container per node, which tasks join; here each task makes its own, with the same outcome.
 *
 * The argument nocaps in plugstack.conf: without the capabilities that the user namespace brings, which pyxis leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT extern const char plugin_name[];
EXPORT extern const char plugin_type[];
EXPORT extern const unsigned int plugin_version;
EXPORT int slurm_spank_init(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_init_post_opt(spank_t sp, int ac, char **av);
EXPORT int slurm_spank_task_init(spank_t sp, int ac, char **av);

const char plugin_name[] = "standin_pyxis";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;

static char image[PATH_MAX], keep[PATH_MAX];
static bool own_net, as_root, no_caps;

static int on_option(int val, const char *value, int remote)
{
	(void)remote;
	switch (val) {
	case 'i':
		snprintf(image, sizeof(image), "%s", value);
		return 0;
	case 'e':
		snprintf(keep, sizeof(keep), "%s", value);
		return 0;
	case 'u':
		own_net = strcmp(value, "net") == 0;
		return own_net ? 0 : -1;
	case 'r':
		as_root = true;
		return 0;
	}
	return -1;
}

static struct spank_option options[] = {
	{(char *)"container-image", (char *)"DIR", (char *)"Run in this folder as root.", 1, 'i', on_option},
	{(char *)"container-env", (char *)"NAMES", (char *)"Keep these variables of the host.", 1, 'e', on_option},
	{(char *)"container-unshare", (char *)"NS", (char *)"A network namespace of its own: net.", 1, 'u', on_option},
	{(char *)"container-remap-root", NULL, (char *)"Be root in the container.", 0, 'r', on_option},
};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	no_caps = ac == 1 && strcmp(av[0], "nocaps") == 0;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
			return -1;
	return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	if (spank_context() == S_CTX_REMOTE && !*keep &&
	    spank_getenv(sp, "PYXIS_CONTAINER_ENV", keep, sizeof(keep)) != ESPANK_SUCCESS)
		*keep = '\0';
	return 0;
}

static int failed(const char *what)
{
	slurm_error("standin_pyxis: %s: %s", what, strerror(errno));
	return -1;
}

static bool kept(const char *name)
{
	size_t len = strlen(name);

	for (const char *p = keep; *p; p += strcspn(p, ","), p += *p == ',')
		if (strncmp(p, name, len) == 0 && (p[len] == ',' || !p[len]))
			return true;
	return false;
}

static void set(spank_t sp, const char *name, const char *value)
{
	spank_setenv(sp, name, value, !kept(name));
}

static const char *get(spank_t sp, const char *name, char value[64])
{
	return spank_getenv(sp, name, value, 64) == ESPANK_SUCCESS ? value : "";
}

/* The hook of enroot and what pyxis does on top of it. */
static void set_pytorch(spank_t sp)
{
	char value[64], port[16];

	snprintf(port, sizeof(port), "%d", atoi(get(sp, "SLURM_JOB_ID", value)) % 4536 + 61000);
	set(sp, "MASTER_ADDR", "first-host-of-the-hook");
	set(sp, "MASTER_PORT", port);
	set(sp, "WORLD_SIZE", get(sp, "SLURM_NTASKS", value));
	set(sp, "OMP_NUM_THREADS", "1");
	spank_setenv(sp, "RANK", get(sp, "SLURM_PROCID", value), 1);
	spank_setenv(sp, "LOCAL_RANK", get(sp, "SLURM_LOCALID", value), 1);
}

static int take_environment(spank_t sp)
{
	static const char *const locale[] = {"LANG", "LANGUAGE", "LC_ALL"};
	char path[PATH_MAX + 32], line[4096], value[64];
	FILE *file;

	for (size_t i = 0; i < sizeof(locale) / sizeof(locale[0]); i++)
		if (!kept(locale[i]))
			spank_unsetenv(sp, locale[i]);
	snprintf(path, sizeof(path), "%s/etc/environment", image);
	file = fopen(path, "re");
	if (!file)
		return failed(path);
	while (fgets(line, sizeof(line), file)) {
		char *equals = strchr(line, '=');

		line[strcspn(line, "\n")] = '\0';
		if (!equals)
			continue;
		*equals = '\0';
		set(sp, line, equals + 1);
	}
	fclose(file);
	if (spank_getenv(sp, "PYTORCH_VERSION", value, sizeof(value)) == ESPANK_SUCCESS)
		set_pytorch(sp);
	return 0;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? failed(path) : 0;
}

static int new_namespaces(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];
	/* A task of slurmstepd is not dumpable, and its files in /proc are root's. */
	int dumpable = prctl(PR_GET_DUMPABLE);

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | (own_net ? CLONE_NEWNET : 0)) != 0)
		return failed("unshare");
	prctl(PR_SET_DUMPABLE, 1);
	snprintf(map, sizeof(map), "%u %u 1", as_root ? 0 : (unsigned)uid, (unsigned)uid);
	if (write_text("/proc/self/setgroups", "deny") != 0 || write_text("/proc/self/uid_map", map) != 0)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", as_root ? 0 : (unsigned)gid, (unsigned)gid);
	if (write_text("/proc/self/gid_map", map) != 0)
		return -1;
	prctl(PR_SET_DUMPABLE, dumpable == 1);
	return 0;
}

static int new_root(void)
{
	static const char *const shown[] = {"proc", "sys", "dev"};
	char from[16], to[PATH_MAX + 16];

	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(image, image, NULL, MS_BIND | MS_REC, NULL) != 0)
		return failed(image);
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		snprintf(from, sizeof(from), "/%s", shown[i]);
		snprintf(to, sizeof(to), "%s/%s", image, shown[i]);
		if (access(to, F_OK) == 0 && mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
			return failed(to);
	}
	if (chdir(image) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 ||
	    chdir("/") != 0)
		return failed("pivot_root");
	return 0;
}

static int pretend_setuid(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setuid, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setgid, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setgroups, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchownat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		return failed("seccomp");
	return 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	return syscall(SYS_capset, &head, none) != 0 ? failed("capset") : 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	if (spank_context() != S_CTX_REMOTE || !*image)
		return 0;
	if (take_environment(sp) != 0 || new_namespaces() != 0 || new_root() != 0 || pretend_setuid() != 0)
		return -1;
	return no_caps ? drop_capabilities() : 0;
}
