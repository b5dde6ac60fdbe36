/* decode_stages.h - what the kernels of a decode step that is cut for a GPU (decode_block.h) and those who submit its
 * tasks (decode_step.c) have to agree about. */
#ifndef DECODE_STAGES_H
#define DECODE_STAGES_H

/* X(name, worker type) */
#define DECODE_BLOCK_KERNELS(X)                                                                    \
    X(join, PTO_VECTOR)                                                                            \
    X(embed, PTO_VECTOR)                                                                           \
    X(project, PTO_CUBE)                                                                           \
    X(attend, PTO_VECTOR)                                                                          \
    X(mix, PTO_VECTOR)                                                                             \
    X(feed, PTO_CUBE)                                                                              \
    X(feed_expert, PTO_CUBE)                                                                       \
    X(sum, PTO_VECTOR)                                                                             \
    X(sum_experts, PTO_VECTOR)                                                                     \
    X(logits, PTO_CUBE)                                                                            \
    X(pick, PTO_VECTOR)

/* Floats of shared memory for rows of x and sums of a product. A row, and one of the product, fit. */
#define DECODE_ARENA 18432

/* Shared memory of the tasks of experts: experts of each row, whether any row has an expert, the rows of a group, and
 * shares of some rows. */
enum { ROUTE_CHOICES = 4096, ROUTE_EXPERTS = 256, ROUTE_ROWS = 1024, ROUTE_SHARES = 2048 };

#endif /* DECODE_STAGES_H */
