/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/iface.h"
#include "lib/net/iface_internal.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* A datagram of netlink, put together piece by piece. */
struct wire {
	unsigned char b[4096];
	size_t n, msg; /* where the message begins */
};

static void put(struct wire *w, const void *p, size_t n)
{
	memcpy(w->b + w->n, p, n);
	w->n += n;
	while (w->n % 4)
		w->b[w->n++] = 0;
}

static void open_msg(struct wire *w, uint16_t type, uint16_t flags, uint32_t seq)
{
	struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq};

	w->msg = w->n;
	put(w, &h, sizeof(h));
}

static void close_msg(struct wire *w)
{
	uint32_t len = (uint32_t)(w->n - w->msg);

	memcpy(w->b + w->msg, &len, sizeof(len));
}

static void put_attr(struct wire *w, uint16_t type, const void *p, size_t n)
{
	struct rtattr a = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(n)};

	memcpy(w->b + w->n, &a, sizeof(a));
	w->n += sizeof(a);
	put(w, p, n);
}

static void put_link(struct wire *w, int index, const char *name, const char *kind, unsigned master)
{
	struct ifinfomsg ifi = {.ifi_index = index, .ifi_type = ARPHRD_ETHER, .ifi_flags = IFF_UP | IFF_RUNNING};
	struct wire info = {.n = 0};
	uint32_t mtu = 9000;

	open_msg(w, RTM_NEWLINK, NLM_F_MULTI, 1);
	put(w, &ifi, sizeof(ifi));
	put_attr(w, IFLA_IFNAME, name, strlen(name) + 1);
	put_attr(w, IFLA_MTU, &mtu, sizeof(mtu));
	put_attr(w, IFLA_ADDRESS, "\2\0\0\0\0\1", 6);
	if (master)
		put_attr(w, IFLA_MASTER, &master, sizeof(master));
	if (kind) {
		put_attr(&info, IFLA_INFO_KIND, kind, strlen(kind) + 1);
		put_attr(w, IFLA_LINKINFO | NLA_F_NESTED, info.b, info.n);
	}
	close_msg(w);
}

static void put_addr(struct wire *w, int index, const char *text, uint32_t flags)
{
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;
	struct ifaddrmsg ifa = {.ifa_family = (uint8_t)family,
				.ifa_prefixlen = family == AF_INET ? 24 : 64,
				.ifa_index = (unsigned)index};
	unsigned char b[16];

	assert_int_equal(inet_pton(family, text, b), 1);
	open_msg(w, RTM_NEWADDR, NLM_F_MULTI, 1);
	put(w, &ifa, sizeof(ifa));
	put_attr(w, IFA_ADDRESS, b, family == AF_INET ? 4 : 16);
	put_attr(w, IFA_FLAGS, &flags, sizeof(flags));
	close_msg(w);
}

static void put_end(struct wire *w, uint16_t type, int32_t code)
{
	open_msg(w, type, NLM_F_MULTI, 1);
	put(w, &code, sizeof(code));
	close_msg(w);
}

TEST(messages_are_parsed)
{
	struct wire w = {.n = 0};
	struct hvd_nl_dump d = {0};

	put_link(&w, 2, "eth0", NULL, 7);
	put_link(&w, 7, "br0", "bridge", 0);
	put_addr(&w, 7, "10.1.2.3", IFA_F_PERMANENT);
	put_addr(&w, 7, "fd00::7", IFA_F_DEPRECATED | IFA_F_MANAGETEMPADDR);
	assert_int_equal(hvd_nl_parse(&d, w.b, w.n, 1, NULL), 0);
	put_end(&w, NLMSG_DONE, 0);
	assert_int_equal(d.n_links, 2);
	assert_int_equal(d.n_addrs, 2);
	assert_string_equal(d.links[0].name, "eth0");
	assert_int_equal(d.links[0].master, 7);
	assert_string_equal(d.links[0].kind, "");
	assert_int_equal(d.links[1].mtu, 9000);
	assert_string_equal(d.links[1].kind, "bridge");
	assert_int_equal(d.links[1].hw_len, 6);
	assert_int_equal(d.addrs[0].index, 7);
	assert_memory_equal(&d.addrs[0].addr.u, "\12\1\2\3", 4);
	assert_int_equal(d.addrs[1].flags, IFA_F_DEPRECATED | IFA_F_MANAGETEMPADDR);
	assert_false(d.interrupted);
	hvd_nl_clear(&d);
	/* Another request's answers are none of ours. */
	assert_int_equal(hvd_nl_parse(&d, w.b, w.n, 2, NULL), 0);
	assert_int_equal(d.n_links, 0);
	assert_int_equal(hvd_nl_parse(&d, w.b, w.n, 1, NULL), 1);
	hvd_nl_clear(&d);
	hvd_nl_clear(NULL);
}

