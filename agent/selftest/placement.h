// SPDX-License-Identifier: Apache-2.0
// placement.h - where every rank of the job runs, as each rank tells it.
#ifndef SELFTEST_PLACEMENT_H
#define SELFTEST_PLACEMENT_H

#include "env.h"
#include "interface.h"

#include <gloo/context.h>
#include <memory>
#include <string>
#include <vector>

namespace selftest
{

// Sent as raw bytes, since all ranks of a job run the same program on the same architecture.
struct Place {
	int rank, size, local_rank, local_size, cross_rank, cross_size, pid;
	char host[256]; // HOROVOD_HOSTNAME
	char node[65];  // gethostname()
	char iface[64];
	char address[64];
};

Place own_place(const Env &env, const Interface &interface);

// Collects the places of all ranks, in the order of the ranks. `context` is null in a job of one rank.
std::vector<Place> gather_places(const std::shared_ptr<gloo::Context> &context, const Place &own);

// Throws Failure(EXIT_USAGE) when the ranks' environments contradict each other.
void check_places(const std::vector<Place> &places);

// The ranks of the local and the cross context of `rank`, in the order of the context.
std::vector<int> local_members(const std::vector<Place> &places, int rank);
std::vector<int> cross_members(const std::vector<Place> &places, int rank);

size_t count_hosts(const std::vector<Place> &places);

// "rank 3 on nodeb (eth0, 192.0.2.7)"
std::string describe(const Place &place);

} // namespace selftest

#endif
