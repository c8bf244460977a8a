// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "failure.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <getopt.h>
#include <gloo/config.h>
#include <iterator>
#include <vector>

namespace selftest
{

namespace
{

const char usage[] = "Usage: LAUNCHER hvd-selftest [OPTION]...\n"
		     "Join a Horovod job as one rank of it: make Gloo contexts over the rendezvous as\n"
		     "Horovod does, check collectives on them, and measure allreduce.\n"
		     "\n"
		     "  -q, --quick            only check, do not measure\n"
		     "      --max-bytes SIZE   largest message to measure, with K, M or G (16M)\n"
		     "      --iterations N     repeat each measurement N times (chosen by size)\n"
		     "      --json             rank 0 prints one JSON object instead of tables\n"
		     "      --time-file FILE   rank 0 writes the times of the start to FILE, as JSON\n"
		     "      --since SECONDS    the job was launched then (date +%s.%N): report the time since\n"
		     "  -h, --help             show this help\n"
		     "  -V, --version          show the version\n"
		     "\n"
		     "Test aids, which act when the checks have passed:\n"
		     "      --fail-rank R[:CODE|:SIGNAL]  rank R exits with CODE (1), or kills itself\n"
		     "      --hang-rank R                 rank R stops and answers nobody any more\n"
		     "      --sleep SECONDS               the other ranks wait before they finish\n"
		     "\n"
		     "Exit status: 0 all checks of this rank passed, 1 one failed, 2 command line or\n"
		     "environment cannot be right.\n";

[[noreturn]] void bad(const std::string &text)
{
	throw Failure(EXIT_USAGE, text, "'hvd-selftest --help' lists the options");
}

long whole(const char *name, const std::string &text, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text.c_str(), &end, 10);
	if (errno || end == text.c_str() || *end || n < min || n > max)
		bad(std::string(name) + ": '" + text + "' is not a number from " + std::to_string(min) + " to " +
		    std::to_string(max));
	return n;
}

double seconds(const char *name, const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !std::isfinite(s) || s < 0 || s > 1e11)
		bad(std::string(name) + ": '" + text + "' is not a number of seconds");
	return s;
}

size_t bytes(const char *text)
{
	char *end;
	unsigned long n;
	int shift = 0;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	if (errno || end == text || *text == '-' || end[shift ? 1 : 0] || n > (1UL << 30) >> shift || n << shift < 4)
		bad(std::string("--max-bytes: '") + text + "' is not a size from 4 to 1G");
	return n << shift;
}

int signal_number(const std::string &text)
{
	static const struct {
		const char *name;
		int number;
	} known[] = {
		{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},   {"ABRT", SIGABRT},
		{"BUS", SIGBUS},   {"FPE", SIGFPE},   {"KILL", SIGKILL}, {"SEGV", SIGSEGV}, {"PIPE", SIGPIPE},
		{"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
	};
	std::string name = text.rfind("SIG", 0) == 0 ? text.substr(3) : text;

	for (const auto &k : known)
		if (name == k.name)
			return k.number;
	return 0;
}

void fail_rank(Options &o, const std::string &arg)
{
	size_t colon = arg.find(':');

	o.fail_rank = static_cast<int>(whole("--fail-rank", arg.substr(0, colon), 0, 1 << 30));
	if (colon == std::string::npos)
		return;
	o.fail_signal = signal_number(arg.substr(colon + 1));
	if (!o.fail_signal)
		o.fail_code = static_cast<int>(
			whole("--fail-rank, exit status or signal name", arg.substr(colon + 1), 0, 255));
}

[[noreturn]] void show_help()
{
	fputs(usage, stdout);
	exit(fflush(stdout) ? EXIT_CHECK : EXIT_PASSED);
}

[[noreturn]] void show_version()
{
	printf("hvd-selftest %s (Gloo %d.%d.%d)\n", HVD_VERSION, GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
	       GLOO_VERSION_PATCH);
	exit(fflush(stdout) ? EXIT_CHECK : EXIT_PASSED);
}

const struct {
	const char *name;
	char letter; // 0: there is none
	int has_value;
	void (*take)(Options &o, const char *value);
} rows[] = {
	{"quick", 'q', no_argument, [](Options &o, const char *) { o.quick = true; }},
	{"max-bytes", 0, required_argument, [](Options &o, const char *v) { o.max_bytes = bytes(v); }},
	{"iterations", 0, required_argument,
	 [](Options &o, const char *v) { o.iterations = static_cast<int>(whole("--iterations", v, 1, 1000000)); }},
	{"json", 0, no_argument, [](Options &o, const char *) { o.json = true; }},
	{"time-file", 0, required_argument, [](Options &o, const char *v) { o.time_file = v; }},
	{"since", 0, required_argument, [](Options &o, const char *v) { o.since = seconds("--since", v); }},
	{"fail-rank", 0, required_argument, [](Options &o, const char *v) { fail_rank(o, v); }},
	{"hang-rank", 0, required_argument,
	 [](Options &o, const char *v) { o.hang_rank = static_cast<int>(whole("--hang-rank", v, 0, 1 << 30)); }},
	{"sleep", 0, required_argument, [](Options &o, const char *v) { o.sleep = seconds("--sleep", v); }},
	{"help", 'h', no_argument, [](Options &, const char *) { show_help(); }},
	{"version", 'V', no_argument, [](Options &, const char *) { show_version(); }},
};

} // namespace

Options parse_options(int argc, char **argv)
{
	constexpr int first = 256; // what getopt_long() returns for rows[0]
	std::vector<struct option> longs;
	Options o;
	int c;

	for (const auto &row : rows)
		longs.push_back({row.name, row.has_value, nullptr, first + static_cast<int>(longs.size())});
	longs.push_back({nullptr, 0, nullptr, 0});
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":qhV", longs.data(), nullptr)) != -1) {
		if (c == ':')
			bad(std::string(argv[optind - 1]) + " needs a value");
		const auto *row = std::find_if(std::begin(rows), std::end(rows), [&](const auto &r) {
			return c == r.letter || c == first + static_cast<int>(&r - rows);
		});
		if (row == std::end(rows))
			bad(std::string("unknown option ") + argv[optind - 1]);
		row->take(o, optarg);
	}
	if (optind < argc)
		bad(std::string("unexpected argument '") + argv[optind] + "'");
	return o;
}

} // namespace selftest