TEST(broken_messages_are_refused)
{
	struct wire w = {.n = 0}, e = {.n = 0};
	struct hvd_nl_dump d = {0};
	struct hvd_err err;

	put_link(&w, 2, "eth0", "veth", 0);
	put_addr(&w, 2, "10.1.2.3", 0);
	put_end(&w, NLMSG_DONE, 0);
	/* Cut anywhere: never beyond the end (the sanitizers watch), and never taken for complete. */
	for (size_t n = 0; n < w.n; n++) {
		unsigned char *copy = malloc(n + 1);

		memcpy(copy + 1, w.b, n); /* unaligned, too */
		assert_int_not_equal(hvd_nl_parse(&d, copy + 1, n, 1, &err), 1);
		free(copy);
		hvd_nl_clear(&d);
	}
	put_end(&e, NLMSG_ERROR, -EPERM);
	assert_fails(hvd_nl_parse(&d, e.b, e.n, 1, &err), err, "not permitted");
	/* An error must have its code; the end of a list need not. */
	e.n = 0;
	open_msg(&e, NLMSG_ERROR, 0, 1);
	close_msg(&e);
	assert_fails(hvd_nl_parse(&d, e.b, e.n, 1, &err), err, "too short");
	e.n = 0;
	open_msg(&e, NLMSG_DONE, NLM_F_MULTI, 1);
	close_msg(&e);
	assert_int_equal(hvd_nl_parse(&d, e.b, e.n, 1, &err), 1);
	e.n = 0;
	put_end(&e, NLMSG_DONE, -EINVAL);
	assert_int_equal(hvd_nl_parse(&d, e.b, e.n, 1, &err), -1);
	/* Names that would lead elsewhere in sysfs. */
	e.n = 0;
	put_link(&e, 2, "..", NULL, 0);
	put_link(&e, 3, "a/b", NULL, 0);
	put_link(&e, 4, "", NULL, 0);
	put_link(&e, -5, "eth1", NULL, 0);
	assert_int_equal(hvd_nl_parse(&d, e.b, e.n, 1, &err), 0);
	assert_int_equal(d.n_links, 0);
	/* A changing system. */
	e.n = 0;
	open_msg(&e, RTM_NEWLINK, NLM_F_MULTI | NLM_F_DUMP_INTR, 1);
	put(&e, &(struct ifinfomsg){.ifi_index = 1}, sizeof(struct ifinfomsg));
	close_msg(&e);
	assert_int_equal(hvd_nl_parse(&d, e.b, e.n, 1, &err), 0);
	assert_true(d.interrupted);
	hvd_nl_clear(&d);
}

static void make_link(const char *root, const char *path, const char *to)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_int_equal(symlink(to, full), 0);
}

