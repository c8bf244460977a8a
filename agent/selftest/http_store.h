// SPDX-License-Identifier: Apache-2.0
// http_store.h - the store through which Gloo's ranks find each other: one scope of the HTTP key-value server.
#ifndef SELFTEST_HTTP_STORE_H
#define SELFTEST_HTTP_STORE_H

#include "http.h"

#include <chrono>
#include <gloo/rendezvous/store.h>
#include <string>
#include <vector>

namespace selftest
{

struct Traffic {
	long requests = 0;
	long not_found = 0;
	long retries = 0;
};

class HttpStore : public gloo::rendezvous::Store
{
      public:
	HttpStore(const HttpServer &server_, const std::string &scope_, int rank_, int size_,
		  std::chrono::milliseconds timeout_, Traffic &traffic_);

	// All of these throw Failure.
	void set(const std::string &key, const std::vector<char> &data) override;
	// Returns an empty value for a key rank_<n> that is not set, as Horovod does: its workers ask for host names
	// that may not be published yet. Any other key that is not set is a failure.
	std::vector<char> get(const std::string &key) override;
	void wait(const std::vector<std::string> &keys) override;
	void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &limit) override;

	// Tells the server that this rank has met all others and no longer needs the scope.
	void finish();

	// The rank of this scope that Gloo is connecting to: the rank whose key Gloo waited for last. -1: there is none
	// yet, or Gloo has read all keys including its own and connects to all ranks at once, as since 2023.
	int peer() const
	{
		return read < size ? peer_rank : -1;
	}

      private:
	HttpResponse request(const char *method, const std::string &key, const std::string &body, Deadline deadline);
	[[nodiscard]] std::vector<char> addresses(const std::string &key, const std::string &body) const;
	bool present(const std::string &key, Deadline deadline);
	[[noreturn]] void nobody_came(const std::string &key, const std::chrono::milliseconds &limit);

	const HttpServer &server;
	const std::string scope;
	const int rank, size;
	const std::chrono::milliseconds timeout;
	Traffic &traffic;
	int peer_rank = -1;
	int read = 0; // ranks' addresses
};

} // namespace selftest

#endif
