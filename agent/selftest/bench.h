// SPDX-License-Identifier: Apache-2.0
// bench.h - measures how long an allreduce takes for messages of different sizes.
#ifndef SELFTEST_BENCH_H
#define SELFTEST_BENCH_H

#include "checks.h"

#include <cstddef>
#include <functional>

namespace selftest
{

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
