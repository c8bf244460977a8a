// SPDX-License-Identifier: Apache-2.0
// report.h - at the end every rank reports to rank 0, which tells all ranks that it has the reports.
#ifndef SELFTEST_REPORT_H
#define SELFTEST_REPORT_H

#include "http_store.h"
#include "placement.h"

namespace selftest
{

// How long the parts of the start took, up to the end of the first allreduce, in milliseconds.
struct Times {
	double contexts = 0;        // from main() until the contexts are connected: what hvd.init() would take
	double first_allreduce = 0; // from main()
	double since_process = 0;   // from the start of the process, which may have been a launcher's shim at first
	double since_launch = -1;   // from the time given with --since; -1: none was given
};

struct Report {
	Times times;
	Traffic traffic;
	char problem[256]; // what the rank found wrong; empty: nothing
};

// Returns the reports of all ranks, in the order of the ranks, on rank 0; on other ranks their own report only. No rank
// returns before rank 0 has all reports. Throws Failure; rank 0's names the ranks that did not report.
std::vector<Report> exchange_reports(const std::shared_ptr<gloo::Context> &context, const Report &own,
				     const std::vector<Place> &places);

} // namespace selftest

#endif
