// SPDX-License-Identifier: Apache-2.0
// checks.h - collectives whose correct result every rank can compute by itself.
#ifndef SELFTEST_CHECKS_H
#define SELFTEST_CHECKS_H

#include <cstddef>
#include <gloo/context.h>
#include <memory>
#include <string>
#include <vector>

namespace selftest
{

using Members = std::vector<int>;

// A float for each rank of the job and index: small whole numbers, so that sums in any order are exact.
float sample(int rank, size_t index);

// Sums `data` over the ranks of `context`, in place.
void allreduce_sum(const std::shared_ptr<gloo::Context> &context, std::vector<float> &data);

// Each function runs one collective on `context`, whose ranks are the ranks `members` of the job in this order. It
// returns what is wrong with the result, or nothing. Exceptions of Gloo are not caught.
std::string check_allreduce(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);
std::string check_broadcast(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);
std::string check_allgather(const std::shared_ptr<gloo::Context> &context, const Members &members, size_t elements);

} // namespace selftest

#endif
