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

	// For tests of launchers: how this rank is to fail.
	int fail_rank = -1;
	int fail_code = 1;
	int fail_signal = 0; // the rank ends by this signal, not with an exit status
	int hang_rank = -1;
	double sleep = 0;
};

// Handles --help and --version, which print and exit. Throws Failure(EXIT_USAGE).
Options parse_options(int argc, char **argv);

} // namespace selftest

#endif
