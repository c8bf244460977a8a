// SPDX-License-Identifier: Apache-2.0
// gloo_log.h - what Gloo prints by itself, which nobody can turn off: from 2025 on it tells on standard output or error
// that ranks are connected.
#ifndef SELFTEST_GLOO_LOG_H
#define SELFTEST_GLOO_LOG_H

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>

namespace selftest
{

// While it lives, what comes by `stream` is read line by line: news of what goes well is left out, the rest becomes a
// note() of this rank. Any thread may write.
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
