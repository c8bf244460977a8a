// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <cmath>
#include <cstdio>

namespace selftest
{

namespace
{

// The length of the UTF-8 character at `i`; 0: the bytes are not UTF-8.
size_t sequence(const std::string &s, size_t i)
{
	auto byte = [&](size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0U; };
	unsigned lead = byte(i), next = byte(i + 1);
	size_t n = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : 0;

	if (lead >= 0xf0 && lead <= 0xf4)
		n = 4;
	for (size_t k = 1; k < n; k++)
		if ((byte(i + k) & 0xc0) != 0x80)
			return 0;
	// Refuses overlong forms, surrogates, and numbers beyond the last code point.
	if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) || (lead == 0xf0 && next < 0x90) ||
	    (lead == 0xf4 && next > 0x8f))
		return 0;
	return n;
}

} // namespace

void Json::comma()
{
	if (!first)
		out += ',';
	first = false;
}

Json &Json::open(char bracket)
{
	comma();
	out += bracket;
	first = true;
	return *this;
}

Json &Json::close(char bracket)
{
	out += bracket;
	first = false;
	return *this;
}

Json &Json::key(const char *name)
{
	text(name);
	out += ':';
	first = true;
	return *this;
}

Json &Json::text(const std::string &s)
{
	comma();
	out += '"';
	for (size_t i = 0, n; i < s.size(); i += n ? n : 1) {
		const auto c = static_cast<unsigned char>(s[i]);

		n = sequence(s, i);
		if (n == 0) {
			out += "\\ufffd";
		} else if (c < ' ' || c == 0x7f) {
			char buf[8];

			snprintf(buf, sizeof(buf), "\\u%04x", c);
			out += buf;
		} else {
			if (c == '"' || c == '\\')
				out += '\\';
			out.append(s, i, n);
		}
	}
	out += '"';
	return *this;
}

Json &Json::number(long n)
{
	comma();
	out += std::to_string(n);
	return *this;
}

Json &Json::number(double d)
{
	char buf[64];

	if (!std::isfinite(d))
		return null();
	comma();
	snprintf(buf, sizeof(buf), "%.3f", d);
	out += buf;
	return *this;
}

Json &Json::boolean(bool b)
{
	comma();
	out += b ? "true" : "false";
	return *this;
}

Json &Json::null()
{
	comma();
	out += "null";
	return *this;
}

} // namespace selftest
