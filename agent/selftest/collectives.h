// SPDX-License-Identifier: Apache-2.0
// collectives.h - runs collectives: checks results that every rank can compute by itself, and measures how long an
// allreduce takes.
#ifndef SELFTEST_COLLECTIVES_H
#define SELFTEST_COLLECTIVES_H

#include <cstddef>
#include <functional>
#include <gloo/context.h>
#include <memory>
#include <string>
#include <vector>

namespace selftest
{

using Members = std::vector<int>;

// Each function runs one collective on `context`, whose ranks are the ranks `members` of the job in this order. It
// returns what is wrong with the result, or nothing. Exceptions of Gloo are not caught.
std::string check_allreduce(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);
std::string check_broadcast(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);
std::string check_allgather(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);

struct Measurement {
	size_t bytes;
	int iterations;
	double mean_us;   // of the rank on which the mean is largest
	double median_us; // on this rank
	double min_us;    // the fastest one on this rank
	double mb_s;      // message bytes over the mean, in 10^6 bytes
	double bus_mb_s;  // what each link carries of it: × 2(n-1)/n
};

// Measures allreduce for messages of 4 bytes, 16 bytes and so on up to `max_bytes`. With `iterations` 0 larger messages
// are sent fewer times. Calls `done` after each size, on every rank. Returns what is wrong with a result, or nothing.
std::string measure_allreduce(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t max_bytes,
			      int iterations, const std::function<void(const Measurement &)> &done);

} // namespace selftest

#endif
