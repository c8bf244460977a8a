// SPDX-License-Identifier: Apache-2.0
#include "checks.h"

#include <cstdio>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
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

} // namespace

float sample(int rank, size_t index)
{
	return static_cast<float>(offset(rank) + step(rank) * static_cast<int>(index % period));
}

void allreduce_sum(const std::shared_ptr<gloo::Context> &context, std::vector<float> &data)
{
	gloo::AllreduceOptions opts(context);
	void (*sum)(void *, const void *, const void *, size_t) = gloo::sum<float>;

	opts.setOutput(data.data(), data.size());
	opts.setReduceFunction(sum);
	gloo::allreduce(opts);
}

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

} // namespace selftest
