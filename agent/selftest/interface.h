// SPDX-License-Identifier: Apache-2.0
// interface.h - finds the network interface that Gloo will use, to report a wrong one better than Gloo does.
#ifndef SELFTEST_INTERFACE_H
#define SELFTEST_INTERFACE_H

#include <string>

struct sockaddr;

namespace selftest
{

struct Interface {
	std::string name;
	std::string address;
};

// The interface with this name, and the address on it that Gloo will take: the first one. For an empty name the address
// that this machine's host name resolves to. Throws Failure(EXIT_USAGE), which lists the interfaces of this machine.
Interface find_interface(const std::string &name);

// An IPv4 or IPv6 address as text, without the port; empty for other families.
std::string address_text(const struct sockaddr *sa);

} // namespace selftest

#endif
