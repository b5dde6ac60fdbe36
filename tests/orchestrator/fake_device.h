/* fake_device.h - a device without a copy function: dense bytes in and out. It allocates host memory,
 * detects every wrong use of it, and can delay its copies as long as the rules allow. One thread at a
 * time copies: that of its ACCELERATOR worker, or one that waits for it. */
#ifndef PTO_TEST_FAKE_DEVICE_H
#define PTO_TEST_FAKE_DEVICE_H

#include <pthread.h>

#include <pto/execute.h>

#include "../tensor/tensors.h"

enum { FAKE_BLOCKS = 64, FAKE_COPIES = 64 };

typedef struct fake_device {
    /* what the test wants */
    bool late; /* copies are carried out by synchronize */

    /* what has happened */
    uint64_t allocs, frees, copies_in, copies_out, synchronizes;
    uint32_t n_blocks, n_copies;
    struct {
        void *memory;
        uint64_t bytes;
    } blocks[FAKE_BLOCKS]; /* allocated */
    struct {
        void *to;
        const void *from;
        uint64_t bytes;
    } copies[FAKE_COPIES]; /* not carried out yet */
} fake_device;

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER; /* of all fakes */

/* The device that set_current last named, on this thread. */
static _Thread_local fake_device *fake_current;

static inline pto_status fake_set_current(void *self)
{
    fake_current = self;
    return PTO_OK;
}

static inline pto_status fake_synchronize(void *self)
{
    fake_device *fake = self;
    assert_ptr_equal(fake_current, fake);
    pthread_mutex_lock(&fake_lock);
    fake->synchronizes++;
    for (uint32_t i = 0; i < fake->n_copies; i++) {
        memcpy(fake->copies[i].to, fake->copies[i].from, fake->copies[i].bytes);
    }
    fake->n_copies = 0;
    pthread_mutex_unlock(&fake_lock);
    return PTO_OK;
}

static inline pto_status fake_alloc(void *self, uint64_t bytes, void **memory)
{
    fake_device *fake = self;
    assert_ptr_equal(fake_current, fake);
    assert_true(bytes > 0);
    pthread_mutex_lock(&fake_lock);
    fake->allocs++;
    assert_true(fake->n_blocks < FAKE_BLOCKS);
    *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
    assert_non_null(*memory);
    memset(*memory, 0xee, bytes < 4096 ? bytes : 4096);
    fake->blocks[fake->n_blocks].memory = *memory;
    fake->blocks[fake->n_blocks++].bytes = bytes;
    pthread_mutex_unlock(&fake_lock);
    return PTO_OK;
}

static inline void fake_free(void *self, void *memory, uint64_t bytes)
{
    fake_device *fake = self;
    uint32_t i = 0;
    assert_ptr_equal(fake_current, fake);
    pthread_mutex_lock(&fake_lock);
    assert_int_equal(fake->n_copies, 0); /* no copy to or from it is outstanding */
    while (i < fake->n_blocks && fake->blocks[i].memory != memory) {
        i++;
    }
    assert_true(i < fake->n_blocks);
    assert_int_equal(fake->blocks[i].bytes, bytes);
    fake->blocks[i] = fake->blocks[--fake->n_blocks];
    fake->frees++;
    pthread_mutex_unlock(&fake_lock);
    free(memory);
}

/* Whether `bytes` from `at` on are in memory of the device. */
static inline bool fake_owns(const fake_device *fake, const void *at, uint64_t bytes)
{
    for (uint32_t i = 0; i < fake->n_blocks; i++) {
        const char *low = fake->blocks[i].memory, *here = at;
        if (here >= low && here + bytes <= low + fake->blocks[i].bytes) {
            return true;
        }
    }
    return false;
}

static inline void fake_copy(fake_device *fake, void *to, const void *from, uint64_t bytes)
{
    assert_ptr_equal(fake_current, fake);
    assert_true(bytes > 0);
    if (!fake->late) {
        memcpy(to, from, bytes);
        return;
    }
    assert_true(fake->n_copies < FAKE_COPIES);
    fake->copies[fake->n_copies].to = to;
    fake->copies[fake->n_copies].from = from;
    fake->copies[fake->n_copies++].bytes = bytes;
}

static inline pto_status fake_copy_in(void *self, void *to, const void *from, uint64_t bytes)
{
    fake_device *fake = self;
    pthread_mutex_lock(&fake_lock);
    fake->copies_in++;
    assert_true(fake_owns(fake, to, bytes) && !fake_owns(fake, from, 1));
    fake_copy(fake, to, from, bytes);
    pthread_mutex_unlock(&fake_lock);
    return PTO_OK;
}

static inline pto_status fake_copy_out(void *self, void *to, const void *from, uint64_t bytes)
{
    fake_device *fake = self;
    pthread_mutex_lock(&fake_lock);
    fake->copies_out++;
    assert_true(fake_owns(fake, from, bytes) && !fake_owns(fake, to, 1));
    fake_copy(fake, to, from, bytes);
    pthread_mutex_unlock(&fake_lock);
    return PTO_OK;
}

static inline pto_device_ops fake_ops(fake_device *fake)
{
    return (pto_device_ops){.size = sizeof(pto_device_ops),
                            .self = fake,
                            .alloc = fake_alloc,
                            .free = fake_free,
                            .copy_in = fake_copy_in,
                            .copy_out = fake_copy_out,
                            .set_current = fake_set_current,
                            .synchronize = fake_synchronize};
}

/* Everything allocated was freed. */
static inline void fake_expect_idle(const fake_device *fake)
{
    assert_int_equal(fake->n_blocks, 0);
    assert_int_equal(fake->n_copies, 0);
    assert_int_equal(fake->allocs, fake->frees);
}

#endif /* PTO_TEST_FAKE_DEVICE_H */
