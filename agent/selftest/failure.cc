// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <cerrno>
#include <exception>
#include <unistd.h>

namespace selftest
{

namespace
{

std::string speaker;

// Escapes control characters: a text may contain what other hosts sent.
std::string printable(std::string s)
{
	for (char &c : s)
		if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
			c = '?';
	return s;
}

void write_all(const std::string &s)
{
	for (size_t done = 0; done < s.size();) {
		ssize_t n = write(STDERR_FILENO, s.data() + done, s.size() - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		done += static_cast<size_t>(n);
	}
}

[[noreturn]] void on_terminate()
{
	std::string what = "an exception of unknown type";

	if (std::exception_ptr e = std::current_exception()) {
		try {
			std::rethrow_exception(e);
		} catch (const std::exception &x) {
			what = x.what();
		} catch (...) {
		}
	}
	complain("Gloo gave up: " + what, "");
	_exit(EXIT_CHECK);
}

} // namespace

Failure::Failure(int status_, const std::string &text, const std::string &hint_)
    : std::runtime_error(text), status(status_), hint(hint_)
{
}

void set_speaker(const std::string &who)
{
	speaker = who;
}

void complain(const std::string &text, const std::string &hint)
{
	std::string s = "hvd-selftest: error: ";

	if (!speaker.empty())
		s += speaker + ": ";
	s += printable(text) + "\n";
	if (!hint.empty())
		s += "hvd-selftest: try: " + printable(hint) + "\n";
	write_all(s);
}

void event(const std::string &text)
{
	write_all("hvd-selftest: " + (speaker.empty() ? "" : speaker + ": ") + printable(text) + "\n");
}

void explain_uncaught()
{
	std::set_terminate(on_terminate);
}

} // namespace selftest
