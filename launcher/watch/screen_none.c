/* SPDX-License-Identifier: Apache-2.0 */
/* In place of screen.c where there is no ncurses: no terminal is a screen. */
#include "screen.h"

struct hvd_screen *hvd_screen_open(void)
{
	return NULL;
}

void hvd_screen_close(struct hvd_screen *screen)
{
	(void)screen;
}

void hvd_screen_resize(struct hvd_screen *screen)
{
	(void)screen;
}

void hvd_screen_size(const struct hvd_screen *screen, size_t *width, size_t *height)
{
	(void)screen;
	*width = 80;
	*height = 24;
}

void hvd_screen_draw(struct hvd_screen *screen, const struct hvd_status_lines *lines)
{
	(void)screen;
	(void)lines;
}

int hvd_screen_key(struct hvd_screen *screen)
{
	(void)screen;
	return -1;
}
