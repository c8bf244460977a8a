// SPDX-License-Identifier: Apache-2.0
// contexts.h - the Gloo contexts that a worker of Horovod has, made in the same order and with the same keys.
#ifndef SELFTEST_CONTEXTS_H
#define SELFTEST_CONTEXTS_H

#include "env.h"
#include "failure.h"
#include "http_store.h"
#include "placement.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>
#include <memory>
#include <string>
#include <vector>

namespace selftest
{

struct Contexts {
	std::shared_ptr<gloo::transport::Device> device;
	// In a job of one rank all are null: it needs no rendezvous.
	std::shared_ptr<gloo::Context> global, local, cross;
	Traffic traffic;
};

class Mesh
{
      public:
	Mesh(const Env &env_, const Interface &interface_);

	// Call these in this order. They throw Failure.
	void make_global();
	void make_local();
	void make_cross();

	Contexts contexts;

      private:
	std::shared_ptr<gloo::Context> make(const std::string &scope, int rank, int size);

	const Env &env;
	const Interface &interface;
	HttpServer server;
};

// A message of Gloo without the file and line that it has in front.
std::string without_location(const std::string &text);

// Explains an exception of Gloo on `context`, whose ranks are the ranks `members` of the job: names the ranks to which
// the connection is lost. `doing` tells what this rank was doing.
Failure explain_gloo(const std::exception &e, const std::string &doing, const std::shared_ptr<gloo::Context> &context,
		     const std::vector<int> &members, const std::vector<Place> &places);

} // namespace selftest

#endif
