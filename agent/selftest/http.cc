// SPDX-License-Identifier: Apache-2.0
#include "http.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <unistd.h>

namespace selftest
{

namespace
{

constexpr size_t max_head = size_t(64) << 10;
constexpr size_t max_body = size_t(256) << 20;

class Socket
{
      public:
	explicit Socket(int fd_) : fd(fd_)
	{
	}
	~Socket()
	{
		if (fd >= 0)
			close(fd);
	}
	Socket(Socket &&other) noexcept : fd(other.fd)
	{
		other.fd = -1;
	}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	int fd;
};

// Returns false when the deadline has passed.
bool ready(int fd, short events, Deadline deadline)
{
	for (;;) {
		auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
		struct pollfd p = {fd, events, 0};
		int n = poll(&p, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX)));

		if (n >= 0)
			return n > 0;
		if (errno != EINTR)
			throw HttpError(std::string("poll: ") + strerror(errno));
	}
}

Socket connect_to(const HttpServer::Address &a, Deadline deadline)
{
	Socket s(socket(a.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int err = 0;
	socklen_t len = sizeof(err);

	if (s.fd < 0)
		throw HttpError(std::string("socket: ") + strerror(errno));
	if (connect(s.fd, reinterpret_cast<const struct sockaddr *>(&a.sa), a.len) == 0)
		return s;
	if (errno != EINPROGRESS)
		throw HttpError(std::string("connect: ") + strerror(errno));
	if (!ready(s.fd, POLLOUT, deadline))
		throw HttpError("connect: no answer in time");
	if (getsockopt(s.fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
		err = errno;
	if (err)
		throw HttpError(std::string("connect: ") + strerror(err));
	return s;
}

// Tries the addresses in turn, each for an equal share of the time that is left.
Socket connect_any(const HttpServer &server, Deadline deadline)
{
	std::string why = "no address";
	auto n = static_cast<long>(server.addresses.size());

	for (const auto &a : server.addresses) {
		auto now = Clock::now();

		try {
			return connect_to(a, now + (deadline - now) / n);
		} catch (const HttpError &e) {
			why = e.what();
		}
		n--;
	}
	throw HttpError(why);
}

void send_all(int fd, const std::string &data, Deadline deadline)
{
	for (size_t done = 0; done < data.size();) {
		ssize_t n = send(fd, data.data() + done, data.size() - done, MSG_NOSIGNAL);

		if (n > 0)
			done += static_cast<size_t>(n);
		else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			throw HttpError(std::string("send: ") + strerror(errno));
		else if (!ready(fd, POLLOUT, deadline))
			throw HttpError("send: the server does not read");
	}
}

size_t parse_number(const std::string &text, int base)
{
	char *end;
	unsigned long n;

	if (text.empty() || !isxdigit(static_cast<unsigned char>(text[0])))
		throw HttpError("the server sent a length that is none");
	errno = 0;
	n = strtoul(text.c_str(), &end, base);
	while (*end == ' ' || *end == '\t')
		end++;
	if (errno || (*end && *end != ';') || n > max_body)
		throw HttpError("the server sent a length that is none, or too large");
	return n;
}

} // namespace

HttpServer resolve_server(const std::string &host, int port)
{
	struct addrinfo hints = {}, *list = nullptr;
	HttpServer server;
	int rc;

	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
	if (rc != 0)
		throw HttpError("'" + host + "' does not resolve: " + gai_strerror(rc));
	std::unique_ptr<struct addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
	for (struct addrinfo *i = list; i; i = i->ai_next) {
		HttpServer::Address a = {};

		if (i->ai_addrlen > sizeof(a.sa))
			continue;
		memcpy(&a.sa, i->ai_addr, i->ai_addrlen);
		a.len = i->ai_addrlen;
		server.addresses.push_back(a);
	}
	server.host = host.find(':') == std::string::npos ? host : "[" + host.substr(0, host.find('%')) + "]";
	server.name = server.host + ":" + std::to_string(port);
	return server;
}

// `head` is the response up to and including the empty line.
bool HttpReader::parse_head()
{
	size_t line_end = head.find("\r\n");

	if (head.compare(0, 7, "HTTP/1.") != 0 || head.size() < 12 || head[8] != ' ')
		throw HttpError("the server does not speak HTTP");
	response.status = atoi(head.c_str() + 9);
	if (response.status < 100 || response.status > 999)
		throw HttpError("the server sent a status that is none");
	for (size_t at = line_end + 2; at < head.size() - 2; at = line_end + 2) {
		line_end = head.find("\r\n", at);
		size_t colon = head.find(':', at);

		if (colon == std::string::npos || colon > line_end)
			throw HttpError("the server sent a malformed header");
		std::string name = head.substr(at, colon - at);
		size_t start = head.find_first_not_of(" \t", colon + 1);
		std::string value = head.substr(start, line_end - start);

		if (strcasecmp(name.c_str(), "Content-Length") == 0) {
			length = parse_number(value, 10);
			have_length = true;
		} else if (strcasecmp(name.c_str(), "Transfer-Encoding") == 0) {
			chunked = strcasecmp(value.c_str(), "chunked") == 0;
			if (!chunked)
				throw HttpError("the server uses the transfer encoding " + value);
		}
	}
	return true;
}

// Decodes the chunks that are complete. A trailer ends the body.
bool HttpReader::add_chunks()
{
	for (;;) {
		size_t eol = raw.find("\r\n");

		if (eol == std::string::npos) {
			if (raw.size() > max_head)
				throw HttpError("the server sent a malformed chunk");
			return false;
		}
		size_t n = parse_number(raw.substr(0, eol), 16);
		if (n == 0)
			return true;
		if (raw.size() < eol + 2 + n + 2)
			return false;
		response.body.append(raw, eol + 2, n);
		if (response.body.size() > max_body)
			throw HttpError("the server sent too large an answer");
		raw.erase(0, eol + 2 + n + 2);
	}
}

bool HttpReader::add(const char *data, size_t n)
{
	std::string rest;

	if (!have_head) {
		head.append(data, n);
		size_t end = head.find("\r\n\r\n");
		if (end == std::string::npos && head.size() <= max_head)
			return false;
		if (end == std::string::npos)
			throw HttpError("the server sent too long a head");
		rest = head.substr(end + 4);
		head.resize(end + 4);
		have_head = parse_head();
		data = rest.data();
		n = rest.size();
	}
	if (chunked) {
		raw.append(data, n);
		return add_chunks();
	}
	response.body.append(data, n);
	if (have_length && response.body.size() > length)
		response.body.resize(length);
	if (response.body.size() > max_body)
		throw HttpError("the server sent too large an answer");
	return have_length && response.body.size() == length;
}

void HttpReader::end()
{
	if (!have_head || chunked || have_length)
		throw HttpError("the server closed the connection before its answer was complete");
}

HttpResponse http_request(const HttpServer &server, const std::string &method, const std::string &path,
			  const std::string &body, Deadline sent, Deadline answered)
{
	std::string request = method + " " + path + " HTTP/1.1\r\nHost: " + server.host +
			      "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
	Socket s = connect_any(server, sent);
	HttpReader reader;
	char buf[65536];

	send_all(s.fd, request, sent);
	for (;;) {
		ssize_t n = recv(s.fd, buf, sizeof(buf), 0);

		if (n > 0 && reader.add(buf, static_cast<size_t>(n)))
			return reader.response;
		if (n == 0) {
			reader.end();
			return reader.response;
		}
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			throw HttpError(std::string("receive: ") + strerror(errno));
		if (!ready(s.fd, POLLIN, answered))
			return HttpResponse();
	}
}

} // namespace selftest
