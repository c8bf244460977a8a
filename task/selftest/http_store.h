// SPDX-License-Identifier: Apache-2.0
// http_store.h - what Gloo keeps its rendezvous in: one scope of the HTTP key-value server.
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
	HttpStore(const HttpServer &server_, const std::string &scope_, int rank_, std::chrono::milliseconds timeout_,
		  Traffic &traffic_);

	// All throw Failure.
	void set(const std::string &key, const std::vector<char> &data) override;
	// An absent rank_<n> comes back empty, as that is how Horovod's workers live with a host name that has not
	// been published yet; any other absent key is a failure.
	std::vector<char> get(const std::string &key) override;
	void wait(const std::vector<std::string> &keys) override;
	void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &limit) override;

	// This rank has met all others and needs the scope no more.
	void finish();

	// The rank of this scope whose key was waited for last: the one that Gloo is connecting to; -1 at first.
	int peer() const
	{
		return peer_rank;
	}

      private:
	HttpResponse request(const char *method, const std::string &key, const std::string &body, Deadline deadline);
	bool present(const std::string &key, Deadline deadline);
	[[noreturn]] void nobody_came(const std::string &key, const std::chrono::milliseconds &limit);

	const HttpServer &server;
	const std::string scope;
	const int rank;
	const std::chrono::milliseconds timeout;
	Traffic &traffic;
	int peer_rank = -1;
	size_t own_size = 0; // of the addresses that this rank published
};

} // namespace selftest

#endif