/* A machine of two NUMA nodes: a RoCE card on node 1, an InfiniBand one without a speed file, a virtio one. */
TEST(sysfs_is_read)
{
	char root[] = "/tmp/hvd-test-sysfs-XXXXXX";
	struct hvd_nl_link roce = {
		.index = 4, .name = "eth4", .arp = ARPHRD_ETHER, .hw = {2, 0, 0, 0, 0, 4}, .hw_len = 6};
	struct hvd_nl_link ib = {.index = 5, .name = "ib0", .arp = ARPHRD_INFINIBAND};
	struct hvd_numa numa = {0};
	struct hvd_nic nic;

	assert_non_null(mkdtemp(root));
	make_file(root, "/devices/pci0/0000:81/net/eth4/ifindex", "4\n");
	make_file(root, "/devices/pci0/0000:81/net/eth4/address", "02:00:00:00:00:04\n");
	make_file(root, "/devices/pci0/0000:81/net/eth4/speed", "200000\n");
	make_file(root, "/devices/pci0/0000:81/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
	make_file(root, "/devices/pci0/0000:81/numa_node", "1\n");
	make_file(root, "/devices/pci0/0000:82/net/ib0/ifindex", "5\n");
	make_file(root, "/devices/pci0/0000:82/net/ib0/dev_port", "1\n");
	make_file(root, "/devices/pci0/0000:82/infiniband/mlx5_1/ports/1/rate", "40 Gb/sec (4X QDR)\n");
	make_file(root, "/devices/pci0/0000:82/infiniband/mlx5_1/ports/2/rate", "100 Gb/sec (4X EDR)\n");
	make_file(root, "/devices/pci0/0000:82/virtio2/x", "");
	make_file(root, "/devices/pci0/0000:82/numa_node", "-1\n");
	make_file(root, "/devices/pci0/0000:82/local_cpulist", "0\n");
	make_file(root, "/devices/pci0/numa_node", "0\n");
	make_file(root, "/devices/system/node/online", "0-1\n");
	make_link(root, "/devices/pci0/0000:81/net/eth4/device", "../..");
	make_link(root, "/devices/pci0/0000:82/net/ib0/device", "../..");
	make_file(root, "/class/net/.keep", "");
	make_link(root, "/class/net/eth4", "../../devices/pci0/0000:81/net/eth4");
	make_link(root, "/class/net/ib0", "../../devices/pci0/0000:82/net/ib0");

	hvd_nic_read(&nic, root, &roce, -1);
	assert_true(nic.known && nic.device && nic.rdma && !nic.wireless);
	assert_int_equal(nic.speed, 200000);
	assert_int_equal(hvd_nic_numa(root, "eth4", &numa), 1);
	assert_false(numa.tried); /* sysfs said it: no topology was loaded */
	hvd_nic_read(&nic, root, &ib, -1);
	assert_true(nic.known && nic.rdma);
	assert_int_equal(nic.speed, 100000);
	/* The bus above the device knows. */
	assert_int_equal(hvd_nic_numa(root, "ib0", &numa), 0);
	/* Nobody does: the CPUs near it decide, by this machine's topology. */
	make_file(root, "/devices/pci0/numa_node", "-1\n");
	assert_true(hvd_nic_numa(root, "ib0", &numa) >= -1);
	assert_true(numa.tried);
	hvd_numa_clear(&numa);
	/* One node, no choice. */
	make_file(root, "/devices/system/node/online", "0\n");
	assert_int_equal(hvd_nic_numa(root, "eth4", &numa), 0);
	assert_int_equal(hvd_nic_numa(root, "nothing", &numa), -1);
	hvd_numa_clear(&numa);
	/* No link: reading the speed fails, or it is -1. */
	make_file(root, "/devices/pci0/0000:81/net/eth4/speed", "-1\n");
	hvd_nic_read(&nic, root, &roce, -1);
	assert_int_equal(nic.speed, -1);
	/* The same name in another network namespace. */
	roce.hw[5] = 9;
	hvd_nic_read(&nic, root, &roce, -1);
	assert_false(nic.known || nic.device);
	roce.hw[5] = 4;
	roce.index = 6;
	hvd_nic_read(&nic, root, &roce, -1);
	assert_false(nic.known);
	assert_int_equal(remove_tree(root), 0);
}

static struct hvd_iface an_iface(enum hvd_iface_kind kind, int64_t speed, const char *name)
{
	struct hvd_iface i = {.kind = kind, .speed = speed};

	snprintf(i.name, sizeof(i.name), "%s", name);
	return i;
}

TEST(interfaces_are_ranked)
{
	struct hvd_iface_addr lla = {0}, mixed[2] = {lla, lla};
	struct hvd_iface best_first[] = {
		an_iface(HVD_IFACE_INFINIBAND, 200000, "ib0"), an_iface(HVD_IFACE_INFINIBAND, 100000, "ib1"),
		an_iface(HVD_IFACE_ROCE, 100000, "eth4"),      an_iface(HVD_IFACE_ETHERNET, 100000, "eth3"),
		an_iface(HVD_IFACE_BOND, 20000, "bond0"),      an_iface(HVD_IFACE_ETHERNET, 1000, "eth0"),
		an_iface(HVD_IFACE_ETHERNET, -1, "eth1"),      an_iface(HVD_IFACE_VETH, 10000, "eth0"),
		an_iface(HVD_IFACE_VIRTUAL, -1, "dummy0"),     an_iface(HVD_IFACE_WIRELESS, 1000, "wlan0"),
		an_iface(HVD_IFACE_BRIDGE, 10000, "br1"),      an_iface(HVD_IFACE_TUNNEL, 10, "tun0"),
	};
	struct hvd_iface uplink = an_iface(HVD_IFACE_BRIDGE, 100000, "br0");
	struct hvd_iface docker = an_iface(HVD_IFACE_BRIDGE, 100000, "docker0");
	struct hvd_iface bmc = an_iface(HVD_IFACE_ETHERNET, 425, "idrac");
	size_t n = sizeof(best_first) / sizeof(*best_first);

	assert_int_equal(hvd_addr_parse("169.254.0.1", &lla.addr), 0);
	for (size_t i = 1; i < n; i++)
		assert_true(hvd_iface_rank(&best_first[i - 1]) < hvd_iface_rank(&best_first[i]));
	uplink.uplink = true;
	assert_int_equal(hvd_iface_rank(&uplink), hvd_iface_rank(&best_first[3]));
	docker.nat_default = true;
	assert_true(hvd_iface_rank(&docker) > hvd_iface_rank(&best_first[n - 1]));
	bmc.n_addrs = 1;
	bmc.addrs = &lla;
	assert_true(hvd_iface_rank(&bmc) > hvd_iface_rank(&best_first[9]));
	/* With another address besides it is like any other. */
	mixed[0] = lla;
	assert_int_equal(hvd_addr_parse("10.0.0.1", &mixed[1].addr), 0);
	bmc.addrs = mixed;
	bmc.n_addrs = 2;
	assert_true(hvd_iface_rank(&bmc) < hvd_iface_rank(&best_first[6]));
	bmc.addrs = &mixed[1];
	bmc.n_addrs = 1;
	assert_true(hvd_iface_rank(&bmc) < hvd_iface_rank(&best_first[6]));
	for (int k = HVD_IFACE_INFINIBAND; k <= HVD_IFACE_LOOPBACK; k++)
		assert_int_equal(hvd_iface_kind_of(hvd_iface_kind_name((enum hvd_iface_kind)k)), k);
	assert_int_equal(hvd_iface_kind_of("carrier pigeon"), -1);
}

static const struct hvd_iface *find(const struct hvd_ifaces *ifs, const char *name)
{
	for (int i = 0; i < ifs->n; i++)
		if (strcmp(ifs->v[i].name, name) == 0)
			return &ifs->v[i];
	return NULL;
}

/* Whatever host this is: the answer is consistent in itself. */
TEST(this_host_is_queried)
{
	struct hvd_ifaces ifs;
	struct hvd_err err;

	assert_int_equal(hvd_ifaces_query(&ifs, NULL, hvd_deadline_in(5), &err), 0);
	for (int i = 0; i < ifs.n; i++) {
		assert_true(ifs.v[i].n_addrs > 0);
		assert_int_not_equal(ifs.v[i].kind, HVD_IFACE_LOOPBACK);
		assert_true(i == 0 || hvd_iface_rank(&ifs.v[i - 1]) <= hvd_iface_rank(&ifs.v[i]));
		assert_non_null(find(&ifs, ifs.v[i].name));
	}
	for (int i = 0; i < ifs.n_dropped; i++) {
		assert_non_null(ifs.dropped[i].reason);
		assert_null(find(&ifs, ifs.dropped[i].name));
	}
	hvd_ifaces_clear(&ifs);
	hvd_ifaces_clear(NULL);
}

static int sh(const char *command)
{
	char quiet[512];

	snprintf(quiet, sizeof(quiet), "{ %s; } >/dev/null 2>&1", command);
	return system(quiet);
}

static const char *dropped(const struct hvd_ifaces *ifs, const char *name)
{
	for (int i = 0; i < ifs->n_dropped; i++)
		if (strcmp(ifs->dropped[i].name, name) == 0)
			return ifs->dropped[i].reason;
	return "";
}

/* Is the address that is marked as the first one that which Gloo finds? */
static bool first_as_gloo(const struct hvd_iface *i)
{
	char want[INET6_ADDRSTRLEN] = "", got[INET6_ADDRSTRLEN] = "";
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list) != 0)
		return false;
	for (const struct ifaddrs *a = list; a && !want[0]; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, i->name) != 0)
			continue;
		if (a->ifa_addr->sa_family == AF_INET)
			inet_ntop(AF_INET, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, want, sizeof(want));
		else if (a->ifa_addr->sa_family == AF_INET6)
			inet_ntop(AF_INET6, &((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr, want, sizeof(want));
	}
	freeifaddrs(list);
	for (int a = 0; a < i->n_addrs; a++)
		if (i->addrs[a].first)
			hvd_addr_text(&i->addrs[a].addr, got);
	return strcmp(want, got) == 0;
}

