/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.h - the terminal of this process as a screen of lines, by ncurses.
 *
 * From open to close the terminal shows its other screen, and passes on keys as they are typed; close restores its modes,
 * and what it has shown before. Ctrl-C and Ctrl-Z stay signals. A handler of SIGINT, SIGTERM or SIGWINCH that was there
 * before stays.
 */
#ifndef HVD_SCREEN_H
#define HVD_SCREEN_H

#include "launcher/diagnosis/status_lines.h"

#include <stddef.h>

struct hvd_screen;

/* NULL: stdin and stdout are not a terminal, it cannot move its cursor, or this program was built without ncurses. */
struct hvd_screen *hvd_screen_open(void);
void hvd_screen_close(struct hvd_screen *screen); /* NULL is fine */

/* The terminal may have another size now. */
void hvd_screen_resize(struct hvd_screen *screen);
void hvd_screen_size(const struct hvd_screen *screen, size_t *width, size_t *height);

/* Show these lines, from the first line of the screen on. */
void hvd_screen_draw(struct hvd_screen *screen, const struct hvd_status_lines *lines);

/* The next key that was typed: a character or an enum hvd_view_key (view.h); 0: another one; -1: none. Does not wait. */
int hvd_screen_key(struct hvd_screen *screen);

#endif
