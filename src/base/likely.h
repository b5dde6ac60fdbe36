/* likely.h - branch hints for the compiler. */
#ifndef PTOI_LIKELY_H
#define PTOI_LIKELY_H

#define PTOI_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define PTOI_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif /* PTOI_LIKELY_H */
