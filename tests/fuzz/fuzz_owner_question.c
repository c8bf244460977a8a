/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for the owners of sockets, and answers: what is accepted is within the limits, and is the same when it is
 * written and read again. */
#include "fuzz.h"
#include "lib/protocol/owner_question.h"

static void try_question(const json_t *msg)
{
	struct hvd_owner_question q, again;
	struct hvd_err err = {0};
	json_t *written;

	if (hvd_owner_question_read(msg, &q, &err) != 0) {
		must(err.code != HVD_OK);
		return;
	}
	must(q.n <= HVD_OWNER_PORTS && q.port != 0);
	written = hvd_owner_question_to_json(&q);
	must(hvd_owner_question_read(written, &again, NULL) == 0);
	must(again.id == q.id && again.asker == q.asker && again.world == q.world && again.port == q.port &&
	     again.n == q.n);
	must(hvd_addr_equal(&again.from, &q.from) && hvd_addr_equal(&again.to, &q.to));
	must(memcmp(again.ports, q.ports, sizeof(q.ports)) == 0);
	json_decref(written);
}

static void try_answer(const json_t *msg)
{
	struct hvd_owner_answer a, again;
	struct hvd_err err = {0};
	json_t *written;

	if (hvd_owner_answer_read(msg, &a, &err) != 0) {
		must(err.code != HVD_OK);
		return;
	}
	must(a.n <= HVD_OWNER_PORTS);
	written = hvd_owner_answer_to_json(&a);
	must(hvd_owner_answer_read(written, &again, NULL) == 0);
	must(again.id == a.id && again.asker == a.asker && again.world == a.world && again.n == a.n);
	must(memcmp(again.owners, a.owners, sizeof(a.owners)) == 0);
	json_decref(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(msg)) {
		try_question(msg);
		try_answer(msg);
	}
	json_decref(msg);
	return 0;
}
