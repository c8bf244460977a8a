// SPDX-License-Identifier: Apache-2.0
// results.h - prints the results, on rank 0.
#ifndef SELFTEST_RESULTS_H
#define SELFTEST_RESULTS_H

#include "collectives.h"
#include "env.h"
#include "report.h"

#include <string>
#include <vector>

namespace selftest
{

struct Results {
	std::vector<Place> places;
	std::vector<std::string> checks; // what was checked
	std::vector<Measurement> measurements;
	Times times;
	std::vector<Report> reports; // empty until all ranks have reported
	std::string problem;         // why it failed; empty: it passed
};

// Tables for people, each written at once.
void print_places(const std::vector<Place> &places);
void print_start(const Results &results);
void print_measurement(const Measurement &m, bool first);
// Prints the last line.
void print_verdict(const Results &results);

// Prints all results as one JSON object on one line.
std::string results_json(const Results &results, const Env &env);

// Prints the times only, with the same keys.
std::string times_json(const Results &results);

} // namespace selftest

#endif
