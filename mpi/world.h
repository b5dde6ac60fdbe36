/* world.h - what the files of libpto-mpi share: one rank of a world. docs/mpi.md has the invariants M1
 * to M7.
 *
 *     tensor.c    distributed tensors and temporaries, tiles and their owners            M1, M3
 *     view.c      views -> pieces of tiles
 *     share.c     contents of the shares of the cache, computed on both ends             M5
 *     message.c   messages as tasks                                                      M6
 *     progress.c  completing messages
 *     tell.c      what blocked and broken ranks tell each other
 *     plan.c      where a task runs, what it needs, what is refused                      M2, M4
 *     scratch.c   memory for dense copies
 *     stage.c     tensors in memory of a device
 *     carry.c     a rank's part of a plan: messages, copies, the task                    M4
 *     submit.c    submitting a task
 *     pass.h      tasks of other ranks, cheaply
 *     only.c      ranges of calls that concern some ranks only
 *     transfer.c  read, gather, scatter
 *     tree.c      one piece to many ranks                                                M7
 *     trace.c     one trace of all ranks
 *     history.c   the rolling hash, and what blocked ranks tell each other
 *     join.c      how a rank joins a world
 *     world.c     life, agreement between all ranks, failures
 *
 * Threads. The orchestrating thread owns everything but what is marked [lock]: that belongs to whoever
 * holds `mpi_lock`, the mutex around all calls of MPI, of all worlds of the process. Fields marked [atomic] name their own readers.
 */
#ifndef PTO_MPI_WORLD_H
#define PTO_MPI_WORLD_H

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/embed.h>
#include <pto/mpi.h>
#include <pto/work.h>

enum {
    MPI_TEXT = 600,       /* bytes of an error text */
    MPI_HISTORY = 4096,   /* steps that a rank remembers; a power of two */
    MPI_TOLD = 24,        /* of these, how many it tells others at a time */
    MPI_MARKS = 32768,    /* steps before these of which it remembers some, */
    MPI_MARK_EVERY = 16,  /* at first one of so many calls; a power of two */
    MPI_MOST_PARAMS = 64, /* of one task */
    MPI_MOST_PIECES = 16, /* of one message */
    MPI_ALIGN = 64,
    MPI_MEMO = 8192, /* views in one tile whose tile is remembered; a power of two */
    MPI_MEMO_DIMS = 3,
    MPI_DEVICES = 8,  /* on which a world can have tensors */
    MPI_KERNELS = 64, /* whose hash is remembered; a power of two */
};

/* Largest piece that one message can carry: MPI counts in int. */
#define MPI_MOST_BYTES (UINT64_C(1) << 30)

/* ---- Objects: distributed tensors and temporaries ---------------------------------------------- */

/* What the view of a whole tile of a matrix looks like: see whole_tile. `kind` is zero for all others, and no
 * tensor is like that. */
typedef struct tile_view {
    uint64_t storage, kind; /* kind: ndim and dtype */
    uint64_t rows, columns, stride;
    uint64_t pitch, per_pitch,
        half_pitch; /* elements from a row of tiles to the next; 2^64 / pitch */
    uint64_t per_columns, half_columns;
    uint64_t full[2]; /* tiles of full size */
    uint64_t across;  /* tiles in a row of tiles */
    uint64_t hash;    /* of its first tile */
    /* Of each tile, as in the object. */
    const int32_t *home;
    uint64_t *version;
    const uint32_t *mark;
} tile_view;

typedef struct twins twins;

typedef struct object {
    uint64_t id;         /* in order of creation, the same on all ranks */
    struct object *next; /* in a chain of the table */
    uint64_t key;        /* address that stands for the tensor, or record of the managed buffer */
    bool temp;
    uint64_t owner;      /* of a temporary's buffer, */
    uint32_t generation; /* and its generation */
    pto_dtype dtype;
    int32_t ndim;
    uint64_t element;
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS]; /* logical, dense */
    int64_t tile[PTO_MAX_DIMS], tiles[PTO_MAX_DIMS];    /* size of a tile, number of tiles */
    int64_t n_tiles;
    tile_view whole;
    int32_t *home;     /* M1, of each tile; -1: a temporary that was not written */
    uint64_t *version; /* M3, of each tile */
    uint32_t *mark;    /* of each tile: in which range it may be used, see only.c; NULL: none yet */
    uint64_t born;     /* of a temporary: the range in which it was made; 0: none */
    int32_t grid[PTO_MAX_DIMS]; /* block-cyclic over these ranks; zero: owners are listed */
    int64_t *at;                /* of each tile: offset in `memory`, or -1 */
    char *memory;               /* of the own tiles; on a device it is that of `held` */
    uint64_t bytes;
    twins *twins; /* of the device that it lies on; NULL: the host */
    pto_tensor held;
} object;

