/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a forgiven bind is found whole and nothing else is. */
#include "agent/bind_line.h"

#include "tests/unit/unit.h"

#define LINE                                                                                                           \
	"[E1127 07:34:54.915245053 TCPStore.cpp:280] [c10d] The server socket on 23457 has failed to bind. "           \
	"TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n"

static void finds(const char *text, const char *left)
{
	char rest[1024] = "";
	size_t at, n;

	assert_true(hvd_bind_line_find(text, strlen(text), &at, &n));
	snprintf(rest, sizeof(rest), "%.*s%s", (int)at, text, text + at + n);
	assert_string_equal(rest, left);
}

static void finds_none(const char *text)
{
	size_t at, n;

	assert_false(hvd_bind_line_find(text, strlen(text), &at, &n));
}

TEST(whole_lines)
{
	finds(LINE, "");
	finds("one\n" LINE "two\n", "one\ntwo\n");
	finds("one\n\n" LINE, "one\n\n");
	finds(LINE LINE, LINE);
	finds("TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n" LINE,
	      "TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n");
}

TEST(other_lines)
{
	char text[] = LINE;

	text[sizeof(text) - 2] = '\0';
	finds_none(text);
	finds_none("");
	finds_none("x" LINE);
	finds_none(&LINE[1]);
	finds_none(
		"[E1127 07:34:54.915245053 TCPStore.cpp:280] [c10d] The server socket on 23457 has failed to bind.\n");
	finds_none("[E1127 07:34:54.9 socket.cpp:280] [c10d] The server socket on 23457 has failed to bind. "
		   "TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n");
	finds_none("The server socket on 23457 has failed to bind. TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring "
		   "the error.\n");
	finds_none(" has failed to bind. TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.\n");
}

RUN_TESTS()
