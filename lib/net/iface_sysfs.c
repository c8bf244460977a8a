/* SPDX-License-Identifier: Apache-2.0 */
#include "iface_internal.h"

#include "lib/base/file.h"
#include "lib/base/hw_topology.h"

#include <dirent.h>
#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Read the first line of a small file. False when it cannot be read: many of an interface's files fail with EINVAL
 * while the interface has no link. */
static bool read_line(const char *path, char *text, size_t room)
{
	if (!hvd_read_start(path, text, room - 1))
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static int64_t read_number(const char *path, int64_t fallback)
{
	char text[32], *end;
	long long v;

	if (!read_line(path, text, sizeof(text)))
		return fallback;
	errno = 0;
	v = strtoll(text, &end, 10);
	return end == text || *end || errno ? fallback : v;
}

struct path {
	char s[PATH_MAX];
	bool ok; /* false: the path is too long, and `s` is empty */
};

static struct path path_of(const char *sysfs, const char *name, const char *file)
{
	struct path p;
	int n = snprintf(p.s, sizeof(p.s), "%s/class/net/%s/%s", sysfs, name, file);

	p.ok = n > 0 && (size_t)n < sizeof(p.s);
	if (!p.ok)
		p.s[0] = '\0';
	return p;
}

static bool exists(const char *sysfs, const char *name, const char *file)
{
	struct path p = path_of(sysfs, name, file);
	struct stat st;

	return p.ok && stat(p.s, &st) == 0;
}

/* Is the interface of this name in sysfs the link? sysfs may show another network namespace, with an interface of the
 * same name. */
static bool same_interface(const char *sysfs, const struct hvd_nl_link *link)
{
	struct path p = path_of(sysfs, link->name, "ifindex");
	char want[sizeof(link->hw) * 3 + 1] = "", got[128];

	if (!p.ok || read_number(p.s, -1) != link->index)
		return false;
	if (link->hw_len == 0)
		return true;
	for (size_t i = 0; i < link->hw_len; i++)
		snprintf(want + i * 3, 4, "%02x%s", link->hw[i], i + 1 < link->hw_len ? ":" : "");
	p = path_of(sysfs, link->name, "address");
	return p.ok && read_line(p.s, got, sizeof(got)) && strcmp(want, got) == 0;
}

/* The rate of the interface's port of its first RDMA device, in Mb/s; -1 unknown. sysfs writes "100 Gb/sec (4X
 * EDR)". */
static int64_t rdma_rate(const char *sysfs, const char *name)
{
	struct path dir = path_of(sysfs, name, "device/infiniband"), port = path_of(sysfs, name, "dev_port");
	int64_t n = read_number(port.s, 0) + 1;
	DIR *d = opendir(dir.s);
	struct dirent *e;
	int64_t speed = -1;

	while (d && (e = readdir(d))) {
		char path[PATH_MAX], text[64];
		double rate;

		if (e->d_name[0] == '.')
			continue;
		if (snprintf(path, sizeof(path), "%s/%s/ports/%lld/rate", dir.s, e->d_name, (long long)n) <
			    (int)sizeof(path) &&
		    read_line(path, text, sizeof(text)) && sscanf(text, "%lf Gb/sec", &rate) == 1 && rate > 0 &&
		    rate < 1e6)
			speed = (int64_t)(rate * 1000);
		break;
	}
	if (d)
		closedir(d);
	return speed;
}

static int64_t ethtool_speed(int sock, const char *name)
{
	/* Three masks follow the struct, each of up to 127 words of 4 bytes. */
	_Alignas(struct ethtool_link_settings) unsigned char buf[sizeof(struct ethtool_link_settings) + 3 * 127 * 4];
	struct ethtool_link_settings *s = (struct ethtool_link_settings *)buf;
	struct ifreq ifr;

	memset(buf, 0, sizeof(buf));
	memset(&ifr, 0, sizeof(ifr));
	memcpy(ifr.ifr_name, name, strlen(name) + 1);
	ifr.ifr_data = (void *)buf;
	s->cmd = ETHTOOL_GLINKSETTINGS;
	/* The first call returns, as a negative number, how many words a mask has; the second must say it. */
	if (ioctl(sock, SIOCETHTOOL, &ifr) < 0 || s->link_mode_masks_nwords >= 0)
		return -1;
	s->link_mode_masks_nwords = (int8_t)-s->link_mode_masks_nwords;
	s->cmd = ETHTOOL_GLINKSETTINGS;
	if (ioctl(sock, SIOCETHTOOL, &ifr) < 0 || s->speed == 0 || s->speed > INT32_MAX)
		return -1;
	return s->speed;
}

void hvd_nic_read(struct hvd_nic *nic, const char *sysfs, const struct hvd_nl_link *link, int sock)
{
	memset(nic, 0, sizeof(*nic));
	nic->speed = -1;
	nic->known = same_interface(sysfs, link);
	if (nic->known) {
		struct path p = path_of(sysfs, link->name, "speed");
		int64_t speed = p.ok ? read_number(p.s, -1) : -1;

		nic->device = exists(sysfs, link->name, "device");
		if (nic->device) {
			nic->rdma = exists(sysfs, link->name, "device/infiniband");
			nic->wireless = exists(sysfs, link->name, "phy80211") || exists(sysfs, link->name, "wireless");
		}
		if (speed > 0 && speed <= INT32_MAX)
			nic->speed = speed;
		else if (nic->rdma && link->arp == ARPHRD_INFINIBAND)
			nic->speed = rdma_rate(sysfs, link->name);
	}
	if (nic->speed < 0 && sock >= 0)
		nic->speed = ethtool_speed(sock, link->name);
}

/* 2 when the machine has several NUMA nodes, else 1. sysfs lists them as "0" or "0-3,8". */
static int count_nodes(const char *sysfs)
{
	char path[PATH_MAX], text[256];

	if (snprintf(path, sizeof(path), "%s/devices/system/node/online", sysfs) >= (int)sizeof(path) ||
	    !read_line(path, text, sizeof(text)))
		return 1;
	return strpbrk(text, "-,") ? 2 : 1;
}

static hwloc_topology_t load_topology(void)
{
	hwloc_topology_t t;

	/* Only processing units and NUMA nodes are needed, and these cannot be filtered out. */
	if (hvd_hw_topology_init(&t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED, HWLOC_TYPE_FILTER_KEEP_NONE) != 0)
		return NULL;
	if (hwloc_topology_load(t) != 0) {
		hwloc_topology_destroy(t);
		return NULL;
	}
	return t;
}

/* The one NUMA node that these CPUs are in; -1 when they are in none or in several. */
static int covering_node(struct hvd_numa *numa, const char *cpulist)
{
	hwloc_bitmap_t cpus, nodes;
	int node = -1;

	if (!numa->tried) {
		numa->tried = true;
		numa->topology = load_topology();
	}
	if (!numa->topology)
		return -1;
	cpus = hwloc_bitmap_alloc();
	nodes = hwloc_bitmap_alloc();
	if (cpus && nodes && hwloc_bitmap_list_sscanf(cpus, cpulist) == 0 &&
	    hwloc_cpuset_to_nodeset(numa->topology, cpus, nodes) == 0 && hwloc_bitmap_weight(nodes) == 1)
		node = hwloc_bitmap_first(nodes);
	hwloc_bitmap_free(cpus);
	hwloc_bitmap_free(nodes);
	return node;
}

int hvd_nic_numa(const char *sysfs, const char *name, struct hvd_numa *numa)
{
	struct path link = path_of(sysfs, name, "device");
	char dir[PATH_MAX], path[PATH_MAX + 32], cpulist[4096] = "";
	char *slash;

	if (!link.ok || !realpath(link.s, dir))
		return -1;
	if (!numa->n_nodes)
		numa->n_nodes = count_nodes(sysfs);
	if (numa->n_nodes == 1)
		return 0;
	/* A virtio or USB device has no numa_node, but the PCI device above it has. */
	while ((slash = strrchr(dir, '/')) && slash != dir) {
		int64_t node;

		snprintf(path, sizeof(path), "%s/numa_node", dir);
		node = read_number(path, -1);
		if (node >= 0 && node <= INT_MAX)
			return (int)node;
		snprintf(path, sizeof(path), "%s/local_cpulist", dir);
		if (!cpulist[0] && !read_line(path, cpulist, sizeof(cpulist)))
			cpulist[0] = '\0';
		*slash = '\0';
	}
	return cpulist[0] ? covering_node(numa, cpulist) : -1;
}

void hvd_numa_clear(struct hvd_numa *numa)
{
	if (numa->topology)
		hwloc_topology_destroy(numa->topology);
	memset(numa, 0, sizeof(*numa));
}
