/* refusal.h - tests that expect refused calls acknowledge them (pto_refused). */
#ifndef PTO_TEST_REFUSAL_H
#define PTO_TEST_REFUSAL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pto/pto.h>

/* The runtime that expect_fail is about; what it points to is NULL once it is destroyed. */
static pto_runtime *const *refusal_of;

/* After a call that fails as expected: if the runtime has kept a refusal, it is that one alone. A
 * report of refusals takes none. */
static inline void expect_kept(pto_status want, const char *call, const char *file, int line)
{
    pto_refusal kept;
    if (want != PTO_REFUSED && refusal_of && pto_refused(*refusal_of, &kept) &&
        (kept.status != want || kept.count != 1)) {
        print_error("%s\n  is %s, but the runtime keeps %s of %s at %s:%d, the first of %llu\n",
                    call, pto_status_name(want), pto_status_name(kept.status), kept.call, kept.file,
                    kept.line, (unsigned long long)kept.count);
        _fail(file, line);
    }
}

/* A refusal by this runtime, without a look at its words. */
static inline void expect_refusal(pto_runtime *rt, pto_status got, pto_status want)
{
    pto_refusal kept;
    assert_int_equal(got, want);
    assert_true(pto_refused(rt, &kept));
    assert_int_equal(kept.status, want);
    assert_int_equal(kept.count, 1);
    assert_string_equal(kept.message, pto_error_detail());
}

#endif /* PTO_TEST_REFUSAL_H */
