/* fill.h - what every implementation of fill begins with. */
#ifndef PTOI_FILL_H
#define PTOI_FILL_H

#include <pto/op.h>

#include "tensor/tensor.h"

/* Checks a call, and converts its number to an element. If the tensor has no elements there is
 * nothing to do. */
pto_status ptoi_fill_check(const pto_op_call *call, uint64_t *element, ptoi_extent *extent);

#endif /* PTOI_FILL_H */
