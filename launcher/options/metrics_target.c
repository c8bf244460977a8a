/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_target.h"

#include "lib/base/digits.h"
#include "lib/net/addr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static int malformed(const char *value, struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_USAGE, "--metrics=%.200s is neither [ADDRESS:]PORT nor file:PATH", value);
	return hvd_err_hint(err,
			    "as in --metrics=9400, 10.0.0.1:9400, [::1]:9400 or file:/var/lib/node_exporter/hvd.prom");
}

static int parse_file(const char *value, struct hvd_metrics_target *target, struct hvd_err *err)
{
	size_t n = strlen(target->file);

	return n == 0 || target->file[n - 1] == '/' ? malformed(value, err) : 0;
}

/* The address in front of the colon at `end`; an IPv6 address is in brackets. */
static int parse_address(const char *text, const char *end, struct sockaddr_storage *ss)
{
	const size_t n = (size_t)(end - text);
	const bool v6 = n > 2 && text[0] == '[' && end[-1] == ']';
	char addr[INET6_ADDRSTRLEN + 32]; /* with a scope */

	if (n >= sizeof(addr) || (!v6 && memchr(text, ':', n)))
		return -1;
	snprintf(addr, sizeof(addr), "%.*s", (int)n - 2 * v6, text + v6);
	return hvd_sockaddr_parse(strcmp(addr, "localhost") == 0 ? "127.0.0.1" : addr, ss);
}

int hvd_metrics_target_parse(const char *value, struct hvd_metrics_target *target, struct hvd_err *err)
{
	const char *colon = strrchr(value, ':'), *port = colon ? colon + 1 : value;
	const int64_t number = hvd_digits(port, strlen(port), 65535);
	struct hvd_addr addr;

	*target = (struct hvd_metrics_target){.file = strncmp(value, "file:", 5) == 0 ? value + 5 : NULL};
	if (target->file)
		return parse_file(value, target, err);
	if (number < 0)
		return malformed(value, err);
	if (!colon)
		hvd_sockaddr_parse("127.0.0.1", &target->addr);
	else if (parse_address(value, colon, &target->addr) != 0)
		return malformed(value, err);
	if (target->addr.ss_family == AF_INET)
		((struct sockaddr_in *)&target->addr)->sin_port = htons((in_port_t)number);
	else
		((struct sockaddr_in6 *)&target->addr)->sin6_port = htons((in_port_t)number);
	hvd_addr_from_sockaddr((struct sockaddr *)&target->addr, &addr, NULL);
	target->loopback = hvd_addr_loopback(&addr);
	return 0;
}
