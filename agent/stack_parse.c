/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_parse.h"

#include "lib/base/printable.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a text that has been escaped. */
#define RAW_TEXT (HVD_STACK_TEXT - 1)

json_t *hvd_stack_text(const char *text, size_t len)
{
	char raw[RAW_TEXT + 1], printable[HVD_STACK_TEXT + 1];
	size_t n = len < RAW_TEXT ? len : RAW_TEXT;

	memcpy(raw, text, n);
	raw[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (raw[i] == '\n' || raw[i] == '\t')
			raw[i] = ' ';
	hvd_printable(raw, printable, sizeof(printable));
	return json_string(printable);
}

static json_t *frame(const char *name, size_t name_len, const char *file, size_t file_len, long line)
{
	return json_pack("[o, o, I]", hvd_stack_text(name, name_len), hvd_stack_text(file, file_len),
			 (json_int_t)(line > 0 ? line : 0));
}

/* The destination of a thread's frames; NULL: there are enough threads. The main thread's frames come first in the
 * result, wherever they are in the output. */
static json_t *begin_thread(json_t *stacks, bool is_main, json_t *name)
{
	json_t *threads = json_object_get(stacks, "threads"), *frames;

	if (is_main) {
		json_decref(name);
		return json_object_get(stacks, "frames");
	}
	if (json_array_size(threads) == HVD_STACK_THREADS) {
		json_decref(name);
		return NULL;
	}
	frames = json_array();
	json_array_append_new(threads, json_pack("{s:o, s:o}", "name", name, "frames", frames));
	return frames;
}

static void add_frame(const json_t *stacks, json_t *frames, json_t *one)
{
	size_t most = frames == json_object_get(stacks, "frames") ? HVD_STACK_FRAMES : HVD_STACK_THREAD_FRAMES;

	if (frames && json_array_size(frames) < most)
		json_array_append_new(frames, one);
	else
		json_decref(one);
}

/* The stacks, unless there is not a frame in them. Takes the reference. */
static json_t *finish(json_t *stacks)
{
	json_t *threads = json_object_get(stacks, "threads");

	for (size_t i = json_array_size(threads); i-- > 0;)
		if (!json_array_size(json_object_get(json_array_get(threads, i), "frames")))
			json_array_remove(threads, i);
	if (json_array_size(json_object_get(stacks, "frames")) || json_array_size(threads))
		return stacks;
	json_decref(stacks);
	return NULL;
}

static json_t *no_stacks(void)
{
	return json_pack("{s:[], s:[]}", "frames", "threads");
}

/* ---- py-spy ---- */

static void add_python_frames(json_t *stacks, json_t *frames, const json_t *list)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *file = json_string_value(json_object_get(one, "filename"));
		json_int_t line = json_integer_value(json_object_get(one, "line"));

		if (!name)
			continue;
		file = file ? file : "";
		add_frame(stacks, frames,
			  frame(name, strlen(name), file, strlen(file), line > 0 && line < 1 << 30 ? (long)line : 0));
		if (i == HVD_STACK_FRAMES)
			break;
	}
}

json_t *hvd_stack_parse_pyspy(const char *text, size_t len, pid_t pid)
{
	json_t *list = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *thread;
	json_t *stacks = no_stacks();
	bool gil = false;
	size_t i;

	json_array_foreach(list, i, thread)
	{
		const char *name = json_string_value(json_object_get(thread, "thread_name"));
		bool is_main = json_integer_value(json_object_get(thread, "os_thread_id")) == pid ||
			       (name && strcmp(name, "MainThread") == 0);
		const json_t *frames = json_object_get(thread, "frames");

		gil = gil || json_is_true(json_object_get(thread, "owns_gil"));
		name = name ? name : "";
		if (json_array_size(frames))
			add_python_frames(stacks, begin_thread(stacks, is_main, hvd_stack_text(name, strlen(name))),
					  frames);
	}
	json_decref(list);
	json_object_set_new(stacks, "gil", json_boolean(gil));
	return finish(stacks);
}

/* ---- eu-stack and gdb ---- */

/* The thread that "TID 123:" or 'Thread 1 (Thread 0x7f… (LWP 123) "name"):' begins; 0: the line is none of these. */
static long thread_of(const char *line)
{
	const char *at = strstr(line, "(LWP ");

	if (strncmp(line, "TID ", 4) == 0)
		return strtol(line + 4, NULL, 10);
	return strncmp(line, "Thread ", 7) == 0 && at ? strtol(at + 5, NULL, 10) : 0;
}

/* "#0  0x00007f… NAME" of eu-stack, where the name may be missing; "#0  0x00007f… in NAME (ARGS) at FILE:LINE" of gdb,
 * where the address and the place may be missing. */
static json_t *native_frame(const char *line)
{
	const char *p = line + 1, *name, *end, *at, *colon;
	size_t len;

	p += strspn(p, "0123456789");
	p += strspn(p, " ");
	if (strncmp(p, "0x", 2) == 0) {
		p += strcspn(p, " ");
		p += strspn(p, " ");
		if (strncmp(p, "in ", 3) == 0)
			p += 3;
	}
	name = p;
	end = strstr(name, " (");
	len = end ? (size_t)(end - name) : strlen(name);
	while (len && isspace((unsigned char)name[len - 1]))
		len--;
	if (!len)
		return frame("??", 2, "", 0, 0);
	at = end ? strstr(end, ") at ") : NULL;
	colon = at ? strrchr(at, ':') : NULL;
	if (colon)
		return frame(name, len, at + 5, (size_t)(colon - at - 5), strtol(colon + 1, NULL, 10));
	return frame(name, len, "", 0, 0);
}

json_t *hvd_stack_parse_native(const char *text, size_t len, pid_t pid)
{
	json_t *stacks = no_stacks(), *frames = NULL;
	const char *end = text + len;
	char line[1024], name[32];
	long tid;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t whole = (size_t)((nl ? nl : end) - text),
		       n = whole < sizeof(line) - 1 ? whole : sizeof(line) - 1;

		memcpy(line, text, n);
		line[n] = '\0';
		text += whole + 1;
		tid = thread_of(line);
		if (tid > 0) {
			snprintf(name, sizeof(name), "thread %ld", tid);
			frames = begin_thread(stacks, tid == pid, json_string(name));
		} else if (line[0] == '#' && isdigit((unsigned char)line[1]) && frames) {
			add_frame(stacks, frames, native_frame(line));
		}
	}
	return finish(stacks);
}
