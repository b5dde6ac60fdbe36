/* screen.c - see screen.h. */
#define _GNU_SOURCE /* ppoll */
#include "screen.h"

#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static struct termios before;
static sigset_t before_signals;
static bool is_open;
static atomic_bool leave, resized; /* set by signal handlers */

static void on_leave(int signal_number)
{
    (void)signal_number;
    leave = true;
}

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = true;
}

static void say(const char *sequence)
{
    fputs(sequence, stdout);
    fflush(stdout);
}

/* Signals are blocked except while we wait, so none is missed between the check and the wait. */
static void take_signals(void)
{
    static const int leaving[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    sigset_t blocked;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    action.sa_handler = on_leave;
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++) {
        sigaction(leaving[i], &action, NULL);
        sigaddset(&blocked, leaving[i]);
    }
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, NULL);
    sigaddset(&blocked, SIGWINCH);
    sigprocmask(SIG_BLOCK, &blocked, &before_signals);
}

bool screen_open(void)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) {
        fprintf(stderr, "pto top: not a terminal; --once prints one snapshot as text\n");
        return false;
    }
    struct termios raw = before;
    /* Read single keys, with Ctrl-C and Ctrl-Z as keys, so that we always restore the terminal. */
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    take_signals();
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    is_open = true;
    say("\033[?1049h\033[?25l");
    return true;
}

void screen_close(void)
{
    if (is_open) {
        is_open = false;
        say("\033[?25h\033[?1049l");
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        sigprocmask(SIG_SETMASK, &before_signals, NULL);
    }
}

void screen_size(int *columns, int *rows)
{
    struct winsize size;
    *columns = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        *columns = size.ws_col;
        *rows = size.ws_row;
    }
}

/* Writes one line, at most `columns` wide. Returns where the next line starts. */
static const char *show_line(const char *at, int columns)
{
    int column = 0;
    while (*at && *at != '\n') {
        const unsigned char c = (unsigned char)*at;
        if (c == '\033') { /* a colour takes no columns */
            const size_t length = strcspn(at, "m");
            fwrite(at, 1, length + 1, stdout);
            at += at[length] ? length + 1 : length;
            continue;
        }
        size_t length = 1;
        while (c >= 0xc0 && ((unsigned char)at[length] & 0xc0) == 0x80) {
            length++;
        }
        if (column < columns) {
            fwrite(at, 1, length, stdout);
            column++;
        }
        at += length;
    }
    fputs("\033[0m\033[K", stdout);
    return *at ? at + 1 : at;
}

void screen_show(const char *text)
{
    int columns, rows;
    screen_size(&columns, &rows);
    fputs("\033[H", stdout);
    for (int row = 0; row < rows && *text; row++) {
        if (row) {
            fputs("\r\n", stdout);
        }
        text = show_line(text, columns);
    }
    say("\033[J");
}

bool screen_wait(double seconds)
{
    struct timespec end, now, left;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double whole = (double)(time_t)seconds;
    end.tv_sec += (time_t)whole;
    end.tv_nsec += (long)((seconds - whole) * 1e9);
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    resized = false;
    while (!leave && !resized) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left.tv_sec = end.tv_sec - now.tv_sec;
        left.tv_nsec = end.tv_nsec - now.tv_nsec;
        if (left.tv_nsec < 0) {
            left.tv_nsec += 1000000000L;
            left.tv_sec--;
        }
        if (left.tv_sec < 0) {
            return false;
        }
        struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&keys, 1, &left, &before_signals) <= 0) {
            continue;
        }
        char typed[32];
        const ssize_t n = read(STDIN_FILENO, typed, sizeof typed);
        if (n <= 0) { /* the terminal is gone */
            return true;
        }
        for (ssize_t i = 0; i < n; i++) {
            if (typed[i] == 'q' || typed[i] == 'Q' || typed[i] == '\003') {
                return true;
            }
        }
    }
    return leave;
}

bool screen_is_utf8(void)
{
    setlocale(LC_CTYPE, "");
    return isatty(STDOUT_FILENO) && !strcmp(nl_langinfo(CODESET), "UTF-8");
}
