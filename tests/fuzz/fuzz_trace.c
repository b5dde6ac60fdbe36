/* fuzz_trace.c - the reader of traces, and all code that uses its result, trust no file.
 *
 * The first byte of a case is its kind; the rest is a file. For some kinds the file gets a valid
 * start (magic, version and size), so that other changes pass the first check. An accepted trace is
 * written in every format, read again, reported, explained and replayed.
 */
#include "fuzz.h"

#include <unistd.h>

#include <pto/trace.h>

#include "commands.h"
#include "observe/ptrace_read.h"
#include "replay.h"

enum { GOOD_BEGINNING = 1, HTML = 2 };

static char folder[64];

static void remove_folder(void)
{
    static const char *const names[] = {"in.ptrace", "out.ptrace", "out.json", "out.dot",
                                        "out.html"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* A folder for files; the output of the commands is discarded. */
static void begin(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/dev/shm/pto_fuzz.XXXXXX");
        if (!mkdtemp(folder)) {
            snprintf(folder, sizeof folder, "/tmp/pto_fuzz.XXXXXX");
            if (!mkdtemp(folder)) {
                fuzz_wrong("no place for files");
            }
        }
        if (!freopen("/dev/null", "w", stdout)) {
            fuzz_wrong("no place for words");
        }
        atexit(remove_folder);
    }
}

static const char *path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) {
        fuzz_wrong("cannot write %s", path);
    }
}

/* ---- Uses of an accepted trace ---- */

static void write_all(const char *from, bool html, const ptoi_ptrace *trace)
{
    static const char *const names[] = {"out.ptrace", "out.json", "out.dot", "out.html"};
    char to[128];
    for (size_t i = 0; i < (html ? 4 : 3); i++) {
        if (pto_trace_convert(from, path_of(names[i], to)) != PTO_OK) {
            fuzz_wrong("%s: %s", names[i], pto_error_detail());
        }
    }
    ptoi_ptrace again;
    if (ptoi_ptrace_open(path_of("out.ptrace", to), &again) != PTO_OK) {
        fuzz_wrong("what was written is not read: %s", pto_error_detail());
    }
#define SAME_SECTION(name, number, field, type, bytes)                                             \
    if (again.n_##field != trace->n_##field ||                                                     \
        (again.n_##field &&                                                                        \
         memcmp(again.field, trace->field, again.n_##field * sizeof(type)) != 0)) {                \
        fuzz_wrong("section %s is another when it is read again", #name);                          \
    }
    PTRACE_SECTION_MAP(SAME_SECTION)
#undef SAME_SECTION
    ptoi_ptrace_close(&again);
}

/* Runs a command, which must end with this status. */
static void expect(int want, int (*command)(int argc, char **argv), const char *const *words)
{
    char copies[6][128], *argv[7] = {NULL};
    int argc = 0;
    for (; words[argc]; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    const int status = command(argc, argv);
    if (status != want) {
        fuzz_wrong("%s %s ends with %d, not %d", words[0], words[1], status, want);
    }
}

static void call(int (*command)(int argc, char **argv), const char *const *words)
{
    expect(0, command, words);
}

static void use(const char *path, const ptoi_ptrace *trace, uint8_t how)
{
    char a[24], b[24];
    write_all(path, how & HTML, trace);
    call(command_trace, (const char *[]){"trace", "report", path, NULL});
    call(command_trace, (const char *[]){"trace", "diff", path, path, NULL});
    const int refused = replay_is_outdated(trace);
    expect(refused, command_replay, (const char *[]){"replay", "--rings", path, NULL});
    expect(refused, command_replay,
           (const char *[]){"replay", "--json", "--workers", "0,1,3,cube=1", path, NULL});
    if (trace->n_tasks > 1) {
        snprintf(a, sizeof a, "%u", (how >> 2) % (unsigned)(trace->n_tasks - 1));
        snprintf(b, sizeof b, "%u", (unsigned)trace->n_tasks - 1);
        call(command_explain, (const char *[]){"explain", path, a, b, NULL});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char magic[] = {PTRACE_MAGIC_LETTERS};
    char path[128];
    ptoi_ptrace trace;
    if (size < 1) {
        return 0;
    }
    begin();
    const uint8_t how = data[0];
    uint8_t *bytes = fuzz_copy(data + 1, --size);
    if (how & GOOD_BEGINNING && size >= sizeof(ptrace_header)) {
        ptrace_header header;
        memcpy(&header, bytes, sizeof header);
        memcpy(header.magic, magic, sizeof magic);
        header.version = PTRACE_VERSION;
        header.bytes = size;
        memcpy(bytes, &header, sizeof header);
    }
    put_file(path_of("in.ptrace", path), bytes, size);
    if (ptoi_ptrace_parse("input", bytes, size, &trace) == PTO_OK) {
        use(path, &trace, how);
        ptoi_ptrace_close(&trace);
    } else if (!pto_error_detail()[0]) {
        fuzz_wrong("refused without a word");
    }
    free(bytes);
    return 0;
}