/* A part of a view that lies in one tile: a box. `from` is its first index in the view. */
typedef struct piece {
    object *o;
    int64_t tile;
    int64_t offset;      /* of its first element in the tile, in elements */
    uint64_t tile_bytes; /* of the whole tile */
    int32_t ndim;
    int64_t from[PTO_MAX_DIMS];
    int64_t shape[PTO_MAX_DIMS];
    int64_t strides[PTO_MAX_DIMS]; /* in the tile */
} piece;

/* A parameter of a task, in pieces. */
typedef struct view {
    object *o; /* NULL: plain */
    const pto_tensor *t;
    uint64_t bytes; /* of a dense copy */
    uint32_t n;     /* pieces; 0: no elements */
    bool repeats;   /* two of its indices are one element */
    piece *pieces;
} view;

/* A view that lies in one tile, and its piece. Programs use the same views again and again. */
typedef struct memo {
    const void *storage;
    int64_t offset;
    int32_t ndim;
    pto_dtype dtype;
    int64_t shape[MPI_MEMO_DIMS], strides[MPI_MEMO_DIMS];
    int32_t home;
    uint64_t *version; /* of the tile */
    uint64_t hash;     /* view_hash */
    object *o;
    int64_t tile, at; /* at: of its first element in the tile, in elements */
    bool repeats;
    uint64_t bytes, tile_bytes;
    int64_t local[MPI_MEMO_DIMS]; /* strides in the tile */
} memo;

static inline int piece_home(const piece *p)
{
    return p->o->home[p->tile];
}

static inline uint64_t piece_bytes(const piece *p)
{
    uint64_t n = p->o->element;
    for (int32_t d = 0; d < p->ndim; d++) {
        n *= (uint64_t)p->shape[d];
    }
    return n;
}

/* n / d, where per is (2^64 - 1) / d: right if n mod d is neither close to 0 nor to d. Elsewhere it may be
 * off by one. */
static inline uint64_t divide_about(uint64_t n, uint64_t per)
{
    return (uint64_t)((unsigned __int128)n * per >> 64);
}

/* Whether a view of a matrix is a whole tile of full size, and its number. Most parameters are, and these
 * must be cheap: no division, no table.
 *
 *     offset = i * pitch + j * columns      i < full[0], j < full[1]: there is one such pair at most
 *
 * So i and j may be guessed, as long as they are checked. Half a tile is added before the division, which
 * then is far from the next number. */
static inline bool whole_tile(const tile_view *w, const pto_tensor *t, uint64_t *tile)
{
    uint64_t kind;
    memcpy(&kind, &t->ndim, sizeof kind); /* ndim and dtype */
    const uint64_t differs = ((uintptr_t)t->storage ^ w->storage) | t->owner | (kind ^ w->kind) |
                             ((uint64_t)t->shape[0] ^ w->rows) |
                             ((uint64_t)t->shape[1] ^ w->columns) |
                             ((uint64_t)t->strides[0] ^ w->stride) | ((uint64_t)t->strides[1] ^ 1);
    const uint64_t offset = (uint64_t)t->offset;
    const uint64_t i = divide_about(offset + w->half_pitch, w->per_pitch);
    const uint64_t rest = offset - i * w->pitch;
    const uint64_t j = divide_about(rest + w->half_columns, w->per_columns);
    *tile = i * w->across + j;
    return !(differs | (rest ^ j * w->columns)) && i < w->full[0] && j < w->full[1];
}

/* What a whole tile adds to the hash of a call: view_hash of the same view. */
static inline uint64_t tile_hash(const tile_view *w, uint64_t tile)
{
    return w->hash + tile;
}

