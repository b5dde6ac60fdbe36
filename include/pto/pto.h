/* pto/pto.h - everything a first program needs.
 *
 * PTO Runtime runs ordinary sequential C over tensors as a parallel dataflow graph. What stands so
 * far is the ground it is built on: tensors and their exact overlap (pto/tensor.h), the map that
 * finds every live reader and writer of a piece of memory (pto/tensormap.h), and the exchange of
 * tensors with other libraries (pto/dlpack.h).
 */
#ifndef PTO_PTO_H
#define PTO_PTO_H

#include <pto/status.h>
#include <pto/tensor.h>
#include <pto/tensormap.h>

#endif /* PTO_PTO_H */
