// SPDX-License-Identifier: Apache-2.0
#include "collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>

namespace selftest
{

namespace
{

// A sample is offset + step × (index mod period).
constexpr size_t period = 89;

int offset(int rank)
{
	return rank % 61 + 1;
}

int step(int rank)
{
	return rank % 3 + 1;
}

std::string differs(const char *collective, size_t index, size_t elements, float is, float should_be)
{
	char buf[160];

	snprintf(buf, sizeof(buf), "%s of %zu floats gave %g at index %zu, and should have given %g", collective,
		 elements, static_cast<double>(is), index, static_cast<double>(should_be));
	return buf;
}

// A float for each rank of the job and index: small whole numbers, so that sums in any order are exact.
float sample(int rank, size_t index)
{
	return static_cast<float>(offset(rank) + step(rank) * static_cast<int>(index % period));
}

// Reduces `n` values over the ranks of `context`, in place.
template <typename T>
void reduce(const std::shared_ptr<gloo::Context> &context, void (*op)(void *, const void *, const void *, size_t),
	    T *values, size_t n)
{
	gloo::AllreduceOptions opts(context);

	opts.setOutput(values, n);
	opts.setReduceFunction(op);
	gloo::allreduce(opts);
}

void allreduce_sum(const std::shared_ptr<gloo::Context> &context, std::vector<float> &data)
{
	reduce(context, gloo::sum<float>, data.data(), data.size());
}

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start)
{
	return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double largest(const std::shared_ptr<gloo::Context> &context, double value)
{
	reduce(context, gloo::max<double>, &value, 1);
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

std::string check_allreduce(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements)
{
	const int self = members[static_cast<size_t>(context->rank)];
	std::vector<float> data(elements);
	double offsets = 0, steps = 0;

	for (size_t i = 0; i < elements; i++)
		data[i] = sample(self, i);
	for (int r : members) {
		offsets += offset(r);
		steps += step(r);
	}
	allreduce_sum(context, data);
	for (size_t i = 0; i < elements; i++) {
		auto should_be = static_cast<float>(offsets + steps * static_cast<double>(i % period));

		if (data[i] != should_be)
			return differs("allreduce", i, elements, data[i], should_be);
	}
	return "";
}

std::string check_broadcast(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements)
{
	std::vector<float> data(elements);
	std::string problem;

	// Once from the first and once from the last rank, which send along different trees. Both are run even if the
	// first result is wrong, because the other ranks wait for this one in the second.
	for (int root : {0, context->size - 1}) {
		const int source = members[static_cast<size_t>(root)];

		for (size_t i = 0; i < elements; i++)
			data[i] = context->rank == root ? sample(source, i) : -1;
		gloo::BroadcastOptions opts(context);
		opts.setOutput(data.data(), data.size());
		opts.setRoot(root);
		gloo::broadcast(opts);
		for (size_t i = 0; i < elements; i++)
			if (data[i] != sample(source, i) && problem.empty())
				problem = differs("broadcast", i, elements, data[i], sample(source, i));
	}
	return problem;
}

std::string check_allgather(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements)
{
	const int self = members[static_cast<size_t>(context->rank)];
	std::vector<float> in(elements), out(elements * members.size(), -1);

	for (size_t i = 0; i < elements; i++)
		in[i] = sample(self, i);
	gloo::AllgatherOptions opts(context);
	opts.setInput(in.data(), in.size());
	opts.setOutput(out.data(), out.size());
	gloo::allgather(opts);
	for (size_t m = 0; m < members.size(); m++)
		for (size_t i = 0; i < elements; i++) {
			const float is = out[m * elements + i], should_be = sample(members[m], i);

			if (is != should_be)
				return differs("allgather", m * elements + i, out.size(), is, should_be);
		}
	return "";
}

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
