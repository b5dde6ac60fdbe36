/* copy.cu - copies between the host and an NVIDIA GPU. Runs on the host, on any thread.
 *
 * Pinned memory is copied by the GPU itself. Pageable memory goes through a ring of pinned slots: the
 * processor fills or empties one slot while the GPU copies others. Small copies are always staged,
 * because asking whether memory is pinned takes longer than moving it. */
#include "device/cuda/device.cuh"

#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

constexpr uint64_t SMALL = 64 << 10;

/* ---- Slots ------------------------------------------------------------------------------------- */

/* Copies past the caches where that is possible: what comes from the device is not in them, and what
 * is written to would have to be read first. */
static void copy_past_caches(void *to, const void *from, uint64_t bytes)
{
#if defined(__SSE2__)
    char *t = static_cast<char *>(to);
    const char *f = static_cast<const char *>(from);
    const uint64_t head = (0 - reinterpret_cast<uintptr_t>(t)) % 64;
    if (bytes < SMALL) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(t, f, head);
    uint64_t at = head;
    for (; at + 64 <= bytes; at += 64) {
        for (int k = 0; k < 64; k += 16) {
            _mm_stream_si128(reinterpret_cast<__m128i *>(t + at + k),
                             _mm_loadu_si128(reinterpret_cast<const __m128i *>(f + at + k)));
        }
    }
    _mm_sfence();
    memcpy(t + at, f + at, bytes - at);
#else
    memcpy(to, from, bytes);
#endif
}

/* The stream of the slot is done with it: copies to the host are completed. */
static void land(struct slot *slot)
{
    for (uint32_t k = 0; k < slot->n; k++) {
        copy_past_caches(slot->copy[k].to, slot->copy[k].from, slot->copy[k].bytes);
    }
    slot->n = 0;
    slot->used = 0;
    slot->recorded = false;
}

cudaError_t ptoi_cuda_land(ptoi_cuda *device, bool in_progress)
{
    for (int s = in_progress ? OUT : IN; s <= OUT; s++) {
        struct ring *ring = &device->ring[s];
        uint32_t staged = 0;
        for (uint32_t k = 0; k < SLOTS; k++) {
            staged += ring->slot[k].n;
        }
        if (in_progress && staged) {
            cudaError_t e = cudaStreamSynchronize(device->stream[s]);
            if (e) {
                return e;
            }
        }
        for (uint32_t k = 0; ring->memory && k < SLOTS && (staged || !in_progress); k++) {
            land(&ring->slot[k]);
        }
    }
    return cudaSuccess;
}

static cudaError_t make_ring(struct ring *ring)
{
    cudaError_t e = cudaHostAlloc(reinterpret_cast<void **>(&ring->memory),
                                  (size_t)SLOTS * SLOT_BYTES, cudaHostAllocPortable);
    for (uint32_t k = 0; k < SLOTS && !e; k++) {
        ring->slot[k].memory = ring->memory + (size_t)k * SLOT_BYTES;
        e = cudaEventCreateWithFlags(&ring->slot[k].passed, cudaEventDisableTiming);
    }
    return e;
}

/* A place for `bytes`, at most SLOT_BYTES, in a slot whose event has passed. */
static cudaError_t take(ptoi_cuda *device, int s, uint64_t bytes, struct slot **out, char **place)
{
    struct ring *ring = &device->ring[s];
    cudaError_t e = ring->memory ? cudaSuccess : make_ring(ring);
    struct slot *slot = &ring->slot[ring->at];
    if (!e && (slot->used + bytes > SLOT_BYTES || slot->n == SLOT_COPIES)) {
        e = cudaEventRecord(slot->passed, device->stream[s]);
        slot->recorded = true;
        ring->at = (ring->at + 1) % SLOTS;
        slot = &ring->slot[ring->at];
        if (!e && slot->recorded) {
            e = cudaEventSynchronize(slot->passed);
        }
        if (!e) {
            land(slot);
        }
    }
    *out = slot;
    *place = slot->memory + slot->used;
    slot->used += e ? 0 : (bytes + 255) / 256 * 256;
    return e;
}

