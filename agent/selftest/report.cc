// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include "contexts.h"
#include "failure.h"

#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>
#include <numeric>
#include <type_traits>

namespace selftest
{

namespace
{

static_assert(std::is_trivially_copyable<Report>::value, "reports are sent as bytes");

constexpr uint8_t report_prefix = 0x70, verdict_prefix = 0x71;

// The other ranks wait this much longer, so that rank 0, whose message tells more, gives up first.
constexpr auto patience = std::chrono::milliseconds(5000);

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

enum Verdict : char {
	COMPLETE,
	ABANDONED
};

// Tells all other ranks. A rank that cannot be told any more notices by itself.
void tell(const std::shared_ptr<gloo::Context> &context, Verdict verdict, size_t ranks)
{
	std::vector<Buffer> buffers;
	char byte = verdict;

	for (size_t i = 1; i < ranks; i++) {
		buffers.push_back(context->createUnboundBuffer(&byte, sizeof(byte)));
		try {
			buffers.back()->send(static_cast<int>(i), gloo::Slot::build(verdict_prefix, 0));
		} catch (const std::exception &) {
			buffers.pop_back();
		}
	}
	for (Buffer &b : buffers) {
		try {
			b->waitSend(patience);
		} catch (const std::exception &) {
		}
	}
}

std::vector<Report> collect(const std::shared_ptr<gloo::Context> &context, const Report &own,
			    const std::vector<Place> &places)
{
	const auto slot = gloo::Slot::build(report_prefix, 0);
	const Deadline deadline = Clock::now() + context->getTimeout();
	std::vector<Report> reports(places.size(), own);
	std::vector<Buffer> buffers(places.size());
	std::string missing, why;
	size_t n = 0;

	// A connection that is lost already refuses the receive; one that is lost later ends the wait.
	for (size_t i = 1; i < places.size(); i++) {
		Buffer b = context->createUnboundBuffer(&reports[i], sizeof(Report));

		try {
			b->recv(static_cast<int>(i), slot);
			buffers[i] = std::move(b);
		} catch (const std::exception &e) {
			why = e.what();
		}
	}
	for (size_t i = 1; i < places.size(); i++) {
		auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());

		try {
			if (buffers[i] && buffers[i]->waitRecv(std::max(left, std::chrono::milliseconds(1))))
				continue;
		} catch (const std::exception &e) {
			why = why.empty() ? e.what() : why;
		}
		if (++n <= 8)
			missing += (missing.empty() ? "" : ", ") + describe(places[i]);
	}
	if (n == 0)
		return reports;
	tell(context, ABANDONED, places.size());
	throw Failure(EXIT_CHECK,
		      "no report from " + missing + (n > 8 ? " and " + std::to_string(n - 8) + " more" : "") + ": " +
			      without_location(why),
		      "these ranks ended or hang: look at their own output first");
}

} // namespace

std::vector<Report> exchange_reports(const std::shared_ptr<gloo::Context> &context, const Report &own,
				     const std::vector<Place> &places)
{
	if (!context)
		return {own};

	std::vector<Report> reports = {own};
	std::vector<int> everyone(places.size());
	char verdict = COMPLETE;

	std::iota(everyone.begin(), everyone.end(), 0);
	if (context->rank == 0) {
		reports = collect(context, own, places);
		tell(context, COMPLETE, places.size());
		return reports;
	}
	try {
		Buffer out = context->createUnboundBuffer(&reports[0], sizeof(Report));
		Buffer in = context->createUnboundBuffer(&verdict, sizeof(verdict));

		in->recv(0, gloo::Slot::build(verdict_prefix, 0));
		out->send(0, gloo::Slot::build(report_prefix, 0));
		out->waitSend(context->getTimeout());
		in->waitRecv(context->getTimeout() + patience);
	} catch (const std::exception &e) {
		throw explain_gloo(e, "the final report", context, everyone, places);
	}
	if (verdict != COMPLETE)
		throw Failure(EXIT_CHECK, "the job cannot finish: not all ranks reported to rank 0",
			      "rank 0 tells which ranks");
	return reports;
}

} // namespace selftest