/* ---- Ranges (pto_mpi_only) ------------------------------------------------------------------------ */

enum { ONLY_MOST = 8 }; /* views that a range declares */

/* Tiles from <= index < to. */
typedef struct tile_box {
    object *o;
    int64_t from[PTO_MAX_DIMS], to[PTO_MAX_DIMS];
    uint32_t writes; /* 0 or 1 */
} tile_box;

typedef struct range {
    bool open;
    uint32_t n;
    tile_box boxes[ONLY_MOST];
    uint32_t serial; /* of 31 bits */
    uint64_t step, hash;
    const char *file;
    int line;
    uint64_t sum; /* of what the ranks of all ranges since the last wait did: see add_to_sum */
} range;

/* ---- Shares (M5) --------------------------------------------------------------------------------- */

typedef struct share_entry {
    uint64_t object;
    int64_t tile, offset;
    uint64_t version, bytes, at; /* at: place in the share */
    uint64_t step;               /* the last step that used it */
    uint64_t hash;
    uint32_t next; /* in the chain of its bucket; an index, UINT32_MAX: none */
    int32_t ndim;
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
} share_entry;

/* Pieces of one rank in the cache of another. Entries are a queue, oldest first: entry n is at n mod
 * capacity. Their places in the share follow each other, with one gap at its end. */
typedef struct share {
    uint64_t bytes;      /* of the share */
    uint64_t head;       /* where the next piece goes */
    uint64_t peak;       /* bytes that were ever used */
    uint64_t first, end; /* numbers of the oldest entry, and of the next one */
    uint32_t capacity;   /* of entries; a power of two */
    share_entry *entries;
    uint32_t *buckets; /* as many */
    char *memory;      /* on the reader; on the owner if it has sent pieces of a device */
} share;

/* Bytes of dropped pieces that the new one does not cover; none if equal. A failed message may have left
 * them poisoned, so the reader heals them. */
typedef struct share_left {
    uint64_t low, high;
} share_left;

/* The place of a piece that was brought into a share. */
typedef struct share_find {
    bool hit;
    uint64_t at;
    share_left here, behind; /* where the piece is, and at the end of the share */
} share_find;

pto_status share_init(share *s, uint64_t bytes);
void share_free(share *s);
void share_clear(share *s);
/* Brings the pieces of one step into the share, in order. False if they do not fit. */
bool share_take(share *s, const piece *const *pieces, uint32_t n, uint64_t step, share_find *found,
                uint64_t *dropped);

/* ---- Messages ------------------------------------------------------------------------------------ */

typedef struct world world;
typedef struct trace_keeper trace_keeper;

typedef struct message {
    world *w;
    struct message *next; /* in the list of free ones [lock] */
    int peer, tag;
    bool sends;
    bool meets; /* a send that passes only when its receive is posted */
    /* Set by the kernel of a send, read by the task behind it, which the runtime orders after it. */
    bool ran;
    bool empty; /* sent by the task behind; [lock] */
    pto_task task;
    char flag[8]; /* memory that orders the send and the task behind it; nobody reads it */
} message;

/* A pair of this rank and another. */
typedef struct peer {
    share in;             /* pieces of the peer, in our cache */
    share out;            /* pieces of ours, in the cache of the peer */
    uint64_t n_in, n_out; /* messages so far (M6) */
    /* Tasks of the messages whose tags come next, so that a tag is not used twice at a time. */
    pto_task *in_tasks, *out_tasks;
} peer;

/* Scratch memory: a ring like a share, of which only this rank knows. `what` tells how the block of a
 * task was written: a block in the same place that is written in the same way heals by itself. */
typedef struct scratch_block {
    uint64_t at, bytes, what;
} scratch_block;

typedef struct scratch {
    uint64_t bytes, head, peak;
    uint64_t first, end; /* numbers of the oldest block, and of the next one */
    uint32_t capacity;   /* a power of two */
    scratch_block *blocks;
    char *memory;
} scratch;

/* What a rank has on a device beside tiles, see stage.c. No address: it was not needed yet. */
struct twins {
    pto_device device;
    pto_tensor scratch; /* a twin of scratch.memory */
    pto_tensor *in;     /* of each rank: a twin of peer.in.memory */
};