/* In a namespace of its own, which goes with the process. */
static int in_namespace(bool own_sysfs)
{
	const struct hvd_iface *i;
	struct hvd_ifaces ifs;
	char text[INET6_ADDRSTRLEN];

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return 77;
	if (own_sysfs && mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
		return 77;
	if (sh("ip link set lo up && ip link add v0 type veth peer name v1 && ip link add br0 type bridge &&"
	       "ip link add docker0 type bridge && ip link add v2 type veth peer name v3 &&"
	       "ip link add eth0 type veth peer name v5") != 0)
		return 77;
	if (sh("ip link set v1 master br0 && ip addr add 10.9.0.1/24 dev v0 && "
	       "ip addr add 10.5.0.1/24 dev br0 label br0:0 && ip addr add 10.7.0.1/24 dev br0 &&"
	       "ip addr add 172.17.0.1/16 dev docker0 && ip addr add 10.8.0.1/24 dev v2 &&"
	       "ip addr add 10.6.0.1/24 dev eth0 && for i in v0 v1 br0 docker0 v2 v5; do ip link set $i up; done &&"
	       "ip -6 addr add fd09::3/64 dev v0 nodad preferred_lft 0 && ip -6 addr add fd09::1/64 dev v0 nodad &&"
	       "ip -6 addr add fd09::2/64 dev v0") != 0)
		return 1;
	/* The kernel lets up to a second pass before it reports a carrier. */
	for (hvd_time end = hvd_deadline_in(5);; usleep(20000)) {
		if (hvd_ifaces_query(&ifs, NULL, end, NULL) != 0)
			return 2;
		if (hvd_left(end) == 0 || (find(&ifs, "v0") && find(&ifs, "br0")))
			break;
		hvd_ifaces_clear(&ifs);
	}
	i = find(&ifs, "v0");
	if (!i || i != &ifs.v[0] || i->kind != HVD_IFACE_VETH || i->speed != 10000 || i->mtu != 1500 || i->numa != -1)
		return 3;
	/* 10.9.0.1, fd09::1, perhaps fd09::2 (when its check is over already), and last the deprecated one. */
	if (i->n_addrs < 3 || i->addrs[0].addr.family != AF_INET || i->addrs[0].prefix != 24)
		return 4;
	if (!i->addrs[i->n_addrs - 1].deprecated || i->addrs[i->n_addrs - 2].deprecated)
		return 5;
	if (strcmp(hvd_addr_text(&i->addrs[i->n_addrs - 1].addr, text), "fd09::3") != 0)
		return 6;
	i = find(&ifs, "br0");
	if (!i || i->kind != HVD_IFACE_BRIDGE || i->uplink || i->nat_default)
		return 7;
	/* Of br0 it is the second: the first has another label. */
	if (!first_as_gloo(i) || i->addrs[0].first || !first_as_gloo(find(&ifs, "v0")))
		return 13;
	/* A bridge without ports has no carrier, where the kernel is new enough to say so. */
	i = find(&ifs, "docker0");
	if (i ? !i->nat_default || i != &ifs.v[ifs.n - 1] : strcmp(dropped(&ifs, "docker0"), "has no carrier") != 0)
		return 8;
	if (strcmp(dropped(&ifs, "lo"), "is the loopback interface") != 0)
		return 9;
	if (strcmp(dropped(&ifs, "v1"), "is a port of another interface") != 0)
		return 10;
	if (strcmp(dropped(&ifs, "v2"), "has no carrier") != 0 || strcmp(dropped(&ifs, "v3"), "is down") != 0)
		return 11;
	if (strcmp(dropped(&ifs, "v5"), "has no carrier") != 0 || strcmp(dropped(&ifs, "eth0"), "is down") != 0)
		return 12;
	hvd_ifaces_clear(&ifs);
	return 0;
}

static void run_in_namespace(bool own_sysfs)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(in_namespace(own_sysfs));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(a_namespace_with_its_sysfs)
{
	run_in_namespace(true);
}

/* sysfs then shows the interfaces of the namespace outside, an eth0 perhaps among them. */
TEST(a_namespace_with_a_foreign_sysfs)
{
	run_in_namespace(false);
}

RUN_TESTS()
