/* replay.c - runs a fuzz target on files, without libFuzzer: on the kept corpus in every build, or
 * on a single input.
 *
 *     fuzz_<name> [--times N] PATH...     files, or folders of them
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

/* Longer than any input takes, with sanitizers and other load. */
#define PATIENCE 120

static char current[4096 + 32];
static unsigned long replayed;

/* Whatever ends the program, the input is named. */
static void say(void)
{
    const ssize_t written = write(STDERR_FILENO, current, strlen(current));
    (void)written;
}

static void on_signal(int number)
{
    say();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(void)
{
    static const int signals[] = {SIGALRM, SIGABRT, SIGFPE, SIGBUS, SIGSEGV};
    extern void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));
    size_t count = sizeof signals / sizeof *signals;
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say); /* it has handlers of its own */
        count = 2;
    }
    for (size_t i = 0; i < count; i++) {
        signal(signals[i], on_signal);
    }
}

static void replay_file(const char *path, unsigned long times)
{
    FILE *in = fopen(path, "rb");
    struct stat about;
    if (!in || fstat(fileno(in), &about) || !S_ISREG(about.st_mode)) {
        fprintf(stderr, "%s: %s\n", path, in ? "not a file" : strerror(errno));
        exit(2);
    }
    const size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size ? size : 1); /* not one byte more */
    if (!data || fread(data, 1, size, in) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    fclose(in);
    snprintf(current, sizeof current, "\nthe input is %s\n", path);
    for (unsigned long i = 0; i < times; i++) {
        alarm(PATIENCE);
        LLVMFuzzerTestOneInput(data, size);
    }
    alarm(0);
    current[0] = 0;
    free(data);
    replayed++;
}

static void replay(const char *path, unsigned long times)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        replay_file(path, times);
        return;
    }
    for (int i = 0; i < count; i++) {
        char name[4096];
        if (entries[i]->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
            replay_file(name, times);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    unsigned long times = 1;
    int at = 1;
    if (argc > 2 && !strcmp(argv[1], "--times")) {
        times = strtoul(argv[2], NULL, 10);
        at = 3;
    }
    watch();
    for (; at < argc; at++) {
        replay(argv[at], times);
    }
    printf("%lu inputs\n", replayed);
    return replayed ? 0 : 2; /* a missing corpus tests nothing */
}
