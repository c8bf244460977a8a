// SPDX-License-Identifier: Apache-2.0
// gloo_log.h - filters what Gloo prints. Since 2025 Gloo writes to standard output or error that ranks are connected,
// and has no option to turn that off.
#ifndef SELFTEST_GLOO_LOG_H
#define SELFTEST_GLOO_LOG_H

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>

namespace selftest
{

// While it exists, it reads what is written to `stream` line by line. It drops reports of success, and makes every
// other line an event() of this rank. Any thread may write to the stream.
class GlooLog : public std::streambuf
{
      public:
	explicit GlooLog(std::ostream &stream_);
	~GlooLog() override;
	GlooLog(const GlooLog &) = delete;
	GlooLog &operator=(const GlooLog &) = delete;

      protected:
	int_type overflow(int_type c) override;
	std::streamsize xsputn(const char *s, std::streamsize n) override;

      private:
	std::ostream &stream;
	std::streambuf *const before;
	std::mutex mutex;
	std::string line; // what has come of it
};

} // namespace selftest

#endif
