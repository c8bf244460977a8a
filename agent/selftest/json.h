// SPDX-License-Identifier: Apache-2.0
// json.h - writes one JSON value in pieces.
#ifndef SELFTEST_JSON_H
#define SELFTEST_JSON_H

#include <string>

namespace selftest
{

class Json
{
      public:
	Json &open(char bracket); // '{' or '['
	Json &close(char bracket);
	Json &key(const char *name);
	Json &text(const std::string &s);
	Json &number(long n);
	Json &number(double d); // with three decimals; null when it is not finite
	Json &boolean(bool b);
	Json &null();

	std::string out;

      private:
	void comma();
	bool first = true;
};

} // namespace selftest

#endif
