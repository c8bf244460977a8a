// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include "json.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <gloo/config.h>

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

const Report *slowest(const std::vector<Report> &reports)
{
	const Report *s = nullptr;

	for (const Report &r : reports)
		if (!s || r.times.first_allreduce > s->times.first_allreduce)
			s = &r;
	return s;
}

void write_times(Json &j, const Times &t)
{
	j.open('{');
	j.key("main_to_contexts").number(t.contexts);
	j.key("main_to_first_allreduce").number(t.first_allreduce);
	j.key("process_to_first_allreduce").number(t.since_process);
	j.key("launch_to_first_allreduce");
	if (t.since_launch < 0)
		j.null();
	else
		j.number(t.since_launch);
	j.close('}');
}

void write_place(Json &j, const Place &p)
{
	j.open('{');
	j.key("rank").number(long(p.rank));
	j.key("host").text(p.host);
	j.key("node").text(p.node);
	j.key("local_rank").number(long(p.local_rank));
	j.key("local_size").number(long(p.local_size));
	j.key("cross_rank").number(long(p.cross_rank));
	j.key("cross_size").number(long(p.cross_size));
	j.key("interface").text(p.iface);
	j.key("address").text(p.address);
	j.key("pid").number(long(p.pid));
	j.close('}');
}

void write_rendezvous(Json &j, const Results &results, const Env &env)
{
	Traffic all;

	for (const Report &r : results.reports) {
		all.requests += r.traffic.requests;
		all.not_found += r.traffic.not_found;
		all.retries += r.traffic.retries;
	}
	j.open('{');
	j.key("address").text(env.rendezvous_addr);
	j.key("port").number(long(env.rendezvous_port));
	j.key("requests").number(all.requests);
	j.key("not_found").number(all.not_found);
	j.key("retries").number(all.retries);
	j.close('}');
}

void write_measurement(Json &j, const Measurement &m)
{
	j.open('{');
	j.key("bytes").number(static_cast<long>(m.bytes));
	j.key("iterations").number(long(m.iterations));
	j.key("mean_us").number(m.mean_us);
	j.key("median_us").number(m.median_us);
	j.key("min_us").number(m.min_us);
	j.key("mb_s").number(m.mb_s);
	j.key("bus_mb_s").number(m.bus_mb_s);
	j.close('}');
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
	Json j;

	j.open('{');
	j.key("program").text("hvd-selftest");
	j.key("version").text(HVD_VERSION);
	j.key("ok").boolean(results.problem.empty());
	j.key("error");
	if (results.problem.empty())
		j.null();
	else
		j.text(results.problem);
	j.key("ranks").number(long(env.size));
	j.key("hosts").number(static_cast<long>(count_hosts(results.places)));
	j.key("rendezvous");
	write_rendezvous(j, results, env);
	j.key("time_ms");
	write_times(j, results.times);
	j.key("slowest_rank");
	if (const Report *s = slowest(results.reports)) {
		j.open('{').key("rank").number(static_cast<long>(s - results.reports.data()));
		j.key("time_ms");
		write_times(j, s->times);
		j.close('}');
	} else {
		j.null();
	}
	j.key("placement").open('[');
	for (const Place &p : results.places)
		write_place(j, p);
	j.close(']').key("checks").open('[');
	for (const std::string &c : results.checks)
		j.text(c);
	j.close(']').key("allreduce").open('[');
	for (const Measurement &m : results.measurements)
		write_measurement(j, m);
	j.close(']').close('}');
	return j.out + "\n";
}

std::string times_json(const Results &results)
{
	Json j;

	j.open('{');
	j.key("ranks").number(static_cast<long>(results.places.size()));
	j.key("hosts").number(static_cast<long>(count_hosts(results.places)));
	j.key("time_ms");
	write_times(j, results.times);
	j.close('}');
	return j.out + "\n";
}

} // namespace selftest
