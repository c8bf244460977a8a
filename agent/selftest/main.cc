// SPDX-License-Identifier: Apache-2.0
// hvd-selftest - one rank of a job that tests whether a launcher prepared everything for Horovod.
#include "contexts.h"
#include "env.h"
#include "failure.h"
#include "gloo_log.h"
#include "interface.h"
#include "options.h"
#include "results.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace selftest
{

namespace
{

constexpr size_t check_elements = 1000; // more than ranks, and no multiple of most sizes

double ms_since(Clock::time_point start)
{
	return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Milliseconds since the kernel started this process, in steps of a clock tick (10 ms); 0 when /proc does not tell.
double ms_since_process_start()
{
	constexpr int fields_before_start = 19; // after the command's closing parenthesis
	std::ifstream file("/proc/self/stat");
	std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
	size_t at = stat.rfind(')');
	struct timespec now;

	for (int i = 0; at != std::string::npos && i <= fields_before_start; i++)
		at = stat.find(' ', at + 1);
	if (at == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		return 0;
	const double started = strtod(stat.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
	const double seconds = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 - started;
	return seconds > 0 ? seconds * 1000 : 0;
}

// Milliseconds since `epoch` seconds of the wall clock.
double ms_since_epoch(double epoch)
{
	return (std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - epoch) *
	       1000;
}

// Runs one rank of the job, from reading its environment to printing the results.
class Rank
{
      public:
	Rank(const Options &options_, Clock::time_point start_) : options(options_), start(start_)
	{
	}

	// Returns the exit status of a rank that ran to the end. Throws Failure.
	int run();
	void print_results() const;
	void failed(const Failure &f);

      private:
	void connect();
	void first_allreduce();
	void check(const char *name, const std::shared_ptr<gloo::Context> &context, const std::vector<int> &members);
	void check_all();
	void measure();
	void act_as_told() const;
	void finish();
	void write_time_file() const;
	[[nodiscard]] bool speaks() const
	{
		return env.rank == 0;
	}
	[[nodiscard]] bool tables() const
	{
		return speaks() && !options.json;
	}

	const Options &options;
	const Clock::time_point start;
	Env env;
	Interface interface;
	std::unique_ptr<Mesh> mesh;
	std::vector<int> everyone, local, cross;
	Results results;
	std::string wrong; // what this rank found wrong
};

void Rank::connect()
{
	try {
		read_env(env);
	} catch (const Failure &) {
		if (env.rank >= 0)
			set_speaker("rank " + std::to_string(env.rank));
		throw;
	}
	set_speaker("rank " + std::to_string(env.rank) + " on " + env.hostname);
	for (int r : {options.fail_rank, options.hang_rank})
		if (r >= env.size)
			throw Failure(EXIT_USAGE, "there is no rank " + std::to_string(r) + " to fail or to hang", "");
	if (env.size > 1 || !env.iface.empty()) {
		interface = find_interface(env.iface);
		set_speaker("rank " + std::to_string(env.rank) + " on " + env.hostname + " (" + interface.name + ", " +
			    interface.address + ")");
	}
	Place own = own_place(env, interface);
	mesh = std::make_unique<Mesh>(env, interface);
	mesh->make_global();
	try {
		results.places = gather_places(mesh->contexts.global, own);
	} catch (const std::exception &e) {
		throw explain_gloo(e, "gathering the placement", nullptr, {}, {});
	}
	// Checked before the local and cross contexts are made: with a wrong placement these would wait in vain.
	check_places(results.places);
	everyone.resize(results.places.size());
	std::iota(everyone.begin(), everyone.end(), 0);
	local = local_members(results.places, env.rank);
	cross = cross_members(results.places, env.rank);
	mesh->make_local();
	mesh->make_cross();
	results.times.contexts = ms_since(start);
}

void Rank::first_allreduce()
{
	if (mesh->contexts.global) {
		try {
			wrong = check_allreduce(mesh->contexts.global, everyone, 1);
		} catch (const std::exception &e) {
			throw explain_gloo(e, "the first allreduce", mesh->contexts.global, everyone, results.places);
		}
	}
	results.times.first_allreduce = ms_since(start);
	results.times.since_process = ms_since_process_start();
	if (options.since > 0)
		results.times.since_launch = ms_since_epoch(options.since);
	if (speaks() && !options.time_file.empty())
		write_time_file();
}

void Rank::check(const char *name, const std::shared_ptr<gloo::Context> &context, const std::vector<int> &members)
{
	using Check = std::string (*)(const std::shared_ptr<gloo::Context> &, const Members &, size_t);
	static const struct {
		const char *name;
		Check run;
		bool everywhere;
	} checks[] = {{"allreduce", check_allreduce, true},
		      {"broadcast", check_broadcast, false},
		      {"allgather", check_allgather, false}};

	if (!context || context->size == 1)
		return;
	for (const auto &c : checks) {
		if (!c.everywhere && context != mesh->contexts.global)
			continue;
		const std::string what = std::string(name) + " " + c.name;
		try {
			std::string problem = c.run(context, members, check_elements);

			if (wrong.empty() && !problem.empty())
				wrong = std::string(name) + " context: " + problem;
		} catch (const std::exception &e) {
			throw explain_gloo(e, what, context, members, results.places);
		}
		results.checks.push_back(what);
	}
}

void Rank::check_all()
{
	check("global", mesh->contexts.global, everyone);
	check("local", mesh->contexts.local, local);
	check("cross", mesh->contexts.cross, cross);
}

void Rank::measure()
{
	auto keep = [this](const Measurement &m) {
		if (tables())
			print_measurement(m, results.measurements.empty());
		results.measurements.push_back(m);
	};

	if (options.quick || !mesh->contexts.global)
		return;
	try {
		std::string problem =
			measure_allreduce(mesh->contexts.global, everyone, options.max_bytes, options.iterations, keep);
		if (wrong.empty() && !problem.empty())
			wrong = "global context: " + problem;
	} catch (const std::exception &e) {
		throw explain_gloo(e, "measuring allreduce", mesh->contexts.global, everyone, results.places);
	}
}

// Fails as the options for tests of launchers ask for.
void Rank::act_as_told() const
{
	if (env.rank == options.fail_rank && options.fail_signal) {
		const struct rlimit no_core = {0, 0};

		event(std::string("--fail-rank: ends by signal ") + strsignal(options.fail_signal));
		setrlimit(RLIMIT_CORE, &no_core);
		signal(options.fail_signal, SIG_DFL);
		kill(getpid(), options.fail_signal);
		std::this_thread::sleep_for(std::chrono::seconds(1));
		_exit(EXIT_CHECK);
	}
	if (env.rank == options.fail_rank) {
		event("--fail-rank: ends with status " + std::to_string(options.fail_code));
		fflush(stdout);
		_exit(options.fail_code);
	}
	if (env.rank == options.hang_rank) {
		event("--hang-rank: hangs");
		for (;;)
			pause();
	}
	std::this_thread::sleep_for(std::chrono::duration<double>(options.sleep));
}

void Rank::finish()
{
	Report own = {};

	own.times = results.times;
	own.traffic = mesh->contexts.traffic;
	snprintf(own.problem, sizeof(own.problem), "%s", wrong.c_str());
	results.reports = exchange_reports(mesh->contexts.global, own, results.places);
	for (size_t i = 0; speaks() && i < results.reports.size(); i++) {
		Report &r = results.reports[i];

		r.problem[sizeof(r.problem) - 1] = '\0';
		if (r.problem[0] && results.problem.empty())
			results.problem = describe(results.places[i]) + ": " + r.problem;
	}
}

void Rank::write_time_file() const
{
	std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(options.time_file.c_str(), "we"), fclose);
	const std::string text = times_json(results);

	if (!file || fputs(text.c_str(), file.get()) == EOF || fflush(file.get()))
		throw Failure(EXIT_CHECK, "cannot write " + options.time_file + ": " + strerror(errno), "");
}

int Rank::run()
{
	connect();
	if (tables())
		print_places(results.places);
	first_allreduce();
	check_all();
	if (tables())
		print_start(results);
	measure();
	if (!wrong.empty())
		complain(wrong,
			 "the network or the memory of a host corrupts data, or ranks run different versions of Gloo");
	act_as_told();
	finish();
	return wrong.empty() && results.problem.empty() ? EXIT_PASSED : EXIT_CHECK;
}

void Rank::failed(const Failure &f)
{
	complain(f.what(), f.hint);
	results.problem = f.what();
}

void Rank::print_results() const
{
	if (!speaks())
		return;
	if (options.json)
		fputs(results_json(results, env).c_str(), stdout);
	else
		print_verdict(results);
}

int run(int argc, char **argv, Clock::time_point start)
{
	Options options;
	int status;

	try {
		options = parse_options(argc, argv);
	} catch (const Failure &f) {
		complain(f.what(), f.hint);
		return f.status;
	}
	Rank rank(options, start);
	try {
		status = rank.run();
	} catch (const Failure &f) {
		rank.failed(f);
		status = f.status;
	} catch (const std::exception &e) {
		rank.failed(Failure(EXIT_CHECK, e.what(), ""));
		status = EXIT_CHECK;
	}
	rank.print_results();
	if (fflush(stdout) || ferror(stdout)) {
		complain(std::string("cannot write to standard output: ") + strerror(errno), "");
		status = status ? status : EXIT_CHECK;
	}
	// After a failure the contexts are not destroyed: they may be broken, or in use by other ranks.
	if (status)
		_exit(status);
	return status;
}

} // namespace

} // namespace selftest

int main(int argc, char **argv)
{
	const auto start = selftest::Clock::now();

	// Gloo writes to connections whose other end may be gone. Python ignores the signal too.
	signal(SIGPIPE, SIG_IGN);
	selftest::GlooLog out(std::cout), err(std::cerr);
	selftest::explain_uncaught();
	return selftest::run(argc, argv, start);
}
