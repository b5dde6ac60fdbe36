/* screen.h - the whole terminal for a while: drawn again and again, and left as it was. */
#ifndef TOOL_SCREEN_H
#define TOOL_SCREEN_H

#include <stdbool.h>

/* Takes the terminal; false, with words on stderr, if stdin and stdout are none. */
bool screen_open(void);
void screen_close(void);

/* Columns and rows, 80 by 24 where nobody knows. */
void screen_size(int *columns, int *rows);

/* Shows lines of text, cut to what fits. Colours and UTF-8 take the room that they show. */
void screen_show(const char *text);

/* Waits so long at most; true if it is time to leave: q, Ctrl-C, or a signal that says so. A change
 * of size ends the wait early. */
bool screen_wait(double seconds);

/* Whether the terminal shows UTF-8, by the locale. */
bool screen_is_utf8(void);

#endif /* TOOL_SCREEN_H */
