/* SPDX-License-Identifier: Apache-2.0 */
#include "boot.h"

#include "lib/base/deadline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hvd_boot_format(const struct hvd_boot *boot, char text[HVD_BOOT_MAX], struct hvd_err *err)
{
	char addr[HVD_ADDR_TEXT], range[32] = "", ports[48] = "", stores[24] = "", roles[32] = "", worlds[24] = "",
				  relays[24] = "";
	size_t at;
	int n;

	if (strchr(boot->id, ';'))
		return hvd_err_set(err, HVD_E_USAGE, "the key file's path must not contain a semicolon: %s", boot->id);
	if (boot->port_lo)
		snprintf(range, sizeof(range), "range=%u-%u;", boot->port_lo, boot->port_hi);
	if (boot->ports || boot->rank_ports)
		snprintf(ports, sizeof(ports), "ports=%u+%u;", boot->ports, boot->rank_ports);
	if (boot->store_ports)
		snprintf(stores, sizeof(stores), "store=%u;", boot->store_ports);
	if (boot->role_ports)
		snprintf(roles, sizeof(roles), "role_ports=%u;", boot->role_ports);
	if (boot->worlds > 1)
		snprintf(worlds, sizeof(worlds), "worlds=%u;", boot->worlds);
	if (boot->relays)
		snprintf(relays, sizeof(relays), "relays=%u;", boot->relays);
	n = snprintf(text, HVD_BOOT_MAX,
		     "2;session=%s;port=%u;%s%s%s%s%s%s%s%s%stimeout=%.3f;id=%s;verbose=%d;addr=", boot->session,
		     boot->port, range, ports, stores, roles, worlds, relays, boot->network ? "network=1;" : "",
		     boot->keeps_stderr ? "stderr=1;" : "", boot->spares ? "spares=1;" : "", boot->timeout, boot->id,
		     boot->verbose);
	at = (size_t)n;
	for (unsigned i = 0; i < boot->n_addrs && n > 0 && at < HVD_BOOT_MAX; i++) {
		n = snprintf(text + at, HVD_BOOT_MAX - at, "%s%s", i ? "," : "", hvd_addr_text(&boot->addrs[i], addr));
		at += (size_t)n;
	}
	if (n < 0 || at >= HVD_BOOT_MAX)
		return hvd_err_set(err, HVD_E_LIMIT, "the driver's addresses do not fit into %d bytes", HVD_BOOT_MAX);
	return 0;
}

static int parse_number(const char *text, double min, double max, double *out)
{
	char *end;

	errno = 0;
	*out = strtod(text, &end);
	return errno || end == text || *end || !(*out >= min && *out <= max) ? -1 : 0;
}

int hvd_boot_parse_addrs(char *list, struct hvd_boot *boot)
{
	char *save = NULL;

	for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (boot->n_addrs == HVD_BOOT_MAX_ADDRS || hvd_addr_parse(word, &boot->addrs[boot->n_addrs]) != 0)
			return -1;
		boot->n_addrs++;
	}
	return boot->n_addrs ? 0 : -1;
}

/* Two numbers with this sign between them. */
static int parse_pair(char *text, char between, double min, double max, double pair[2])
{
	char *second = strchr(text, between);

	if (!second)
		return -1;
	*second++ = '\0';
	return parse_number(text, min, max, &pair[0]) != 0 ? -1 : parse_number(second, min, max, &pair[1]);
}

