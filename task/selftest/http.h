// SPDX-License-Identifier: Apache-2.0
// http.h - one HTTP request on one connection, over IPv4 or IPv6, done by a deadline or not at all.
#ifndef SELFTEST_HTTP_H
#define SELFTEST_HTTP_H

#include <chrono>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace selftest
{

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

struct HttpError : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct HttpServer {
	struct Address {
		struct sockaddr_storage sa;
		socklen_t len;
	};
	std::string host; // as a Host header has it: an IPv6 address in brackets
	std::string name; // host:port
	std::vector<Address> addresses;
};

// Throws HttpError when the name does not resolve.
HttpServer resolve_server(const std::string &host, int port);

struct HttpResponse {
	int status = 0;
	std::string body;
};

// Collects what the server sends until the response is complete.
class HttpReader
{
      public:
	// True when the response is complete. Throws HttpError when it cannot become one.
	bool add(const char *data, size_t n);
	// The server has closed the connection: completes a response that has no length, throws otherwise.
	void end();
	HttpResponse response;

      private:
	bool parse_head();
	bool add_chunks();

	std::string head; // until it is parsed
	std::string raw;  // chunked body, still encoded
	bool have_head = false, have_length = false, chunked = false;
	size_t length = 0;
};

// Sends head and body in one segment where they fit in one, and reads the answer; the connection ends with the
// answer, whether or not the server would keep it. The request must be out by `sent`; an answer may take until
// `answered`, since a server may hold it back until there is something to say: the status is 0 when none came.
// Throws HttpError.
HttpResponse http_request(const HttpServer &server, const std::string &method, const std::string &path,
			  const std::string &body, Deadline sent, Deadline answered);

} // namespace selftest

#endif
