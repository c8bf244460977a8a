/* SPDX-License-Identifier: Apache-2.0 */
#include "screen.h"

#include "lib/base/xalloc.h"
#include "view.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

/* Milliseconds after which an Esc is none that begins the code of a key. */
#define ESCAPE_MS 25
#define RED       1

struct hvd_screen {
	SCREEN *curses;
	attr_t odd;
};

/* Texts are UTF-8, whatever the locale says. */
static void set_locale(void)
{
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

struct hvd_screen *hvd_screen_open(void)
{
	struct hvd_screen *screen;
	SCREEN *curses;
	int found;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return NULL;
	set_locale();
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK || !cursor_address || !clear_screen)
		return NULL;
	curses = newterm(NULL, stdout, stdin);
	if (!curses)
		return NULL;
	screen = hvd_xcalloc(1, sizeof(*screen));
	*screen = (struct hvd_screen){.curses = curses, .odd = A_BOLD};
	set_term(curses);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	if (has_colors() && start_color() == OK && use_default_colors() == OK && init_pair(RED, COLOR_RED, -1) == OK)
		screen->odd |= COLOR_PAIR(RED);
	return screen;
}

void hvd_screen_close(struct hvd_screen *screen)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen->curses);
	free(screen);
}

void hvd_screen_resize(struct hvd_screen *screen)
{
	struct winsize size;

	(void)screen;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
}

void hvd_screen_size(const struct hvd_screen *screen, size_t *width, size_t *height)
{
	(void)screen;
	*width = (size_t)getmaxx(stdscr);
	*height = (size_t)getmaxy(stdscr);
}

static attr_t look_of(const struct hvd_screen *screen, enum hvd_status_kind kind)
{
	switch (kind) {
	case HVD_STATUS_HEAD:
		return A_BOLD;
	case HVD_STATUS_TITLES:
		return A_REVERSE;
	case HVD_STATUS_REASON:
	case HVD_STATUS_ODD_ROW:
		return screen->odd;
	default:
		return A_NORMAL;
	}
}

void hvd_screen_draw(struct hvd_screen *screen, const struct hvd_status_lines *shown)
{
	const int height = getmaxy(stdscr), width = getmaxx(stdscr);

	erase();
	for (int y = 0; y < height && (size_t)y < shown->n; y++) {
		const struct hvd_status_line *line = &shown->v[y];
		const attr_t look = look_of(screen, line->kind);

		attrset(look);
		mvaddstr(y, 0, line->text);
		/* A bar is as wide as the screen. */
		for (int x = getcurx(stdscr); look & A_REVERSE && getcury(stdscr) == y && x < width; x++)
			if (addch(' ') == ERR)
				break;
	}
	attrset(A_NORMAL);
	refresh();
}

int hvd_screen_key(struct hvd_screen *screen)
{
	const int key = getch();

	(void)screen;
	switch (key) {
	case ERR:
		return -1;
	case KEY_UP:
		return HVD_KEY_UP;
	case KEY_DOWN:
		return HVD_KEY_DOWN;
	case KEY_PPAGE:
		return HVD_KEY_PAGE_UP;
	case KEY_NPAGE:
		return HVD_KEY_PAGE_DOWN;
	case KEY_HOME:
		return HVD_KEY_HOME;
	case KEY_END:
		return HVD_KEY_END;
	default:
		return key < 128 ? key : 0;
	}
}
