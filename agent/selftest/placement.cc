// SPDX-License-Identifier: Apache-2.0
#include "placement.h"

#include "failure.h"

#include <cstdio>
#include <gloo/allgather.h>
#include <map>
#include <set>
#include <type_traits>
#include <unistd.h>

namespace selftest
{

namespace
{

static_assert(std::is_trivially_copyable<Place>::value, "places are sent as bytes");

template <size_t n> void put(char (&to)[n], const std::string &from)
{
	snprintf(to, n, "%s", from.c_str());
}

// Checks one group: its `members` share `what`. Each must have another index in the group, and the same count of
// members.
void check_group(const std::vector<Place> &places, const std::vector<int> &members, const std::string &what,
		 const std::string &name, int Place::*index, int Place::*count)
{
	static const char hint[] =
		"the launcher laid the ranks out wrongly, or HOROVOD_HOSTNAME is not the same on "
		"all ranks of a host: compare with the placement of the ranks that the launcher shows";
	const std::string prefix = "HOROVOD_" + name;
	std::map<int, int> taken;

	for (int r : members) {
		const Place &p = places[static_cast<size_t>(r)];

		if (static_cast<size_t>(p.*count) != members.size())
			throw Failure(EXIT_USAGE,
				      describe(p) + " has " + prefix + "_SIZE=" + std::to_string(p.*count) + ", but " +
					      std::to_string(members.size()) + " ranks " + what,
				      hint);
		auto other = taken.emplace(p.*index, r);
		if (!other.second)
			throw Failure(EXIT_USAGE,
				      describe(p) + " and rank " + std::to_string(other.first->second) + " both " +
					      what + " and have " + prefix + "_RANK=" + std::to_string(p.*index),
				      hint);
	}
}

// The ranks at `places` for which `is_member` is true, in the order of their index.
template <typename F> std::vector<int> members(const std::vector<Place> &places, int Place::*index, F is_member)
{
	std::map<int, int> by_index;
	std::vector<int> ranks;

	for (const Place &p : places)
		if (is_member(p))
			by_index[p.*index] = p.rank;
	for (const auto &i : by_index)
		ranks.push_back(i.second);
	return ranks;
}

} // namespace

Place own_place(const Env &env, const Interface &interface)
{
	Place p = {};
	char node[sizeof(p.node)] = "";

	p.rank = env.rank;
	p.size = env.size;
	p.local_rank = env.local_rank;
	p.local_size = env.local_size;
	p.cross_rank = env.cross_rank;
	p.cross_size = env.cross_size;
	p.pid = getpid();
	gethostname(node, sizeof(node) - 1);
	put(p.host, env.hostname);
	put(p.node, node);
	put(p.iface, interface.name);
	put(p.address, interface.address);
	return p;
}

std::vector<Place> gather_places(const std::shared_ptr<gloo::Context> &context, const Place &own)
{
	if (!context)
		return {own};
	std::vector<Place> places(static_cast<size_t>(context->size));
	Place in = own;
	gloo::AllgatherOptions opts(context);

	opts.setInput(reinterpret_cast<char *>(&in), sizeof(in));
	opts.setOutput(reinterpret_cast<char *>(places.data()), places.size() * sizeof(in));
	gloo::allgather(opts);
	for (Place &p : places) {
		p.host[sizeof(p.host) - 1] = p.node[sizeof(p.node) - 1] = '\0';
		p.iface[sizeof(p.iface) - 1] = p.address[sizeof(p.address) - 1] = '\0';
	}
	return places;
}

void check_places(const std::vector<Place> &places)
{
	std::map<std::string, std::vector<int>> hosts;
	std::map<int, std::vector<int>> local_ranks;

	for (const Place &p : places) {
		if (static_cast<size_t>(p.size) != places.size())
			throw Failure(EXIT_USAGE,
				      describe(p) + " has HOROVOD_SIZE=" + std::to_string(p.size) + ", others " +
					      std::to_string(places.size()),
				      "every rank of a job needs the same HOROVOD_SIZE");
		hosts[p.host].push_back(p.rank);
		local_ranks[p.local_rank].push_back(p.rank);
	}
	for (const auto &h : hosts)
		check_group(places, h.second, "name the host " + h.first, "LOCAL", &Place::local_rank,
			    &Place::local_size);
	for (const auto &l : local_ranks)
		check_group(places, l.second, "have HOROVOD_LOCAL_RANK=" + std::to_string(l.first), "CROSS",
			    &Place::cross_rank, &Place::cross_size);
}

std::vector<int> local_members(const std::vector<Place> &places, int rank)
{
	const std::string host = places[static_cast<size_t>(rank)].host;

	return members(places, &Place::local_rank, [&](const Place &p) { return host == p.host; });
}

std::vector<int> cross_members(const std::vector<Place> &places, int rank)
{
	const int local_rank = places[static_cast<size_t>(rank)].local_rank;

	return members(places, &Place::cross_rank, [&](const Place &p) { return local_rank == p.local_rank; });
}

size_t count_hosts(const std::vector<Place> &places)
{
	std::set<std::string> hosts;

	for (const Place &p : places)
		hosts.insert(p.host);
	return hosts.size();
}

std::string describe(const Place &p)
{
	return "rank " + std::to_string(p.rank) + " on " + p.host + " (" + p.iface + ", " + p.address + ")";
}

} // namespace selftest
