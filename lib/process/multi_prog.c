/* SPDX-License-Identifier: Apache-2.0 */
#include "multi_prog.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in srun, a line with its newline is shorter than this, and a command has at most so many words. */
#define LINE_BYTES 16383
#define WORDS_MOST 127
/* Of a line with those that continue it: the command goes into a message, and no program could be started with much
 * more. */
#define JOINED_BYTES (256 * 1024)
/* A number that takes the place of the two characters %t. */
#define NUMBER_CHARS 11

struct line {
	int number;    /* in the file */
	int first;     /* rank; 0 in the line for all others */
	char *command; /* continued lines are joined */
};

/* Where a rank is named. */
struct place {
	int line; /* -1: nowhere */
	int offset;
};

struct hvd_multi_prog {
	char *name;
	struct hvd_strv more;
	struct line *lines;
	size_t n_lines, room;
	int others; /* the line for all others; -1: there is none */
	struct place *places;
	int n_places;
};

static bool blank(char c)
{
	return isspace((unsigned char)c);
}

static const char *skip_blanks(const char *p)
{
	while (blank(*p))
		p++;
	return p;
}

static int wrong(const struct hvd_multi_prog *mp, int number, const char *what, const char *text, const char *hint,
		 struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_USAGE, "line %d of %s: %s%s%.100s%s", number, mp->name, what, text ? ": \"" : "",
		    text ? text : "", text ? "\"" : "");
	return hvd_err_hint(err, "%s", hint);
}

/* ---- commands ---- */

/* Take the next word into `word`, which has room for it, and return what follows. NULL with *why: it is none. */
static const char *take_word(const char *p, int rank, int offset, char *word, const char **why)
{
	while (*p && !blank(*p)) {
		if (*p == '%') {
			if (p[1] != 't' && p[1] != 'o') {
				*why = "% is followed by neither t nor o";
				return NULL;
			}
			word += sprintf(word, "%d", p[1] == 't' ? rank : offset);
			p += 2;
		} else if (*p == '\'') {
			for (p++; *p && *p != '\'';)
				*word++ = *p++;
			if (!*p++) {
				*why = "a quote is not closed";
				return NULL;
			}
		} else if (*p == '\\' && p[1]) {
			*word++ = p[1];
			p += 2;
		} else if (*p++ != '\\') {
			*word++ = p[-1];
		}
	}
	*word = '\0';
	return p;
}

/* Append the words of a command. -1 with *why: it is none. */
static int split(const char *p, int rank, int offset, char *const *more, struct hvd_strv *words, const char **why)
{
	hvd_cleanup_free char *word = hvd_xcalloc(strlen(p) * NUMBER_CHARS / 2 + NUMBER_CHARS, 1);
	const size_t before = words->n;

	for (p = skip_blanks(p); *p; p = skip_blanks(p)) {
		p = take_word(p, rank, offset, word, why);
		if (!p)
			return -1;
		hvd_strv_add(words, word);
	}
	if (words->n == before || !*words->v[before]) {
		*why = "there is no program behind the ranks";
		return -1;
	}
	hvd_strv_add_all(words, more);
	if (words->n - before <= WORDS_MOST)
		return 0;
	*why = "the command has more than 127 words";
	return -1;
}

/* ---- ranks ---- */

static void make_room(struct hvd_multi_prog *mp, int64_t last)
{
	if (last < mp->n_places)
		return;
	mp->places = hvd_xrealloc(mp->places, (size_t)last + 1, sizeof(*mp->places));
	while (mp->n_places <= last)
		mp->places[mp->n_places++] = (struct place){.line = -1};
}

/* "4" or "4-7", which are the ranks of the line from number `offset` on. Returns how many they are; -1 with err set. */
static int64_t take_range(struct hvd_multi_prog *mp, const struct line *line, const char *text, int64_t offset,
			  struct hvd_err *err)
{
	const char *at = text;
	int64_t low = hvd_take_digits(&at, HVD_MAX_RANKS - 1), high = low;

	if (*at == '-' && low >= 0) {
		at++;
		high = hvd_take_digits(&at, HVD_MAX_RANKS - 1);
	}
	if (low < 0 || high < low || *at)
		return wrong(mp, line->number, "these are no ranks", text,
			     "write numbers and ranges, the smaller number first, as in 0-3,7, or * for all others",
			     err);
	if (mp->others >= 0)
		return wrong(mp, line->number, "the line for all other ranks (*) is not the last one", NULL,
			     "move that line to the end", err);
	make_room(mp, high);
	for (int64_t r = low; r <= high; r++) {
		if (mp->places[r].line >= 0)
			return wrong(mp, line->number, "another line, or this one, has named one of these ranks", text,
				     "give each rank one command", err);
		mp->places[r] = (struct place){.line = (int)mp->n_lines, .offset = (int)(offset + r - low)};
	}
	return high - low + 1;
}

static int take_ranks(struct hvd_multi_prog *mp, struct line *line, char *ranks, struct hvd_err *err)
{
	int64_t named = 0;
	char *save = NULL;

	if (strcmp(ranks, "*") == 0) {
		if (mp->others < 0)
			mp->others = (int)mp->n_lines;
		return 0;
	}
	line->first = atoi(ranks + strspn(ranks, ","));
	for (char *range = strtok_r(ranks, ",", &save); range; range = strtok_r(NULL, ",", &save)) {
		int64_t n = take_range(mp, line, range, named, err);

		if (n < 0)
			return -1;
		named += n;
	}
	return named ? 0 : wrong(mp, line->number, "no rank is named", NULL, "write RANKS PROGRAM ARGUMENTS", err);
}

/* ---- lines ---- */

