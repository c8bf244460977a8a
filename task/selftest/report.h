// SPDX-License-Identifier: Apache-2.0
// report.h - how rank 0 hears from every rank at the end, and the others from rank 0.
#ifndef SELFTEST_REPORT_H
#define SELFTEST_REPORT_H

#include "http_store.h"
#include "placement.h"
#include "times.h"

namespace selftest
{

struct Report {
	int passed;
	Times times;
	Traffic traffic;
	char problem[256];
};

// Rank 0 gets the reports of all ranks, in the order of ranks; the others get only their own back. Nobody returns
// before rank 0 has heard of all. Throws Failure, on rank 0 with the names of the ranks that do not answer.
std::vector<Report> exchange_reports(const std::shared_ptr<gloo::Context> &context, const Report &own,
				     const std::vector<Place> &places);

} // namespace selftest

#endif