/* ---- History ------------------------------------------------------------------------------------- */

typedef struct told {
    uint64_t step, hash;
    int32_t line;
    char file[52]; /* the end of its name */
} told;

/* What a rank says about itself when it is blocked, or cannot go on. Less than MPI sends at once. */
typedef struct report {
    int32_t status, rank;
    char text[MPI_TEXT];
    uint32_t n; /* steps, in order */
    told steps[MPI_TOLD];
} report;

/* A report on its way: MPI reads it. */
typedef struct kept {
    struct kept *next;
    int to, tag;
    MPI_Request request;
    struct report report;
} kept;

/* What all ranks tell each other in a wait. */
typedef struct agreement {
    uint64_t step, hash; /* of the call */
    uint64_t inside;     /* range.sum: zero, summed over all ranks */
    uint64_t failed;     /* order of the first failure or refusal of the rank, or UINT64_MAX */
    int32_t status;      /* its status */
    char text[MPI_TEXT];
} agreement;

/* Steps have numbers of two parts: calls, and within a range of pto_mpi_only the calls that its ranks make.
 * Ranks that do not walk through the range have no such calls, and the next call has the same number
 * everywhere.
 *
 *     call 7          7 << STEP_BITS
 *     inside of 7     7 << STEP_BITS | 1, 2 ...; the end of the range is the last of them
 *     call 8          8 << STEP_BITS
 */
enum { STEP_BITS = 24 };
#define STEP_CALL (UINT64_C(1) << STEP_BITS)
#define STEP_INSIDE (STEP_CALL - 1)

typedef struct history_item {
    atomic_uint_fast64_t step, hash;
    _Atomic(const char *) file;
    atomic_int line;
} history_item;

/* The last steps, and some of those before: a rank may be blocked long before a step at which others are by now.
 *
 *     agreed           marks, every 16 calls or more               the last steps, all of them
 *     |                |     |     |     |     |     |     |     | | | | | | | | | | | |  step
 *
 * Written by the orchestrating thread alone: an item, then `count` with release. The progress
 * thread reads `count` with acquire, an item, and `count` again: an item that is MPI_HISTORY items old may
 * have been replaced meanwhile. Item n is of[n & (MPI_HISTORY - 1)]; their steps rise.
 *
 * Marks are calls whose number is a multiple of a power of two, the same calls on all ranks. If there are too many, every
 * second one goes, under an odd `epoch`; the progress thread reads `epoch` before and after. In a wait all ranks agree on
 * the hash, so what was before is not needed any more. */
typedef struct history {
    atomic_uint_fast64_t count, agreed, n_marks, epoch;
    uint64_t step;       /* the last one; this and the rest is the orchestrating thread's own */
    uint64_t stride;     /* from one to the next: STEP_CALL, or 1 inside of a range */
    uint64_t hash;       /* of all steps; inside of a range: of the steps since it began, too */
    uint64_t mask;       /* a step that has none of these bits is marked */
    history_item *marks; /* MPI_MARKS of them; published by n_marks. NULL: none yet */
    history_item of[MPI_HISTORY];
} history;

/* Which local tasks belong to which step: tasks below `order` and not below that of the item before. */
typedef struct step_order {
    uint64_t order, step;
} step_order;

/* What a kernel adds to the hash of a call. A handle only says which kernel was registered first, so the name counts as
 * well: ranks that register theirs in another order run different programs. */
typedef struct kernel_known {
    pto_kernel kernel;
    uint64_t hash;
} kernel_known;

/* ---- The world ------------------------------------------------------------------------------------ */

struct world {
    world *next; /* in the list of worlds of the process */
    bool free;   /* it has ended, and nobody needs it: under the lock of that list */
    /* NULL: the world has ended. Written by its orchestrating thread; others read it in world_of. */
    _Atomic(pto_runtime *) rt;
    int rank, ranks;
    bool counting; /* no MPI, no kernels: what rank `rank` would do is counted */
    uint32_t spin; /* polls without a message before the orchestrating thread may sleep */
    int cores;     /* for each rank of this machine, beside its threads; negative: too few */
    uint64_t cache_bytes;
    uint64_t small_bytes; /* of a piece that may share a message with others */
    MPI_Comm data, control;
    int tags; /* range of tags */

