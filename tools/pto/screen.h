/* screen.h - takes over the whole terminal for repeated drawing, and restores it. */
#ifndef TOOL_SCREEN_H
#define TOOL_SCREEN_H

#include <stdbool.h>

/* Takes over the terminal. Returns false, after an error message, if stdin or stdout is none. */
bool screen_open(void);
void screen_close(void);

/* Columns and rows; 80 by 24 if unknown. */
void screen_size(int *columns, int *rows);

/* Shows lines of text, cut to the size of the terminal. Colours take no columns, UTF-8 characters
 * one. */
void screen_show(const char *text);

/* Waits at most this long. Returns true if the user wants to quit: q, Ctrl-C or a signal. A resize
 * ends the wait early. */
bool screen_wait(double seconds);

/* Whether the terminal shows UTF-8, according to the locale. */
bool screen_is_utf8(void);

#endif /* TOOL_SCREEN_H */
