// SPDX-License-Identifier: Apache-2.0
#include "contexts.h"

#include <gloo/barrier.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

namespace selftest
{

namespace
{

// The prefix of the slots of our own messages. Gloo's collectives number theirs from 1, so this is far above them.
constexpr uint8_t probe_prefix = 0x7e;

// Lists the ranks of a context to which nothing can be sent any more, each with Gloo's reason.
std::string lost_peers(const std::shared_ptr<gloo::Context> &context, const std::vector<int> &members,
		       const std::vector<Place> &places)
{
	constexpr size_t most = 4;
	std::string s;
	size_t n = 0;
	char byte = 0;

	for (size_t i = 0; i < members.size(); i++) {
		auto peer = static_cast<size_t>(members[i]);

		if (static_cast<int>(i) == context->rank)
			continue;
		try {
			auto buffer = context->createUnboundBuffer(&byte, sizeof(byte));
			buffer->send(static_cast<int>(i), gloo::Slot::build(probe_prefix, 0));
			continue;
		} catch (const std::exception &e) {
			const std::string why = without_location(e.what());

			// After a timeout Gloo itself closes all connections, so this tells nothing about the peer.
			if (why.find("Application timeout") != std::string::npos)
				return "";
			if (++n <= most)
				s += (s.empty() ? "" : "; ") + describe(places[peer]) + ": " + why;
		}
	}
	return n > most ? s + "; and " + std::to_string(n - most) + " more" : s;
}

// Until 2024 Gloo took a reference to the store, and since 2025 it takes a shared pointer. The overload that fits
// Gloo's header is called.
using Device = std::shared_ptr<gloo::transport::Device>;
using Borrows = void (gloo::rendezvous::Context::*)(gloo::rendezvous::Store &, Device &);
using Shares = void (gloo::rendezvous::Context::*)(std::shared_ptr<gloo::rendezvous::Store>, Device &);

[[maybe_unused]] void connect(Borrows full_mesh, gloo::rendezvous::Context &context,
			      const std::shared_ptr<HttpStore> &store, Device &device)
{
	(context.*full_mesh)(*store, device);
}

[[maybe_unused]] void connect(Shares full_mesh, gloo::rendezvous::Context &context,
			      const std::shared_ptr<HttpStore> &store, Device &device)
{
	(context.*full_mesh)(store, device);
}

} // namespace

std::string without_location(const std::string &text)
{
	size_t end = text.find("] ");

	return text.rfind("[", 0) == 0 && end != std::string::npos && text.find(':') < end ? text.substr(end + 2)
											   : text;
}

Mesh::Mesh(const Env &env_, const Interface &interface_) : env(env_), interface(interface_)
{
	if (env.size == 1)
		return;
	try {
		server = resolve_server(env.rendezvous_addr, env.rendezvous_port);
	} catch (const HttpError &e) {
		throw Failure(EXIT_USAGE, std::string("HOROVOD_GLOO_RENDEZVOUS_ADDR: ") + e.what(),
			      "give the rendezvous' address as a number, or make its name known on this host");
	}
	gloo::transport::tcp::attr attr;
	attr.iface = env.iface;
	try {
		contexts.device = gloo::transport::tcp::CreateDevice(attr);
	} catch (const std::exception &e) {
		throw Failure(EXIT_CHECK,
			      "Gloo cannot use interface " + interface.name + " with " + interface.address + ": " +
				      without_location(e.what()),
			      "set HOROVOD_GLOO_IFACE to another interface");
	}
}

std::shared_ptr<gloo::Context> Mesh::make(const std::string &scope, int rank, int size)
{
	auto store = std::make_shared<HttpStore>(server, scope, rank, size, env.timeout, contexts.traffic);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
	bool connected = false;

	context->setTimeout(env.timeout);
	try {
		connect(&gloo::rendezvous::Context::connectFullMesh, *context, store, contexts.device);
		connected = true;
		gloo::BarrierOptions opts(context);
		gloo::barrier(opts);
	} catch (const Failure &) {
		throw;
	} catch (const std::exception &e) {
		throw Failure(
			EXIT_CHECK,
			"scope " + scope + ": " +
				(connected           ? "the barrier of its " + std::to_string(size) + " ranks"
				 : store->peer() < 0 ? "connecting its " + std::to_string(size) + " ranks"
						     : "connecting to its rank " + std::to_string(store->peer())) +
				" failed: " + without_location(e.what()),
			interface.name == "lo"
				? "interface lo reaches this host only: set HOROVOD_GLOO_IFACE to one that reaches the "
				  "others"
				: "look whether all ranks use interfaces of one network (HOROVOD_GLOO_IFACE), whether "
				  "a firewall lets the hosts connect to each other, and whether that rank lives");
	}
	store->finish();
	return context;
}

void Mesh::make_global()
{
	if (env.size > 1)
		contexts.global = make("global", env.rank, env.size);
}

// As with Horovod, a context of one rank takes part in the rendezvous too, though nothing is ever sent in it.
void Mesh::make_local()
{
	if (env.size > 1)
		contexts.local = make("local_" + env.hostname, env.local_rank, env.local_size);
}

void Mesh::make_cross()
{
	if (env.size > 1)
		contexts.cross = make("cross_" + std::to_string(env.local_rank), env.cross_rank, env.cross_size);
}

Failure explain_gloo(const std::exception &e, const std::string &doing, const std::shared_ptr<gloo::Context> &context,
		     const std::vector<int> &members, const std::vector<Place> &places)
{
	std::string lost = context ? lost_peers(context, members, places) : "";

	if (lost.empty())
		return Failure(EXIT_CHECK, doing + ": " + without_location(e.what()),
			       "a rank hangs, or the network drops packets: look at what the other ranks do");
	return Failure(EXIT_CHECK, doing + ": lost " + lost,
		       "a rank ended or its host went away, and others ended because of it: look at "
		       "their own output for the first");
}

} // namespace selftest
