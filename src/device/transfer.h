/* transfer.h - copies of a device that go on while the caller does: from the host, to the host, and
 * within the device. NVIDIA devices make their `copy` and `fill` of these (device/cuda/load.c).
 *
 *     in       host ──pack──> slot ──bus──> stage ──rearrange──> device
 *     out      host <─unpack─ slot <──bus── stage <──rearrange── device
 *     within                                device ──rearrange──> device, or fill
 *
 * A slot is pinned memory of the host. It is left out where the host's side is pinned and dense. The
 * stage is memory of the device, left out where the device's side is dense. A copy is cut into pieces
 * that fit, so the memory of both is bounded, whatever is copied. The dims are taken in the order of
 * the host's strides: a transposed host side is dense then, and the device transposes.
 *
 * Each of the three ways is a lane: a stream of the device, and a thread that belongs to the process.
 * The thread packs, puts pieces on the stream with an event behind each, polls the oldest event,
 * unpacks, and calls `done` when the last piece of a copy has passed.
 *
 *     slots     [ piece | piece | piece |       |       ]     ended <= begun <= ended + SLOTS
 *                 ended ─────────────────> begun               piece n is in slot n % SLOTS
 *
 * All pieces of a lane use one stage: its stream orders them.
 */
#ifndef PTOI_TRANSFER_H
#define PTOI_TRANSFER_H

#include <pto/device.h>

/* What a lane needs of a device. `self` is device.self. A function that fails has said why. */
typedef struct ptoi_transfer_ops {
    pto_device_ops device; /* alloc, free, set_current, streams and events are used */
    pto_device id;
    uint64_t slot_bytes, stage_bytes; /* of each lane */
    uint64_t direct_bytes;            /* at least so many: it is asked whether memory is pinned */
    /* Pinned memory of the host, which is never given back. */
    pto_status (*pin)(void *self, uint64_t bytes, void **memory);
    bool (*is_pinned)(void *self, const void *memory);
    /* Makes a stream wait for operators and copies that the program started outside of tasks. */
    pto_status (*follow)(void *self, void *stream);
    /* Each puts work on a stream: a dense copy from the host (`in`) or to it, a copy between tensors
     * of the device, a fill. */
    pto_status (*carry)(void *self, void *stream, void *to, const void *from, uint64_t bytes,
                        bool in);
    pto_status (*rearrange)(void *self, void *stream, const pto_tensor *to, const pto_tensor *from);
    pto_status (*fill)(void *self, void *stream, const pto_tensor *to, const void *element);
} ptoi_transfer_ops;

typedef struct ptoi_transfer ptoi_transfer;

/* It stays until the process ends, and so does what `ops` points to. Threads, streams and memory are
 * made when a lane is first used. */
pto_status ptoi_transfer_create(const ptoi_transfer_ops *ops, ptoi_transfer **made);

/* As `copy` of pto_device_ops. PTO_NOT_IMPLEMENTED, and nothing has begun: one side is on another
 * device, or elements of the destination share memory. */
pto_status ptoi_transfer_copy(ptoi_transfer *t, const pto_tensor *to, const pto_tensor *from,
                              pto_device_done done, void *context);

/* As `fill` of pto_device_ops. */
pto_status ptoi_transfer_fill(ptoi_transfer *t, const pto_tensor *to, const void *element,
                              pto_device_done done, void *context);

#endif /* PTOI_TRANSFER_H */
