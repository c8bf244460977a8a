// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <algorithm>
#include <chrono>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>

namespace selftest
{

namespace
{

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start)
{
	return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double largest(const std::shared_ptr<gloo::Context> &context, double value)
{
	gloo::AllreduceOptions opts(context);
	void (*max)(void *, const void *, const void *, size_t) = gloo::max<double>;

	opts.setOutput(&value, 1);
	opts.setReduceFunction(max);
	gloo::allreduce(opts);
	return value;
}

int iterations_for(size_t bytes)
{
	constexpr size_t traffic = size_t(32) << 20;

	return static_cast<int>(std::clamp<size_t>(traffic / bytes, 5, 200));
}

Measurement measure(const std::shared_ptr<gloo::Context> &context, size_t bytes, int iterations)
{
	std::vector<float> data(bytes / sizeof(float), 0);
	Measurement m = {bytes, iterations ? iterations : iterations_for(bytes), 0, 0, 0, 0, 0};
	std::vector<double> us(static_cast<size_t>(m.iterations));
	const double n = context->size;

	gloo::BarrierOptions opts(context);
	gloo::barrier(opts);
	const auto start = Clock::now();
	for (double &u : us) {
		const auto one = Clock::now();

		allreduce_sum(context, data);
		u = us_since(one);
	}
	m.mean_us = largest(context, us_since(start) / m.iterations);
	std::sort(us.begin(), us.end());
	m.min_us = us.front();
	m.median_us = us[us.size() / 2];
	m.mb_s = static_cast<double>(bytes) / m.mean_us;
	m.bus_mb_s = m.mb_s * 2 * (n - 1) / n;
	return m;
}

} // namespace

std::string measure_allreduce(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t max_bytes,
			      int iterations, const std::function<void(const Measurement &)> &done)
{
	std::string problem;

	for (size_t bytes = sizeof(float); bytes <= max_bytes; bytes *= 4) {
		// The check also warms up connections and caches.
		std::string p = check_allreduce(context, members, bytes / sizeof(float));

		if (problem.empty())
			problem = p;
		done(measure(context, bytes, iterations));
	}
	return problem;
}

} // namespace selftest
