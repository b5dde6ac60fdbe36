/* said.h - runs a command of `pto` inside the test, and returns what it prints on stdout and stderr. */
#ifndef PTO_TEST_SAID_H
#define PTO_TEST_SAID_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef int (*said_command)(int argc, char **argv);

/* The caller frees the text. The command must end with `status`. */
static inline char *said(int status, said_command command, const char *const *words)
{
    char *argv[16] = {NULL}, *text;
    int argc = 0;
    for (; words[argc]; argc++) {
        argv[argc] = strdup(words[argc]);
    }
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    const int before[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    const int got = command(argc, argv);
    fflush(stdout);
    assert_true(dup2(before[0], STDOUT_FILENO) >= 0);
    assert_true(dup2(before[1], STDERR_FILENO) >= 0);
    close(before[0]);
    close(before[1]);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    const long n = lseek(fileno(file), 0, SEEK_END);
    text = calloc((size_t)n + 1, 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    fclose(file);
    if (got != status) {
        fail_msg("status %d, want %d:\n%s", got, status, text);
    }
    return text;
}

#define SAID(status, command, ...)                                                                 \
    said((status), (command), (const char *const[]){__VA_ARGS__, NULL})

static inline void said_contains(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (!strstr(text, *words)) {
            fail_msg("no '%s' in:\n%s", *words, text);
        }
    }
}

#define EXPECT_SAID(text, ...) said_contains((text), (const char *const[]){__VA_ARGS__, NULL})

#endif /* PTO_TEST_SAID_H */
