/* tasks_tbb.cpp - oneTBB's flow graph as a peer of bench_tasks: a continue_node for each task.
 *
 * A flow graph knows edges, not memory, so this program finds them: last writer and readers since,
 * for each tile. A node must have all its edges before the first of its predecessors runs; hence
 * tasks are gathered in batches, each a graph of its own. While one runs, the next is built; it
 * starts when the one before is done, so edges are only needed within a batch.
 *
 * TASKS_TBB_BATCH: how many tasks that is.
 */
#include <oneapi/tbb/flow_graph.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace flow = oneapi::tbb::flow;

struct tile {
    uint64_t *memory;
    uint64_t batch;                 /* which the rest is about: what earlier ones did is done */
    int64_t writer;                 /* the last, or -1 */
    std::vector<uint32_t> *readers; /* since then */
};
struct sink;

#include "tasks_peer.h"

#ifdef TASKS_TBB_LIGHT
typedef flow::continue_node<flow::continue_msg, flow::lightweight> node;
#else
typedef flow::continue_node<flow::continue_msg> node;
#endif

struct entry {
    node self;
    int64_t newest = -1; /* successor: a second edge to it says nothing new */
    bool root = true;
    template <typename body> entry(flow::graph &g, body b) : self(g, b)
    {
    }
};

struct batch {
    flow::graph graph;
    std::deque<entry> entries;
};

struct sink {
    size_t size = 4096; /* of a batch */
    uint64_t number = 1;
    batch batches[2]; /* one is built, the other runs */
    uint64_t fresh_memory[FRESH][TILE * TILE];
    tile fresh[FRESH];
};

static void tile_of(tile *t, uint64_t *memory)
{
    *t = {memory, 0, -1, new std::vector<uint32_t>};
}

static void tile_make(tile *t, const data *d, size_t index)
{
    tile_of(t, tile_memory(d, index));
}

static void tile_free(tile *t)
{
    delete t->readers;
}

static void batch_wait(batch *b)
{
    b->graph.wait_for_all();
    b->entries.clear();
}

/* What was being built runs as soon as the other batch is done, which is then the one to build. */
static void batch_turn(sink *s)
{
    batch *ready = &s->batches[s->number % 2];
    s->number++;
    batch_wait(&s->batches[s->number % 2]);
    for (entry &e : ready->entries) {
        if (e.root) {
            e.self.try_put(flow::continue_msg());
        }
    }
}

static void edge(batch *b, int64_t from, int64_t to)
{
    entry &e = b->entries[static_cast<size_t>(from)];
    if (e.newest != to) {
        e.newest = to;
        b->entries.back().root = false;
        flow::make_edge(e.self, b->entries.back().self);
    }
}

static void tile_refresh(tile *t, uint64_t number)
{
    if (t->batch != number) {
        t->batch = number;
        t->writer = -1;
        t->readers->clear();
    }
}

template <typename... reads> INLINE void task_of(sink *s, kind which, tile *w, reads *...r)
{
    batch *b = &s->batches[s->number % 2];
    const int64_t self = static_cast<int64_t>(b->entries.size());
    const uint64_t number = task_number(s);
    struct {
        uint64_t *tiles[sizeof...(r) + 1];
    } memory = {{r->memory..., w->memory}};
    b->entries.emplace_back(b->graph, [which, number, memory](const flow::continue_msg &) {
        body_run(which, number, memory.tiles, sizeof...(r));
    });
    (
        [&] {
            tile_refresh(r, s->number);
            if (r->writer >= 0) {
                edge(b, r->writer, self);
            }
        }(),
        ...);
    tile_refresh(w, s->number);
    /* Readers came after the last writer. */
    for (uint32_t reader : *w->readers) {
        edge(b, reader, self);
    }
    if (w->readers->empty() && w->writer >= 0) {
        edge(b, w->writer, self);
    }
    (r->readers->push_back(static_cast<uint32_t>(self)), ...);
    w->writer = self;
    w->readers->clear();
    if (b->entries.size() == s->size) {
        batch_turn(s);
    }
}

INLINE void task0(sink *s, kind which, tile *w)
{
    task_of(s, which, w);
}

INLINE void task1(sink *s, kind which, tile *a, tile *w)
{
    task_of(s, which, w, a);
}

INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w)
{
    task_of(s, which, w, a, b);
}

INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w)
{
    task_of(s, which, w, a, b, c);
}

INLINE tile *fresh_begin(sink *s, uint64_t n)
{
    return &s->fresh[n % FRESH];
}

INLINE void fresh_end(sink *)
{
}

static void sink_wait(sink *s)
{
    batch_turn(s);
    batch_turn(s);
}

int main(int argc, char **argv)
{
    static sink s;
    const char *size = getenv("TASKS_TBB_BATCH");
    if (size) {
        s.size = strtoull(size, nullptr, 10);
    }
    for (int i = 0; i < FRESH; i++) {
        tile_of(&s.fresh[i], s.fresh_memory[i]);
    }
    const int status = peer_main(&s, argc, argv);
    for (int i = 0; i < FRESH; i++) {
        tile_free(&s.fresh[i]);
    }
    return status;
}