    pto_kernel send, behind, receive, scrub;
    kernel_known kernels[MPI_KERNELS]; /* by the low bits of the handle */

    /* objects */
    object **table;
    uint32_t buckets, n_objects;
    uint64_t next_id;
    object *last;    /* found last; NULL: none */
    tile_view whole; /* of the matrix found last */
    range only;
    memo *memo;        /* MPI_MEMO items, by storage and offset; NULL: none yet */
    struct plan *plan; /* of the call that is being made */
    agreement *told;   /* of a wait in which the world broke; never freed */
    char *zone;        /* addresses that stand for distributed tensors: no access */
    uint64_t zone_bytes, zone_used, zone_first; /* first: where those of this world begin */
    peer *peers;
    scratch scratch;
    twins twins[MPI_DEVICES];
    int n_twins;
    pto_mpi_stats stats;
    const char *file; /* of the call that is being made; not of tasks that are passed by */
    int line;
    pto_status refused;
    uint64_t refused_step;
    char refused_text[MPI_TEXT];
    step_order *orders;
    size_t n_orders, room_orders;
    trace_keeper *trace;  /* NULL: not all ranks are traced */
    uint64_t traced_step; /* the last step that was noted in the trace */

    pthread_cond_t wake;
    pthread_t progress;
    bool stop;                  /* [lock] */
    bool asleep;                /* [lock] the progress thread waits for `wake` */
    MPI_Request *requests;      /* [lock] under way */
    message **active;           /* [lock] of the same numbers */
    int *done;                  /* of the progress thread */
    int n_active, room;         /* [lock] */
    unsigned round;             /* [lock] which requests are tested next, if there are many */
    message *spare;             /* [lock] */
    kept *kept;                 /* [lock] */
    int ended;                  /* [lock] other ranks whose process ends */
    history history;            /* see above */
    char broken_text[MPI_TEXT]; /* [lock] why the world is broken: the first reason wins */
    pto_status broken_status;   /* [lock] */
    atomic_bool broken;         /* stored under the lock after the text; read by all threads */
    /* The orchestrating thread waits (1) or not (0): stored by its hooks, read by the progress thread,
     * which only guesses by it whether the rank is blocked. */
    atomic_int waiting;
    atomic_uint_fast64_t passed; /* messages that have passed: counted by whoever completes them */
    atomic_uint_fast64_t polls;  /* by the orchestrating thread; the progress thread reads it */
    /* The orchestrating thread has polled in vain and goes to sleep, so its core is free for the progress thread, which
     * alone can wake it. Stored by the orchestrating thread, and cleared by the progress thread when a message has
     * passed. A guess: if it is wrong, messages are noticed later, or a kernel is disturbed. */
    atomic_bool dozing;
    struct {
        uint32_t idle;    /* polls since the last message */
        uint32_t submits; /* since the last poll, modulo */
        uint64_t passed;
    } poll;
};

/* tensor.c and view.c */
/* Whether an address stands for a tensor of some world, that may have ended. */
bool zone_has(const void *address);
object *object_find(world *w, const pto_tensor *t);
pto_status view_resolve(world *w, const char *who, const pto_tensor *t, piece *first, view *v);
void view_free(view *v, const piece *first);
/* The tensor of a piece at home: the memory of its tile, or of the temporary. */
pto_tensor piece_tensor(const view *v, const piece *p);
/* A dense tensor of the shape of a piece over some memory; and the part of a dense tensor of the shape of
 * the whole view that the piece is. */
pto_tensor piece_dense(const view *v, const piece *p, char *memory);
pto_tensor piece_part(const view *v, const piece *p, char *memory);
void objects_free(world *w);
/* What a view adds to the hash of a call. */
uint64_t view_hash(const object *o, const pto_tensor *t);
const memo *memo_find(const world *w, const pto_tensor *t); /* NULL: not known */
/* Whether a tensor is of this object. */
static inline bool object_is(const object *o, const pto_tensor *t)
{
    return o->temp ? o->owner == t->owner && o->generation == t->generation && t->owner
                   : o->key == (uint64_t)(uintptr_t)t->storage && !t->owner;
}