static int parse_field(char *field, struct hvd_boot *boot)
{
	char *value = strchr(field, '=');
	double number, pair[2];

	if (!value)
		return -1;
	*value++ = '\0';
	if (strcmp(field, "session") == 0) {
		if (strlen(value) != HVD_SESSION_LEN || value[strspn(value, "0123456789abcdef")])
			return -1;
		memcpy(boot->session, value, HVD_SESSION_LEN + 1);
	} else if (strcmp(field, "port") == 0) {
		if (parse_number(value, 1, 65535, &number) != 0)
			return -1;
		boot->port = (in_port_t)number;
	} else if (strcmp(field, "timeout") == 0) {
		return parse_number(value, 0, HVD_MOST_SECONDS, &boot->timeout);
	} else if (strcmp(field, "verbose") == 0) {
		if (parse_number(value, 0, 9, &number) != 0)
			return -1;
		boot->verbose = (int)number;
	} else if (strcmp(field, "id") == 0) {
		if (strlen(value) >= sizeof(boot->id))
			return -1;
		memcpy(boot->id, value, strlen(value) + 1);
	} else if (strcmp(field, "range") == 0) {
		if (parse_pair(value, '-', 1, 65535, pair) != 0 || pair[0] > pair[1])
			return -1;
		boot->port_lo = (in_port_t)pair[0];
		boot->port_hi = (in_port_t)pair[1];
	} else if (strcmp(field, "ports") == 0) {
		if (parse_pair(value, '+', 0, HVD_BOOT_MAX_PORTS, pair) != 0)
			return -1;
		boot->ports = (unsigned)pair[0];
		boot->rank_ports = (unsigned)pair[1];
	} else if (strcmp(field, "store") == 0) {
		if (parse_number(value, 0, HVD_BOOT_MAX_PORTS, &number) != 0)
			return -1;
		boot->store_ports = (unsigned)number;
	} else if (strcmp(field, "role_ports") == 0) {
		if (parse_number(value, 0, HVD_MAX_ROLE_PORTS, &number) != 0)
			return -1;
		boot->role_ports = (unsigned)number;
	} else if (strcmp(field, "worlds") == 0) {
		if (parse_number(value, 1, HVD_MAX_WORLDS, &number) != 0)
			return -1;
		boot->worlds = (unsigned)number;
	} else if (strcmp(field, "relays") == 0) {
		if (parse_number(value, 0, HVD_BOOT_MAX_RELAYS, &number) != 0)
			return -1;
		boot->relays = (unsigned)number;
	} else if (strcmp(field, "network") == 0) {
		if (parse_number(value, 0, 1, &number) != 0)
			return -1;
		boot->network = number > 0;
	} else if (strcmp(field, "spares") == 0) {
		if (parse_number(value, 0, 1, &number) != 0)
			return -1;
		boot->spares = number > 0;
	} else if (strcmp(field, "stderr") == 0) {
		if (parse_number(value, 0, 1, &number) != 0)
			return -1;
		boot->keeps_stderr = number > 0;
	} else if (strcmp(field, "addr") == 0) {
		return hvd_boot_parse_addrs(value, boot);
	}
	return 0; /* unknown fields are ignored */
}

int hvd_boot_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err)
{
	char copy[HVD_BOOT_MAX], *save = NULL;

	memset(boot, 0, sizeof(*boot));
	boot->worlds = 1;
	if (strlen(text) >= sizeof(copy))
		return hvd_err_set(err, HVD_E_LIMIT, "%s is longer than %d bytes", HVD_BOOT_ENV, HVD_BOOT_MAX);
	memcpy(copy, text, strlen(text) + 1);
	if (strncmp(copy, "2;", 2) != 0) {
		hvd_err_set(err, HVD_E_PROTO, "%s is not of this release", HVD_BOOT_ENV);
		return hvd_err_hint(err, "the same release must be installed on all hosts");
	}
	for (char *field = strtok_r(copy + 2, ";", &save); field; field = strtok_r(NULL, ";", &save))
		if (parse_field(field, boot) != 0)
			return hvd_err_set(err, HVD_E_PROTO, "%s is damaged at \"%s\"", HVD_BOOT_ENV, field);
	if (!boot->session[0] || !boot->port || !boot->n_addrs || !boot->id[0] || boot->store_ports > boot->ports)
		return hvd_err_set(err, HVD_E_PROTO, "%s is not complete", HVD_BOOT_ENV);
	return 0;
}
