// SPDX-License-Identifier: Apache-2.0
#include "gloo_log.h"

#include "contexts.h"
#include "failure.h"

namespace selftest
{

namespace
{

// Is the line a report of success? Most releases write "[FILE:LINE] INFO …", those of early 2025 "[Gloo] Rank …".
bool is_good_news(const std::string &line)
{
	return without_location(line).rfind("INFO ", 0) == 0 || line.rfind("[Gloo] Rank ", 0) == 0;
}

} // namespace

GlooLog::GlooLog(std::ostream &stream_) : stream(stream_), before(stream_.rdbuf(this))
{
}

GlooLog::~GlooLog()
{
	stream.rdbuf(before);
}

GlooLog::int_type GlooLog::overflow(int_type c)
{
	const char byte = traits_type::to_char_type(c);

	if (!traits_type::eq_int_type(c, traits_type::eof()))
		xsputn(&byte, 1);
	return traits_type::not_eof(c);
}

std::streamsize GlooLog::xsputn(const char *s, std::streamsize n)
{
	const std::lock_guard<std::mutex> lock(mutex);

	line.append(s, static_cast<size_t>(n));
	for (size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1)) {
		const std::string text = line.substr(0, end);

		if (!text.empty() && !is_good_news(text))
			event("Gloo: " + without_location(text));
	}
	return n;
}

} // namespace selftest
