// SPDX-License-Identifier: Apache-2.0
#include "env.h"

#include "failure.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace selftest
{

namespace
{

const char how_to_start[] =
	"a launcher starts this program, once per rank: 'hvdrun -np 4 hvd-selftest', 'srun --hvd -n 4 hvd-selftest', "
	"or horovodrun; each rank needs HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK, _CROSS_SIZE, "
	"_HOSTNAME, _GLOO_RENDEZVOUS_ADDR and _GLOO_RENDEZVOUS_PORT";

const char check_launcher[] =
	"the launcher set the variables wrongly, or something between it and this program changed "
	"them: look at 'env | grep HOROVOD_' where the rank runs";

[[noreturn]] void missing(const char *name)
{
	throw Failure(EXIT_USAGE, std::string(name) + " is not set", how_to_start);
}

[[noreturn]] void wrong(const std::string &text)
{
	throw Failure(EXIT_USAGE, text, check_launcher);
}

const char *get(const char *name)
{
	const char *s = getenv(name);

	return s && *s ? s : nullptr;
}

int number(const char *name, const char *text, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < min || n > max)
		wrong(std::string(name) + "=" + text + " is not a number from " + std::to_string(min) + " to " +
		      std::to_string(max));
	return static_cast<int>(n);
}

int required(const char *name, long min, long max)
{
	const char *s = get(name);

	if (!s)
		missing(name);
	return number(name, s, min, max);
}

// Reads a pair of variables: a rank within a group, and the size of the group.
void place(const char *rank_name, const char *size_name, bool needed, int world, int &rank, int &size)
{
	if (needed || get(rank_name))
		rank = required(rank_name, 0, INT_MAX);
	if (needed || get(size_name))
		size = required(size_name, 1, INT_MAX);
	if (rank >= size)
		wrong(std::string(rank_name) + "=" + std::to_string(rank) + " is not below " + size_name + "=" +
		      std::to_string(size));
	if (size > world)
		wrong(std::string(size_name) + "=" + std::to_string(size) +
		      " is more than HOROVOD_SIZE=" + std::to_string(world));
}

std::string host_name(bool needed)
{
	const char *s = get("HOROVOD_HOSTNAME");
	char buf[HOST_NAME_MAX + 1] = "";

	if (!s && needed)
		missing("HOROVOD_HOSTNAME");
	if (!s) {
		gethostname(buf, sizeof(buf) - 1);
		return buf[0] ? buf : "localhost";
	}
	// The value becomes part of the path of an HTTP request, and is not quoted there.
	for (const char *p = s; *p; p++)
		if (static_cast<unsigned char>(*p) <= ' ' || *p == 0x7f || *p == '/' || *p == '?' || *p == '#')
			wrong("HOROVOD_HOSTNAME holds a character that no host name has");
	if (std::string(s).size() > 255)
		wrong("HOROVOD_HOSTNAME is longer than 255 characters");
	return s;
}

void rendezvous(Env &env, bool needed)
{
	const char *addr = get("HOROVOD_GLOO_RENDEZVOUS_ADDR");

	if (!addr && !needed)
		return;
	if (!addr)
		missing("HOROVOD_GLOO_RENDEZVOUS_ADDR");
	env.rendezvous_addr = addr;
	if (env.rendezvous_addr.front() == '[' && env.rendezvous_addr.back() == ']')
		env.rendezvous_addr = env.rendezvous_addr.substr(1, env.rendezvous_addr.size() - 2);
	env.rendezvous_port = required("HOROVOD_GLOO_RENDEZVOUS_PORT", 1, 65535);
}

void controller(const char *name)
{
	const char *s = get(name);

	if (s && std::string(s) != "gloo")
		throw Failure(EXIT_USAGE, std::string(name) + "=" + s + " asks for something else than Gloo",
			      "this program tests Gloo only: launch it with the Gloo controller (--gloo)");
}

} // namespace

void read_env(Env &env)
{
	int rank = required("HOROVOD_RANK", 0, INT_MAX);

	env.rank = rank;
	place("HOROVOD_RANK", "HOROVOD_SIZE", true, INT_MAX, env.rank, env.size);

	bool several = env.size > 1;

	place("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", several, env.size, env.local_rank, env.local_size);
	place("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", several, env.size, env.cross_rank, env.cross_size);
	// The job must have room for this host's ranks and at least one rank on every other host of the cross group.
	if (env.local_size - 1 > env.size - env.cross_size)
		wrong("HOROVOD_LOCAL_SIZE=" + std::to_string(env.local_size) +
		      " and HOROVOD_CROSS_SIZE=" + std::to_string(env.cross_size) +
		      " need more than HOROVOD_SIZE=" + std::to_string(env.size) + " ranks");
	env.hostname = host_name(several);
	rendezvous(env, several);
	if (const char *s = get("HOROVOD_GLOO_IFACE"))
		env.iface = s;
	if (const char *s = get("HOROVOD_GLOO_TIMEOUT_SECONDS"))
		env.timeout = std::chrono::seconds(number("HOROVOD_GLOO_TIMEOUT_SECONDS", s, 1, 86400));
	controller("HOROVOD_CONTROLLER");
	controller("HOROVOD_CPU_OPERATIONS");
}

} // namespace selftest
