// SPDX-License-Identifier: Apache-2.0
// options.h - the command line.
#ifndef SELFTEST_OPTIONS_H
#define SELFTEST_OPTIONS_H

#include <cstddef>
#include <string>

namespace selftest
{

struct Options {
	bool quick = false;
	bool json = false;
	size_t max_bytes = size_t(16) << 20;
	int iterations = 0; // 0: fewer the larger the message is
	std::string time_file;
	double since = 0; // seconds since the epoch; 0: not given

	// Aids for the tests of launchers.
	int fail_rank = -1;
	int fail_code = 1;
	int fail_signal = 0; // instead of the exit status
	int hang_rank = -1;
	double sleep = 0;
};

// Handles --help and --version, which print and exit. Throws Failure(EXIT_USAGE).
Options parse_options(int argc, char **argv);

} // namespace selftest

#endif