/* Where its tiles lie. */
static inline pto_device object_device(const object *o)
{
    return o->twins ? o->twins->device : (pto_device){0};
}

/* tensor.c, for view.c */
int64_t tile_size(const object *o, int32_t d, int64_t index);
void tile_index(const object *o, int64_t tile, int64_t *index);

/* message.c */
pto_status message_register(world *w); /* the kernels of messages */
pto_status message_start(world *w);    /* the progress thread */
void message_stop(world *w);
/* Submits a message to another rank, or from there: n pieces, up to MPI_MOST_PIECES, in order. If one of them is
 * poisoned, all of them are for the receiver. */
pto_status message_send_all(world *w, int to, const pto_tensor *list, uint32_t n, const char *file,
                            int line);
pto_status message_receive_all(world *w, int from, const pto_tensor *list, uint32_t n,
                               const char *file, int line);

static inline pto_status message_send(world *w, int to, const pto_tensor *t, const char *file,
                                      int line)
{
    return message_send_all(w, to, t, 1, file, line);
}

static inline pto_status message_receive(world *w, int from, const pto_tensor *t, const char *file,
                                         int line)
{
    return message_receive_all(w, from, t, 1, file, line);
}
/* Submits a task that writes a tensor of bytes, so that no failure of an earlier user of them is left. */
pto_status message_scrub(world *w, const pto_tensor *t, const char *file, int line);

void message_spare(world *w, message *m);               /* under the lock */
pto_status message_explain(int code, const char *what); /* an error of MPI */

/* stage.c. Finds what the world has on a device, or begins to use it; NULL: the host. And frees all of it. */
pto_status stage_open(world *w, pto_device device, twins **found);
void stage_close(world *w);

/* progress.c. The thread, and the orchestrating thread while it waits (pto_set_poll). */
void *progress_main(void *of);
bool progress_poll(void *of);

/* tell.c, under the lock. */
enum { TAG_BLOCKED = 1, TAG_BROKEN = 2, TAG_ENDED = 3 };
void tell_stop(world *w); /* before the end of a world that is not broken */
void tell_all(world *w, int tag, const report *r);
/* Tells all ranks that this one is blocked, but those that have not yet heard it the last time. */
void tell_blocked(world *w, const report *r);
/* Reads what other ranks say about themselves. */
void tell_listen(world *w);
/* The process ends: tells all ranks of a broken world. Whether all of them have said so. */
void tell_ended(world *w);
bool tell_all_ended(world *w);
/* Tells all ranks all steps that this one remembers: something differs, and nobody knows where. */
void tell_everything(world *w);

/* trace.c. All ranks are traced: joins their traces, collective. And leaves, collective unless broken. */
pto_status trace_join(world *w);
void trace_leave(world *w, bool broken);
void trace_note_step(world *w);
void trace_note_message(world *w, bool sends, int other, uint64_t number, pto_task task);

/* Before the tasks of a step. */
static inline void trace_step(world *w)
{
    if (w->trace) {
        trace_note_step(w);
    }
}

/* join.c. Collective. `ready`: whether this rank can join, as far as it knows alone; its text is the error detail. */
pto_status join_connect(world *w, const pto_mpi_config *config, pto_status ready);

/* world.c */
/* Around every call of MPI: MPI_THREAD_SERIALIZED counts for the whole process. */
extern pthread_mutex_t mpi_lock;
world *world_search(const pto_runtime *rt);
/* The world found last: written and read by all orchestrating threads, each of which checks what it finds. A
 * world is never freed, see pto_mpi_destroy. (Not a variable of the thread: in a shared library that is a
 * call.) */
extern _Atomic(world *) world_recent;

static inline world *world_of(const pto_runtime *rt)
{
    world *w = atomic_load_explicit(&world_recent, memory_order_acquire);
    return w && atomic_load_explicit(&w->rt, memory_order_relaxed) == rt ? w : world_search(rt);
}

/* Whether this thread may submit, and is not inside of a kernel that runs in another call. Tasks of other ranks never
 * get to the runtime, which would know; and it would know too late, since calls of this library do not nest. */
