/* test_refused.c - barriers (membarrier) that the system forbids after a runtime was created,
 * for example by a late filter of system calls: no wake-up is lost. */
#define _GNU_SOURCE /* syscall */
#include "../runtime/rig.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "scheduler/park.h"

/* From now on the call fails with EPERM, on every thread. False: no filters here. */
static bool forbid_barriers(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* The system also refuses barriers before this process has registered for them. */
static void test_an_unsure_sleeper_naps(void **state)
{
    (void)state;
    ptoi_a32 idle = {0};
    ptoi_wake_line line = {0};
    ptoi_parker parker = {.line = &line, .idle = &idle, .asymmetric = true};
    assert_false(ptoi_os_barrier(false));
    for (uint32_t i = 1; i <= 3; i++) {
        ptoi_park_announce(&parker);
        assert_true(parker.unsure);
        ptoi_park_sleep(&parker); /* no thread would wake it */
        assert_int_equal(ptoi_get32(&idle), 0);
        assert_int_equal(ptoi_get32(&line.parked), PTOI_AWAKE);
        assert_int_equal(ptoi_get64(&line.parks), i);
    }
    /* It was woken: it leaves the list of sleepers once. */
    ptoi_park_announce(&parker);
    assert_true(ptoi_park_wake(&parker));
    ptoi_park_sleep(&parker);
    assert_int_equal(ptoi_get32(&idle), 0);
    assert_false(ptoi_park_wake(&parker));
}

static void test_barriers_are_trusted_again(void **state)
{
    (void)state;
    ptoi_a32 idle = {0};
    ptoi_wake_line line = {0};
    ptoi_parker parker = {.line = &line, .idle = &idle, .asymmetric = true, .unsure = true};
    if (!ptoi_os_has_barrier(false)) {
        skip();
    }
    ptoi_park_announce(&parker);
    assert_false(parker.unsure);
    ptoi_park_withdraw(&parker);
    assert_int_equal(ptoi_get32(&idle), 0);
}

/* Tasks one by one, each waited for asleep. */
static void work(rig *r)
{
    unsigned char bytes[8] = {0};
    pto_tensor t = rig_bytes(r, bytes, sizeof bytes), first = rig_slice(&t, 0, 1);
    for (unsigned char i = 1; i <= 50; i++) {
        unsigned char got = 0;
        RIG_SUBMIT(r, r->fill, pto_output(&t), pto_scalar(i));
        expect_ok(pto_read(r->rt, &first, &got, 1));
        assert_int_equal(got, i);
    }
}

/* Runtimes that could make barriers when they were created. */
static void test_runtimes_go_on(void **state)
{
    (void)state;
    enum { RIGS = 2 };
    rig r[RIGS];
    for (size_t i = 0; i < RIGS; i++) {
        pto_config config = PTO_CONFIG_INIT;
        config.workers = 2;
        config.caller_types = PTO_NO_TYPES;
        const rig_setup *setup = &rig_setups[i];
        rig_start(&r[i], (void **)&setup, &config);
        work(&r[i]);
    }
    const bool forbidden = ptoi_os_barrier(false) && forbid_barriers();
    for (size_t i = 0; i < RIGS; i++) {
        work(&r[i]);
        /* Idle: a thread that may have missed a wake-up checks again and again. */
        const uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
        const uint64_t parks = rig_stats(&r[i]).parks;
        while (forbidden && rig_stats(&r[i]).parks < parks + 10) {
            assert_true(rig_now_ms() < deadline);
            rig_sleep_us(200);
        }
        work(&r[i]);
        rig_stop(&r[i]);
    }
    if (!forbidden) {
        skip();
    }
    assert_false(ptoi_os_barrier(false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unsure_sleeper_naps),
        cmocka_unit_test(test_barriers_are_trusted_again),
        cmocka_unit_test(test_runtimes_go_on),
    };
    alarm(240);
    return cmocka_run_group_tests_name("orchestrator.refused", tests, NULL, NULL);
}
