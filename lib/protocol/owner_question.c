/* SPDX-License-Identifier: Apache-2.0 */
#include "owner_question.h"

#include "wire.h"
#include "worlds.h"

static json_t *add_asker(json_t *msg, unsigned world, uint32_t asker)
{
	if (asker != HVD_OWNER_NO_ASKER)
		json_object_set_new(msg, "asker", json_integer(asker));
	return hvd_world_mark(msg, world);
}

json_t *hvd_owner_question_to_json(const struct hvd_owner_question *question)
{
	char from[HVD_ADDR_TEXT], to[HVD_ADDR_TEXT];
	json_t *ports = json_array(), *msg;

	for (size_t i = 0; i < question->n; i++)
		json_array_append_new(ports, json_integer(question->ports[i]));
	msg = json_pack("{s:s, s:I, s:s, s:s, s:i, s:o}", "t", "whose", "id", (json_int_t)question->id, "from",
			hvd_addr_text(&question->from, from), "to", hvd_addr_text(&question->to, to), "port",
			(int)question->port, "ports", ports);
	return add_asker(msg, question->world, question->asker);
}

json_t *hvd_owner_answer_to_json(const struct hvd_owner_answer *answer)
{
	json_t *owners = json_array(), *msg;

	for (size_t i = 0; i < answer->n; i++)
		json_array_append_new(owners, json_integer(answer->owners[i]));
	msg = json_pack("{s:s, s:I, s:o}", "t", "owner", "id", (json_int_t)answer->id, "owners", owners);
	return add_asker(msg, answer->world, answer->asker);
}

/* Both kinds of message have these. */
static int read_ids(const json_t *msg, uint32_t *id, unsigned *world, uint32_t *asker, struct hvd_err *err)
{
	int64_t number, host = HVD_OWNER_NO_ASKER;

	if (hvd_get_int(msg, "id", 0, UINT32_MAX, &number, err) != 0 || hvd_world_of(msg, world, err) != 0 ||
	    (json_object_get(msg, "asker") && hvd_get_int(msg, "asker", 0, HVD_OWNER_NO_ASKER - 1, &host, err) != 0))
		return -1;
	*id = (uint32_t)number;
	*asker = (uint32_t)host;
	return 0;
}

static int read_addr(const json_t *msg, const char *key, struct hvd_addr *addr, struct hvd_err *err)
{
	const char *text;

	if (hvd_get_str(msg, key, HVD_ADDR_TEXT, &text, err) != 0)
		return -1;
	return hvd_addr_parse(text, addr) == 0 ? 0 : hvd_err_set(err, HVD_E_PROTO, "\"%s\" is not an address", key);
}

int hvd_owner_question_read(const json_t *msg, struct hvd_owner_question *out, struct hvd_err *err)
{
	json_t *ports, *entry;
	int64_t port;
	size_t i;

	*out = (struct hvd_owner_question){0};
	if (read_ids(msg, &out->id, &out->world, &out->asker, err) != 0 ||
	    read_addr(msg, "from", &out->from, err) != 0 || read_addr(msg, "to", &out->to, err) != 0 ||
	    hvd_get_int(msg, "port", 1, 65535, &port, err) != 0 ||
	    hvd_get_array(msg, "ports", HVD_OWNER_PORTS, &ports, err) != 0)
		return -1;
	out->port = (in_port_t)port;
	json_array_foreach(ports, i, entry)
	{
		port = json_is_integer(entry) ? json_integer_value(entry) : 0;
		if (port < 1 || port > 65535)
			return hvd_err_set(err, HVD_E_PROTO, "\"ports\" has an entry that is no port");
		out->ports[out->n++] = (in_port_t)port;
	}
	return 0;
}

int hvd_owner_answer_read(const json_t *msg, struct hvd_owner_answer *out, struct hvd_err *err)
{
	json_t *owners, *entry;
	size_t i;

	*out = (struct hvd_owner_answer){0};
	if (read_ids(msg, &out->id, &out->world, &out->asker, err) != 0 ||
	    hvd_get_array(msg, "owners", HVD_OWNER_PORTS, &owners, err) != 0)
		return -1;
	json_array_foreach(owners, i, entry)
	{
		if (!json_is_integer(entry) || json_integer_value(entry) < HVD_OWNER_UNKNOWN)
			return hvd_err_set(err, HVD_E_PROTO, "\"owners\" has an entry that is no owner");
		out->owners[out->n++] = json_integer_value(entry);
	}
	return 0;
}