pto_status world_wrong_thread(const char *who);

static inline pto_status world_check_thread(const world *w, const char *who)
{
    return __builtin_expect(pto_may_call(w->rt), 1) ? PTO_OK : world_wrong_thread(who);
}

/* Whether this thread may make a call that waits for MPI: not while it holds the lock; and if so, not in a kernel.
 * Or the world is broken. */
pto_status world_without_lock(const char *who);
pto_status world_may(const world *w, const char *who);
/* At the beginning of a call. */
pto_status world_enter(world *w, const char *who, const char *file, int line);
/* Refuses a call; all ranks that it concerns do the same. Remembered until acknowledged. */
pto_status world_refuse(world *w, pto_status status, const char *format, ...) PTO_PRINTF(3, 4);
/* Remembers a refusal whose text is already the error detail. */
pto_status world_refused(world *w, pto_status status);
/* Breaks the world: this rank cannot do what others rely on. Tells them. */
pto_status world_break(world *w, pto_status status, const char *format, ...) PTO_PRINTF(3, 4);
/* Breaks it because this rank was cancelled: tasks that others wait for were skipped, and so were their messages. */
pto_status world_cancelled(world *w);
/* Breaks it because of what another rank said. Under the lock. */
void world_broken_by(world *w, pto_status status, const char *text);
pto_status world_is_broken(world *w); /* the error */
/* MPI is finalized: ends all ranks if a world is alive, since its threads would call MPI after that. The second one sees to
 * it that the first is called, under the lock: attributes of MPI_COMM_SELF are deleted then. */
void worlds_finalize(void);
void world_watch_finalize(void);
/* Reserves memory that costs nothing until it is used. */
char *world_reserve(uint64_t bytes);

/* history.c. Describes the last steps; or some from step `low` to step `high`, with both. */
void history_report_last(const world *w, report *r);
/* Up to MPI_TOLD steps behind `item`, without gaps; returns the last one. 0: there is no more. */
uint64_t history_report_next(const world *w, uint64_t item, report *r);
void history_report(const world *w, uint64_t low, uint64_t high, report *r);
/* Whether another rank made different calls. The two agreed at *low and differ at *high. *next: this rank
 * made no call in between. The text names both lines of *high. */
bool history_differs(const world *w, const report *other, uint64_t *low, uint64_t *high, bool *next,
                     char *text, size_t bytes);

/* Remembers a step for longer. */
void history_mark(world *w, uint64_t step, const char *file, int line);
/* All ranks have agreed on all steps so far; also at the beginning. */
void history_agree(world *w);

static inline uint64_t hash_mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

/* A step begins: `hash` of the call. */
static inline uint64_t history_step(world *w, uint64_t hash, const char *file, int line)
{
    history *h = &w->history;
    const uint64_t n = atomic_load_explicit(&h->count, memory_order_relaxed) + 1;
    const uint64_t step = h->step + h->stride;
    const size_t i = n & (MPI_HISTORY - 1);
    h->step = step;
    h->hash = hash_mix(h->hash, hash);
    atomic_store_explicit(&h->of[i].step, step, memory_order_relaxed);
    atomic_store_explicit(&h->of[i].hash, h->hash, memory_order_relaxed);
    atomic_store_explicit(&h->of[i].file, file, memory_order_relaxed);
    atomic_store_explicit(&h->of[i].line, line, memory_order_relaxed);
    atomic_store_explicit(&h->count, n, memory_order_release);
    if (__builtin_expect(!(step & h->mask), 0)) {
        history_mark(w, step, file, line);
    }
    return step;
}

/* only.c. Refuses a call that all ranks must make, inside of a range. */
pto_status only_refuses(world *w, const char *who);
/* Whether a rank walks through the open range. True if there is none. */
bool only_walks(const world *w, int rank);

/* submit.c. Ends a call that has begun to submit: other ranks rely on it. */
pto_status submit_finish(world *w, pto_status status, const char *who, const char *file, int line);
void submit_remember_order(world *w);

static inline pto_status world_check(world *w)
{
    return atomic_load_explicit(&w->broken, memory_order_acquire) ? world_is_broken(w) : PTO_OK;
}

#endif /* PTO_MPI_WORLD_H */
