// SPDX-License-Identifier: Apache-2.0
// http.h - sends one HTTP request on one connection, over IPv4 or IPv6, and reads the answer until a deadline.
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
	// Returns whether the response is complete. Throws HttpError when it is malformed.
	bool add(const char *data, size_t n);
	// Call it when the server has closed the connection. That ends a response without a length; throws HttpError
	// when the response is incomplete.
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

// Sends head and body at once, so that they share a segment if they fit, reads the answer, and closes the connection.
// The request must have been sent by the deadline `sent`, and the answer must come by `answered`: a server may delay
// the answer to a GET until the key is set. The returned status is 0 when no answer came. Throws HttpError.
HttpResponse http_request(const HttpServer &server, const std::string &method, const std::string &path,
			  const std::string &body, Deadline sent, Deadline answered);

} // namespace selftest

#endif
