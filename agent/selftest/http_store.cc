// SPDX-License-Identifier: Apache-2.0
#include "http_store.h"

#include "failure.h"

#include <algorithm>
#include <thread>

namespace selftest
{

namespace
{

constexpr int max_tries = 3;
constexpr auto between_tries = std::chrono::milliseconds(500);
constexpr auto between_polls = std::chrono::milliseconds(10);
// A try has at least this much time to connect, and a GET to be answered, however little time is left.
constexpr auto shortest_try = std::chrono::seconds(2);

const char reach_hint[] =
	"look whether the launcher, which runs the rendezvous, still lives, and whether this host reaches "
	"HOROVOD_GLOO_RENDEZVOUS_ADDR at HOROVOD_GLOO_RENDEZVOUS_PORT (firewall, route, proxy)";

bool is_rank(const std::string &key)
{
	return !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
}

// Behind its addresses each rank publishes how many ranks it expects. The length of the addresses does not tell that,
// because since 2023 Gloo puts the host's name in front of them.
std::string postscript(int size)
{
	return "\n" + std::to_string(size);
}

std::string in_seconds(const std::chrono::milliseconds &t)
{
	return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(t).count()) + " s";
}

} // namespace

HttpStore::HttpStore(const HttpServer &server_, const std::string &scope_, int rank_, int size_,
		     std::chrono::milliseconds timeout_, Traffic &traffic_)
    : server(server_), scope(scope_), rank(rank_), size(size_), timeout(timeout_), traffic(traffic_)
{
}

// Repeats the request until the server answers 200 or 404, or the time is over. Returns status 0 when the server took
// the request but did not answer by the deadline.
HttpResponse HttpStore::request(const char *method, const std::string &key, const std::string &body, Deadline deadline)
{
	const std::string path = "/" + scope + "/" + key;
	std::string why;
	int tries = 0;

	while (tries < max_tries) {
		auto now = Clock::now();

		if (tries > 0 && now >= deadline)
			break;
		if (tries > 0)
			traffic.retries++;
		traffic.requests++;
		try {
			Deadline sent = now + (deadline - now) / (max_tries - tries);
			HttpResponse r =
				http_request(server, method, path, body, std::max<Deadline>(sent, now + shortest_try),
					     std::max<Deadline>(deadline, now + shortest_try));

			if (r.status == 404)
				traffic.not_found++;
			if (r.status == 200 || r.status == 404 || r.status == 0)
				return r;
			why = "answers with status " + std::to_string(r.status);
		} catch (const HttpError &e) {
			why = e.what();
		}
		if (++tries < max_tries)
			std::this_thread::sleep_until(std::min(deadline, Clock::now() + between_tries));
	}
	throw Failure(EXIT_CHECK,
		      "the rendezvous at " + server.name + " failed " + std::to_string(tries) + " times to " + method +
			      " " + path + ": " + why,
		      reach_hint);
}

void HttpStore::set(const std::string &key, const std::vector<char> &data)
{
	const std::string body = std::string(data.begin(), data.end()) + (is_rank(key) ? postscript(size) : "");
	HttpResponse r = request("PUT", key, body, Clock::now() + timeout);
	if (r.status == 0)
		throw Failure(EXIT_CHECK,
			      "the rendezvous at " + server.name + " does not answer PUT /" + scope + "/" + key +
				      " within " + in_seconds(timeout),
			      reach_hint);
	if (r.status != 200)
		throw Failure(
			EXIT_CHECK, "the rendezvous at " + server.name + " does not take PUT /" + scope + "/" + key,
			"look whether HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT are those of the rendezvous, and not of "
			"some other web server");
}

std::vector<char> HttpStore::get(const std::string &key)
{
	HttpResponse r = request("GET", key, "", Clock::now() + timeout);

	if (r.status == 0)
		nobody_came(key, timeout);
	if (!is_rank(key))
		return r.status == 200 ? std::vector<char>(r.body.begin(), r.body.end()) : std::vector<char>();
	if (r.status != 200)
		throw Failure(EXIT_CHECK,
			      "the rendezvous at " + server.name + " had /" + scope + "/" + key + " and lost it",
			      "look whether two jobs use this rendezvous, or whether it was started anew");
	read++;
	return addresses(key, r.body);
}

// The addresses that a rank published, without the number of ranks behind them.
std::vector<char> HttpStore::addresses(const std::string &key, const std::string &body) const
{
	const size_t end = body.rfind('\n');
	const std::string theirs = end == std::string::npos ? "" : body.substr(end + 1);

	if (!is_rank(theirs))
		throw Failure(EXIT_CHECK, "rank " + key + " of scope " + scope + " is no hvd-selftest of this version",
			      "look whether two jobs use this rendezvous, and whether all hosts have the same hvd");
	if (theirs != std::to_string(size))
		throw Failure(EXIT_CHECK,
			      "rank " + key + " of scope " + scope + " knows of " + theirs +
				      " ranks there and this rank of " + std::to_string(size),
			      "look whether all ranks have the same HOROVOD_SIZE (local scopes: _LOCAL_SIZE, cross "
			      "scopes: _CROSS_SIZE)");
	return std::vector<char>(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(end));
}

void HttpStore::wait(const std::vector<std::string> &keys)
{
	wait(keys, timeout);
}

bool HttpStore::present(const std::string &key, Deadline deadline)
{
	return request("GET", key, "", deadline).status == 200;
}

void HttpStore::wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &limit)
{
	const Deadline deadline = Clock::now() + limit;

	for (const std::string &key : keys) {
		if (is_rank(key))
			peer_rank = std::stoi(key);
		// The last try may begin a little late, and still needs time for its answer.
		while (!present(key, deadline)) {
			if (Clock::now() >= deadline)
				nobody_came(key, limit);
			std::this_thread::sleep_for(between_polls);
		}
	}
}

// Throws a Failure which tells whether the rank never started, or started and got stuck. `key` is N or rank_N for rank
// N.
void HttpStore::nobody_came(const std::string &key, const std::chrono::milliseconds &limit)
{
	const std::string where = "scope " + scope + " of the rendezvous at " + server.name;
	const std::string peer = key.rfind("rank_", 0) == 0 ? key.substr(5) : key;
	HttpResponse r;

	if (peer == key)
		r = request("GET", "rank_" + peer, "", Clock::now() + shortest_try);
	if (r.status == 200)
		throw Failure(EXIT_CHECK,
			      "rank " + peer + " came to " + where + " from " + r.body +
				      ", but did not publish its addresses within " + in_seconds(limit),
			      "look at what rank " + key +
				      " reports; it may still wait for other ranks, and "
				      "HOROVOD_GLOO_TIMEOUT_SECONDS gives them more time");
	throw Failure(EXIT_CHECK, "rank " + peer + " did not come to " + where + " within " + in_seconds(limit),
		      "look whether that rank was started, whether it reported an error, whether its host reaches the "
		      "rendezvous, and whether all ranks of a host have the same HOROVOD_HOSTNAME");
}

void HttpStore::finish()
{
	request("DELETE", std::to_string(rank), "", Clock::now() + timeout);
}

} // namespace selftest
