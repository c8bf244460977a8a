/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_settings.h"

json_t *hvd_agent_settings_json(const struct hvd_agent_settings *settings)
{
	json_t *object = json_object();

#define SET(field, most) json_object_set_new(object, #field, json_real(settings->field));
	HVD_AGENT_SETTINGS(SET, SET)
#undef SET
	return object;
}

static int read_number(const json_t *object, const char *key, double most, double *out, struct hvd_err *err)
{
	const json_t *value = json_object_get(object, key);

	*out = json_number_value(value);
	if (json_is_number(value) && *out >= 0 && *out <= most)
		return 0;
	return hvd_err_set(err, HVD_E_PROTO, "the launch plan has no valid \"%s\"", key);
}

int hvd_agent_settings_read(const json_t *object, struct hvd_agent_settings *settings, struct hvd_err *err)
{
	double value;
	int rc = 0;

#define READ(field, type, most)                                                                                        \
	rc = rc == 0 ? read_number(object, #field, most, &value, err) : rc;                                            \
	settings->field = rc == 0 ? (type)value : 0;
#define NUMBER(field, most)  READ(field, unsigned, most)
#define SECONDS(field, most) READ(field, double, most)
	HVD_AGENT_SETTINGS(NUMBER, SECONDS)
#undef NUMBER
#undef SECONDS
#undef READ
	if (rc != 0)
		*settings = (struct hvd_agent_settings){0};
	return rc;
}
