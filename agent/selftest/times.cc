// SPDX-License-Identifier: Apache-2.0
#include "times.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <time.h>
#include <unistd.h>

namespace selftest
{

double ms_since(Clock::time_point start)
{
	return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double ms_since_process_start()
{
	constexpr int fields_before_start = 19; // after the command's closing parenthesis
	std::ifstream file("/proc/self/stat");
	std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
	size_t at = stat.rfind(')');
	struct timespec now;

	for (int i = 0; at != std::string::npos && i <= fields_before_start; i++)
		at = stat.find(' ', at + 1);
	if (at == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		return 0;
	const double started = strtod(stat.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
	const double seconds = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 - started;
	return seconds > 0 ? seconds * 1000 : 0;
}

double ms_since_epoch(double epoch)
{
	return (std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - epoch) *
	       1000;
}

} // namespace selftest
