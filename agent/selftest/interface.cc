// SPDX-License-Identifier: Apache-2.0
#include "interface.h"

#include "failure.h"

#include <arpa/inet.h>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace selftest
{

namespace
{

using Interfaces = std::unique_ptr<struct ifaddrs, decltype(&freeifaddrs)>;

Interfaces all_interfaces()
{
	struct ifaddrs *list = nullptr;

	if (getifaddrs(&list) != 0)
		throw Failure(EXIT_CHECK, std::string("cannot list the network interfaces: ") + strerror(errno), "");
	return Interfaces(list, freeifaddrs);
}

std::string list_text(const struct ifaddrs *list)
{
	std::string s;

	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		std::string a = i->ifa_addr ? address_text(i->ifa_addr) : "";

		if (a.empty())
			continue;
		s += (s.empty() ? "" : ", ") + std::string(i->ifa_name) + " (" + a + ")";
	}
	return s.empty() ? "none has an address" : s;
}

Interface by_name(const std::string &name)
{
	Interfaces list = all_interfaces();
	const std::string variable = "HOROVOD_GLOO_IFACE=" + name;
	bool exists = false;

	for (const struct ifaddrs *i = list.get(); i; i = i->ifa_next) {
		if (name != i->ifa_name)
			continue;
		exists = true;
		std::string a = i->ifa_addr ? address_text(i->ifa_addr) : "";
		if (a.empty())
			continue;
		if (!(i->ifa_flags & IFF_UP))
			throw Failure(EXIT_USAGE, variable + ": this interface is down",
				      "the interfaces of this host are: " + list_text(list.get()));
		return {name, a};
	}
	if (exists)
		throw Failure(EXIT_USAGE, variable + ": this interface has no IPv4 or IPv6 address",
			      "the interfaces of this host with addresses are: " + list_text(list.get()));
	throw Failure(EXIT_USAGE,
		      variable + (name.find(',') == std::string::npos ? ": this host has no such interface"
								      : ": Gloo takes one interface, not a list"),
		      "name one of the interfaces of this host: " + list_text(list.get()));
}

std::string owner_of(const std::string &address)
{
	Interfaces list = all_interfaces();

	for (const struct ifaddrs *i = list.get(); i; i = i->ifa_next)
		if (i->ifa_addr && address_text(i->ifa_addr) == address)
			return i->ifa_name;
	return address.rfind("127.", 0) == 0 ? "lo" : "";
}

// As Gloo does, takes the first address that can be bound to.
Interface by_host_name()
{
	char name[HOST_NAME_MAX + 1] = "";
	struct addrinfo hints = {}, *list = nullptr;
	int rc;

	gethostname(name, sizeof(name) - 1);
	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(name, nullptr, &hints, &list);
	if (rc != 0)
		throw Failure(EXIT_USAGE,
			      std::string("HOROVOD_GLOO_IFACE is not set, and the name of this host, ") + name +
				      ", does not resolve: " + gai_strerror(rc),
			      "set HOROVOD_GLOO_IFACE to the interface that the other hosts reach this one by: " +
				      list_text(all_interfaces().get()));
	std::unique_ptr<struct addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
	for (struct addrinfo *i = list; i; i = i->ai_next) {
		std::string address = address_text(i->ai_addr), interface = owner_of(address);

		if (!interface.empty())
			return {interface, address};
	}
	throw Failure(EXIT_USAGE,
		      std::string("HOROVOD_GLOO_IFACE is not set, and the name of this host, ") + name +
			      ", resolves to addresses that no interface of it has",
		      "set HOROVOD_GLOO_IFACE to one of: " + list_text(all_interfaces().get()));
}

} // namespace

std::string address_text(const struct sockaddr *sa)
{
	char buf[NI_MAXHOST] = "";
	socklen_t len = 0;

	if (sa->sa_family == AF_INET)
		len = sizeof(struct sockaddr_in);
	else if (sa->sa_family == AF_INET6)
		len = sizeof(struct sockaddr_in6);
	if (!len || getnameinfo(sa, len, buf, sizeof(buf), nullptr, 0, NI_NUMERICHOST) != 0)
		return "";
	return buf;
}

Interface find_interface(const std::string &name)
{
	return name.empty() ? by_host_name() : by_name(name);
}

} // namespace selftest
