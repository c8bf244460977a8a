// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace selftest
{

namespace
{

int width(const std::vector<Place> &places, const char *title, size_t most, const char *(*column)(const Place &))
{
	size_t w = strlen(title);

	for (const Place &p : places)
		w = std::max(w, strlen(column(p)));
	return static_cast<int>(std::min(w, most));
}

std::string of(int index, int count)
{
	return std::to_string(index) + "/" + std::to_string(count);
}

const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

// ---- JSON ----

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

std::string json(const std::string &s)
{
	std::string out = "\"";

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
	return out + '"';
}

// With three decimals; null when it is not finite.
std::string json(double d)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%.3f", d);
	return std::isfinite(d) ? buf : "null";
}

// The members of an object, whose values are JSON.
std::string object(std::initializer_list<std::pair<const char *, std::string>> members)
{
	std::string out;

	for (const auto &m : members)
		out += (out.empty() ? "" : ",") + json(std::string(m.first)) + ":" + m.second;
	return "{" + out + "}";
}

template <typename T> std::string array(const std::vector<T> &items, std::string (*text)(const T &))
{
	std::string out;

	for (const T &item : items)
		out += (out.empty() ? "" : ",") + text(item);
	return "[" + out + "]";
}

std::string times(const Times &t)
{
	return object({
		{"main_to_contexts", json(t.contexts)},
		{"main_to_first_allreduce", json(t.first_allreduce)},
		{"process_to_first_allreduce", json(t.since_process)},
		{"launch_to_first_allreduce", t.since_launch < 0 ? "null" : json(t.since_launch)},
	});
}

std::string place(const Place &p)
{
	return object({
		{"rank", std::to_string(p.rank)},
		{"host", json(p.host)},
		{"node", json(p.node)},
		{"local_rank", std::to_string(p.local_rank)},
		{"local_size", std::to_string(p.local_size)},
		{"cross_rank", std::to_string(p.cross_rank)},
		{"cross_size", std::to_string(p.cross_size)},
		{"interface", json(p.iface)},
		{"address", json(p.address)},
		{"pid", std::to_string(p.pid)},
	});
}

std::string rendezvous(const std::vector<Report> &reports, const Env &env)
{
	Traffic all;

	for (const Report &r : reports) {
		all.requests += r.traffic.requests;
		all.not_found += r.traffic.not_found;
		all.retries += r.traffic.retries;
	}
	return object({
		{"address", json(env.rendezvous_addr)},
		{"port", std::to_string(env.rendezvous_port)},
		{"requests", std::to_string(all.requests)},
		{"not_found", std::to_string(all.not_found)},
		{"retries", std::to_string(all.retries)},
	});
}

std::string measurement(const Measurement &m)
{
	return object({
		{"bytes", std::to_string(m.bytes)},
		{"iterations", std::to_string(m.iterations)},
		{"mean_us", json(m.mean_us)},
		{"median_us", json(m.median_us)},
		{"min_us", json(m.min_us)},
		{"mb_s", json(m.mb_s)},
		{"bus_mb_s", json(m.bus_mb_s)},
	});
}

std::string slowest(const std::vector<Report> &reports)
{
	const auto s = std::max_element(reports.begin(), reports.end(), [](const Report &a, const Report &b) {
		return a.times.first_allreduce < b.times.first_allreduce;
	});

	if (s == reports.end())
		return "null";
	return object({{"rank", std::to_string(s - reports.begin())}, {"time_ms", times(s->times)}});
}

} // namespace

void print_places(const std::vector<Place> &places)
{
	int host = width(places, "host", 40, [](const Place &p) { return static_cast<const char *>(p.host); });
	int iface = width(places, "interface", 15, [](const Place &p) { return static_cast<const char *>(p.iface); });

	printf("%5s  %-*s  %8s  %8s  %-*s  %s\n", "rank", host, "host", "local", "cross", iface, "interface",
	       "address");
	for (const Place &p : places)
		printf("%5d  %-*s  %8s  %8s  %-*s  %s\n", p.rank, host, p.host, of(p.local_rank, p.local_size).c_str(),
		       of(p.cross_rank, p.cross_size).c_str(), iface, p.iface, p.address);
	fflush(stdout);
}

void print_start(const Results &results)
{
	const Times &t = results.times;
	std::string checks;

	for (const std::string &c : results.checks)
		checks += (checks.empty() ? "" : ", ") + c;
	if (!checks.empty())
		printf("checked: %s\n", checks.c_str());
	printf("first allreduce after %.0f ms (contexts %.0f ms, since the process started %.0f ms", t.first_allreduce,
	       t.contexts, t.since_process);
	if (t.since_launch >= 0)
		printf(", since the launch %.0f ms", t.since_launch);
	puts(")");
	fflush(stdout);
}

void print_measurement(const Measurement &m, bool first)
{
	if (first)
		printf("%10s  %10s  %10s  %10s  %10s  %10s  %10s\n", "bytes", "iterations", "mean us", "median us",
		       "min us", "MB/s", "bus MB/s");
	printf("%10zu  %10d  %10.1f  %10.1f  %10.1f  %10.2f  %10.2f\n", m.bytes, m.iterations, m.mean_us, m.median_us,
	       m.min_us, m.mb_s, m.bus_mb_s);
	fflush(stdout);
}

void print_verdict(const Results &results)
{
	if (!results.problem.empty()) {
		printf("hvd-selftest: FAILED: %s\n", results.problem.c_str());
		return;
	}
	size_t ranks = results.places.size(), hosts = count_hosts(results.places);
	printf("hvd-selftest: %zu rank%s on %zu host%s: OK\n", ranks, plural(ranks), hosts, plural(hosts));
}

std::string results_json(const Results &results, const Env &env)
{
	return object({
		       {"program", json("hvd-selftest")},
		       {"version", json(HVD_VERSION)},
		       {"ok", results.problem.empty() ? "true" : "false"},
		       {"error", results.problem.empty() ? "null" : json(results.problem)},
		       {"ranks", std::to_string(env.size)},
		       {"hosts", std::to_string(count_hosts(results.places))},
		       {"rendezvous", rendezvous(results.reports, env)},
		       {"time_ms", times(results.times)},
		       {"slowest_rank", slowest(results.reports)},
		       {"placement", array(results.places, place)},
		       {"checks", array<std::string>(results.checks, json)},
		       {"allreduce", array(results.measurements, measurement)},
	       }) +
	       "\n";
}

std::string times_json(const Results &results)
{
	return object({
		       {"ranks", std::to_string(results.places.size())},
		       {"hosts", std::to_string(count_hosts(results.places))},
		       {"time_ms", times(results.times)},
	       }) +
	       "\n";
}

} // namespace selftest