/* A line, with those that continue it. */
static int take_line(struct hvd_multi_prog *mp, char *text, int number, struct hvd_err *err)
{
	char *ranks = text + (skip_blanks(text) - text), *command = ranks + strcspn(ranks, " \t\v\f\r");
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};
	struct line line = {.number = number};
	const char *why = NULL;

	if (!*ranks || *ranks == '#')
		return 0;
	if (*command)
		*command++ = '\0';
	if (take_ranks(mp, &line, ranks, err) != 0)
		return -1;
	if (split(command, line.first, 0, mp->more.v, &words, &why) != 0)
		return wrong(mp, number, why, NULL,
			     "write RANKS PROGRAM ARGUMENTS; single quotes keep what is between them, and a backslash "
			     "the next character",
			     err);
	line.command = hvd_xstrdup(command);
	mp->lines = hvd_xgrow(mp->lines, mp->n_lines, &mp->room, sizeof(*mp->lines));
	mp->lines[mp->n_lines++] = line;
	return 0;
}

static int take_lines(struct hvd_multi_prog *mp, const char *text, size_t len, struct hvd_err *err)
{
	hvd_cleanup_free char *joined = hvd_xcalloc(len + 1, 1);
	int number = 0, first = 1;
	size_t n = 0;

	for (const char *end = text + len; text < end;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t bytes = (size_t)((newline ? newline : end) - text);
		bool goes_on = bytes > 0 && text[bytes - 1] == '\\';

		number++;
		if (bytes + (newline != NULL) >= LINE_BYTES || n + bytes > JOINED_BYTES)
			return wrong(mp, number, "it is too long", NULL,
				     "16 KB are allowed, as for srun, and 256 KB with the lines that continue it", err);
		memcpy(joined + n, text, bytes - goes_on);
		n += bytes - goes_on;
		text += bytes + (newline != NULL);
		if (goes_on && text < end)
			continue;
		joined[n] = '\0';
		if (take_line(mp, joined, first, err) != 0)
			return -1;
		n = 0;
		first = number + 1;
	}
	return 0;
}

/* ---- the file ---- */

struct hvd_multi_prog *hvd_multi_prog_parse(const char *text, size_t len, const char *name, char *const *more,
					    struct hvd_err *err)
{
	struct hvd_multi_prog *mp = hvd_xcalloc(1, sizeof(*mp));
	int rc;

	mp->name = hvd_xstrdup(name);
	mp->others = -1;
	hvd_strv_add_all(&mp->more, more);
	if (memchr(text, '\0', len))
		rc = hvd_err_set(err, HVD_E_USAGE, "%s is no text", name);
	else
		rc = take_lines(mp, text, len, err);
	if (rc == 0 && mp->n_lines == 0)
		rc = hvd_err_set(err, HVD_E_USAGE, "%s has no line with ranks and a program", name);
	if (rc == 0)
		return mp;
	hvd_multi_prog_destroy(mp);
	return NULL;
}

struct hvd_multi_prog *hvd_multi_prog_read(const char *path, char *const *more, struct hvd_err *err)
{
	size_t len;
	hvd_cleanup_free char *text = hvd_read_file(path, HVD_MULTI_PROG_MAX, "the file of --multi-prog", &len, err);

	if (text)
		return hvd_multi_prog_parse(text, len, path, more, err);
	if (err)
		err->code = HVD_E_USAGE;
	return NULL;
}

void hvd_multi_prog_destroy(struct hvd_multi_prog *mp)
{
	if (!mp)
		return;
	for (size_t i = 0; i < mp->n_lines; i++)
		free(mp->lines[i].command);
	hvd_strv_free(&mp->more);
	free(mp->lines);
	free(mp->places);
	free(mp->name);
	free(mp);
}

const char *hvd_multi_prog_name(const struct hvd_multi_prog *mp)
{
	return mp->name;
}

int hvd_multi_prog_ranks(const struct hvd_multi_prog *mp)
{
	return mp->n_places;
}

bool hvd_multi_prog_open(const struct hvd_multi_prog *mp)
{
	return mp->others >= 0;
}

int hvd_multi_prog_check(const struct hvd_multi_prog *mp, long ranks, struct hvd_err *err)
{
	if (mp->n_places > ranks) {
		const struct line *line = &mp->lines[mp->places[mp->n_places - 1].line];

		hvd_err_set(err, HVD_E_USAGE, "line %d of %s: there is no rank %d in a job of %ld", line->number,
			    mp->name, mp->n_places - 1, ranks);
		return hvd_err_hint(err, "start %d ranks, or change the line", mp->n_places);
	}
	for (int r = 0; r < ranks && mp->others < 0; r++) {
		if (r < mp->n_places && mp->places[r].line >= 0)
			continue;
		hvd_err_set(err, HVD_E_USAGE, "%s: no executable program specified for rank %d of %ld", mp->name, r,
			    ranks);
		return hvd_err_hint(err, "add a line for the rank, or a last one for all others: * PROGRAM ARGUMENTS");
	}
	return 0;
}

int hvd_multi_prog_command(const struct hvd_multi_prog *mp, int rank, struct hvd_strv *argv)
{
	const bool named = rank < mp->n_places && mp->places[rank].line >= 0;
	const struct place place = named ? mp->places[rank] : (struct place){.line = mp->others, .offset = rank};
	const char *why;

	return place.line < 0 ? -1 : split(mp->lines[place.line].command, rank, place.offset, mp->more.v, argv, &why);
}

int hvd_multi_prog_line(const struct hvd_multi_prog *mp, size_t i, struct hvd_strv *argv)
{
	const char *why;

	if (i >= mp->n_lines)
		return 0;
	split(mp->lines[i].command, mp->lines[i].first, 0, mp->more.v, argv, &why);
	return mp->lines[i].number;
}