static cudaError_t stage_in(ptoi_cuda *device, char *to, const char *from, uint64_t bytes)
{
    cudaError_t e = cudaSuccess;
    for (uint64_t at = 0; at < bytes && !e; at += SLOT_BYTES) {
        const uint64_t part = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        struct slot *slot;
        char *place;
        e = take(device, IN, part, &slot, &place);
        if (!e) {
            memcpy(place, from + at, part);
            e = cudaMemcpyAsync(to + at, place, part, cudaMemcpyHostToDevice, device->stream[IN]);
        }
    }
    return e;
}

static cudaError_t stage_out(ptoi_cuda *device, char *to, const char *from, uint64_t bytes)
{
    cudaError_t e = cudaSuccess;
    for (uint64_t at = 0; at < bytes && !e; at += SLOT_BYTES) {
        const uint64_t part = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        struct slot *slot;
        char *place;
        e = take(device, OUT, part, &slot, &place);
        if (!e) {
            e = cudaMemcpyAsync(place, from + at, part, cudaMemcpyDeviceToHost,
                                device->stream[OUT]);
            slot->copy[slot->n++] = {to + at, place, part};
        }
    }
    return e;
}

/* ---- Copies ------------------------------------------------------------------------------------ */

/* Whether the GPU can copy that memory of the host by itself. */
bool ptoi_cuda_is_pinned(void *, const void *memory)
{
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return attributes.type != cudaMemoryTypeUnregistered;
}

static pto_status copy(ptoi_cuda *device, int s, void *to, const void *from, uint64_t bytes)
{
    const char *what = s == IN ? "copy to the device" : "copy to the host";
    const bool pinned = bytes > SMALL && ptoi_cuda_is_pinned(device, s == IN ? from : to);
    pthread_mutex_lock(&device->lock);
    pto_status status = ptoi_cuda_begin(device, what, nullptr, bytes);
    if (!status) {
        cudaError_t e = ptoi_cuda_order(device, s);
        if (!e && pinned) {
            e = cudaMemcpyAsync(to, from, bytes,
                                s == IN ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                device->stream[s]);
        } else if (!e && s == IN) {
            e = stage_in(device, static_cast<char *>(to), static_cast<const char *>(from), bytes);
        } else if (!e) {
            e = stage_out(device, static_cast<char *>(to), static_cast<const char *>(from), bytes);
        }
        status = e ? ptoi_cuda_error(device, e, what) : PTO_OK;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

pto_status ptoi_cuda_copy_in(void *self, void *to, const void *from, uint64_t bytes)
{
    return copy(static_cast<ptoi_cuda *>(self), IN, to, from, bytes);
}

pto_status ptoi_cuda_copy_out(void *self, void *to, const void *from, uint64_t bytes)
{
    return copy(static_cast<ptoi_cuda *>(self), OUT, to, from, bytes);
}

/* ---- Copies on other streams ------------------------------------------------------------------- */

/* Runs a call with the lock, unless the device is lost. */
template <typename F> static pto_status attempt(void *self, const char *what, F call)
{
    ptoi_cuda *device = static_cast<ptoi_cuda *>(self);
    pthread_mutex_lock(&device->lock);
    pto_status s = PTO_OK;
    if (device->lost[0]) {
        s = device->fail(PTO_DEVICE_LOST, "%s", device->lost);
    } else {
        const cudaError_t e = call(device);
        s = e ? ptoi_cuda_error(device, e, what) : PTO_OK;
    }
    pthread_mutex_unlock(&device->lock);
    return s;
}

pto_status ptoi_cuda_pin(void *self, uint64_t bytes, void **memory)
{
    return attempt(self, "pinned memory of the host", [&](ptoi_cuda *) {
        return cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
    });
}

pto_status ptoi_cuda_follow(void *self, void *stream)
{
    return attempt(self, "a copy", [&](ptoi_cuda *device) {
        cudaError_t e = cudaSuccess;
        for (int s = 0; s < STREAMS && !e; s++) {
            if (device->busy[s]) {
                e = cudaEventRecord(device->event[s], device->stream[s]);
                e = e ? e
                      : cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), device->event[s], 0);
            }
        }
        return e;
    });
}

pto_status ptoi_cuda_carry(void *self, void *stream, void *to, const void *from, uint64_t bytes,
                           bool in)
{
    return attempt(self, in ? "copy to the device" : "copy to the host", [&](ptoi_cuda *) {
        return cudaMemcpyAsync(to, from, bytes,
                               in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                               static_cast<cudaStream_t>(stream));
    });
}
