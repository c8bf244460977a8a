// SPDX-License-Identifier: Apache-2.0
// failure.h - the one kind of exception that ends the program, and how people hear of it.
#ifndef SELFTEST_FAILURE_H
#define SELFTEST_FAILURE_H

#include <stdexcept>
#include <string>

namespace selftest
{

enum : int {
	EXIT_PASSED = 0,
	EXIT_CHECK = 1, // a check, a connection or the rendezvous failed
	EXIT_USAGE = 2, // command line or environment cannot be right
};

class Failure : public std::runtime_error
{
      public:
	// `text` says what is wrong; `hint` says what to try, and may be empty.
	Failure(int status, const std::string &text, const std::string &hint);

	int status;
	std::string hint;
};

// Who is speaking: "rank 3 on nodeb", put before every message; empty until it is known.
void set_speaker(const std::string &who);

// Writes "hvd-selftest: error: WHO: TEXT", and the hint on a line of its own, with one write(2).
void complain(const std::string &text, const std::string &hint);

// The same without "error".
void note(const std::string &text);

// An exception that nobody can catch, as Gloo throws on a thread of its own, ends as a message and status 1.
void explain_uncaught();

} // namespace selftest

#endif
