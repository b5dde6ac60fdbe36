/* os.h - what we ask of the operating system. */
#ifndef PTOI_OS_H
#define PTOI_OS_H

#include <stddef.h>

/* Zeroed memory that costs nothing until it is touched, aligned to a page; NULL if there is none.
 * Freed with the same size. */
void *ptoi_os_reserve(size_t bytes);
void ptoi_os_release(void *memory, size_t bytes);

#endif /* PTOI_OS_H */
