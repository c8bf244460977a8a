// SPDX-License-Identifier: Apache-2.0
// times.h - how long the parts of the start took, up to the end of the first allreduce, in milliseconds.
#ifndef SELFTEST_TIMES_H
#define SELFTEST_TIMES_H

#include <chrono>

namespace selftest
{

struct Times {
	double contexts = 0;        // from main() until the contexts are connected: what hvd.init() would take
	double first_allreduce = 0; // from main()
	double since_process = 0;   // from the start of the process, which may have been a launcher's shim at first
	double since_launch = -1;   // from the time given with --since; -1: none was given
};

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start);

// Milliseconds since the kernel started this process, in steps of a clock tick (10 ms); 0 when /proc does not tell.
double ms_since_process_start();

// Milliseconds since `epoch` seconds of the wall clock.
double ms_since_epoch(double epoch);

} // namespace selftest

#endif
