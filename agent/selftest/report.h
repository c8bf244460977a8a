// SPDX-License-Identifier: Apache-2.0
// report.h - at the end every rank reports to rank 0, which tells all ranks that it has the reports.
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

// Returns the reports of all ranks, in the order of the ranks, on rank 0; on other ranks their own report only. No rank
// returns before rank 0 has all reports. Throws Failure; rank 0's names the ranks that did not report.
std::vector<Report> exchange_reports(const std::shared_ptr<gloo::Context> &context, const Report &own,
				     const std::vector<Place> &places);

} // namespace selftest

#endif
