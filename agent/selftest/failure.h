// SPDX-License-Identifier: Apache-2.0
// failure.h - the exception that ends the program, and messages to people.
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
	// `text` tells what is wrong; `hint` tells what the user can try, and may be empty.
	Failure(int status, const std::string &text, const std::string &hint);

	int status;
	std::string hint;
};

// The rank that writes, "rank 3 on nodeb", in front of every message; empty until it is known.
void set_speaker(const std::string &who);

// Writes "hvd-selftest: error: WHO: TEXT", and the hint on a second line, with one write(2).
void complain(const std::string &text, const std::string &hint);

// Writes "hvd-selftest: WHO: TEXT" in the same way.
void event(const std::string &text);

// Has an exception that cannot be caught, as on Gloo's own threads, end the program with a message and status 1.
void explain_uncaught();

} // namespace selftest

#endif
