// SPDX-License-Identifier: Apache-2.0
// env.h - this rank's position in the job, and the rendezvous, from the launcher's HOROVOD_* variables.
#ifndef SELFTEST_ENV_H
#define SELFTEST_ENV_H

#include <chrono>
#include <string>

namespace selftest
{

struct Env {
	int rank = -1; // -1 until it has been read
	int size = 1;
	int local_rank = 0;
	int local_size = 1;
	int cross_rank = 0;
	int cross_size = 1;
	std::string hostname;
	std::string rendezvous_addr; // empty: none was named, which a job of one rank may do
	int rendezvous_port = 0;
	std::string iface; // empty: the address that this machine's host name resolves to
	std::chrono::milliseconds timeout{30000};
};

// Fills in the fields of `env` in their order: the rank comes first, so that a later failure can name it. Throws
// Failure(EXIT_USAGE), which names the variable that is missing, malformed or contradicts another one.
void read_env(Env &env);

} // namespace selftest

#endif
