/* readers.h - who reads memory, and which write has to wait for them: the WAR edges of a trace.
 *
 *     region T, written ──links──> regions A that were read and share a byte with T
 *                                      │ readers, newest first
 *                                      v
 *                                  [9][7][7][2] ...    those after the last write of exactly T
 *
 * A tensor map forgets a read when one write covers it. The border of a stencil is never covered by
 * one write: it would be found by every later write, and the edges would grow with the square of
 * the steps. Here a write of region T finds only the readers since the last write of exactly T. That
 * write covers all bytes that older readers share with T, so it waits for them, and the new write
 * waits for it. So each read has one WAR edge for each region that overwrites it.
 */
#ifndef PTOI_READERS_H
#define PTOI_READERS_H

#include <pto/tensor.h>

typedef struct ptoi_readers ptoi_readers;

/* Receives a task that has to come before the write. */
typedef pto_status (*ptoi_reader_fn)(void *context, uint32_t task);

/* `most` bounds the number of different tensors. */
pto_status ptoi_readers_create(ptoi_readers **readers, uint64_t most, uint64_t budget);
void ptoi_readers_free(ptoi_readers *readers);

/* Visits the readers that a write must wait for. Readers below `low` are left out. */
pto_status ptoi_readers_ask(ptoi_readers *readers, const pto_tensor *t, uint32_t low,
                            ptoi_reader_fn visit, void *context);

/* Records an access. Tasks rise. The writes of a task come before its reads. */
pto_status ptoi_readers_add_write(ptoi_readers *readers, const pto_tensor *t, uint32_t task);
pto_status ptoi_readers_add_read(ptoi_readers *readers, const pto_tensor *t, uint32_t task);

#endif /* PTOI_READERS_H */
