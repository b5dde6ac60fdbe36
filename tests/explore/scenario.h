/* scenario.h - all scenarios. */
#ifndef EXPLORE_SCENARIO_H
#define EXPLORE_SCENARIO_H

#include "world.h"

/* X(name) */
#define SCENARIO_MAP(X)                                                                            \
    X(queue)                                                                                       \
    X(queue_round)                                                                                 \
    X(look)                                                                                        \
    X(park)                                                                                        \
    X(link)                                                                                        \
    X(link_thread)                                                                                 \
    X(order)                                                                                       \
    X(order_thread)                                                                                \
    X(covered)                                                                                     \
    X(wait)                                                                                        \
    X(wait_thread)                                                                                 \
    X(types)                                                                                       \
    X(poll)                                                                                        \
    X(poll_no_barrier)                                                                             \
    X(poll_refused)                                                                                \
    X(poll_thread)                                                                                 \
    X(end)                                                                                         \
    X(end_thread)                                                                                  \
    X(end_cancel)                                                                                  \
    X(window)                                                                                      \
    X(window_thread)                                                                               \
    X(heap)                                                                                        \
    X(lifetime)                                                                                    \
    X(held)                                                                                        \
    X(nested)                                                                                      \
    X(blocks)                                                                                      \
    X(stream)                                                                                      \
    X(stream_thread)                                                                               \
    X(args)                                                                                        \
    X(edges)                                                                                       \
    X(entries)                                                                                     \
    X(alone)                                                                                       \
    X(pending)                                                                                     \
    X(pending_thread)                                                                              \
    X(pending_twice)                                                                               \
    X(pending_bad)                                                                                 \
    X(copy)                                                                                        \
    X(copy_bad)                                                                                    \
    X(failure)                                                                                     \
    X(failure_window)                                                                              \
    X(failure_thread)                                                                              \
    X(records)                                                                                     \
    X(cancel)                                                                                      \
    X(stats)                                                                                       \
    X(attach)                                                                                      \
    X(attach_inline)                                                                               \
    X(info)                                                                                        \
    X(death)                                                                                       \
    X(death_alone)                                                                                 \
    X(death_wake)                                                                                  \
    X(death_pause)                                                                                 \
    X(death_guest)                                                                                 \
    X(death_post)                                                                                  \
    X(death_queue)                                                                                 \
    X(detach)                                                                                      \
    X(detach_wake)                                                                                 \
    X(streams)                                                                                     \
    X(streams_overwrite)                                                                           \
    X(streams_skip)                                                                                \
    X(streams_pend)                                                                                \
    X(grid)                                                                                        \
    X(grid_workers)                                                                                \
    X(grid_lanes)                                                                                  \
    X(grid_late)                                                                                   \
    X(grid_reuse)                                                                                  \
    X(grid_layout)                                                                                 \
    X(grid_many)                                                                                   \
    X(grid_levels)                                                                                 \
    X(grid_window)                                                                                 \
    X(grid_window_workers)                                                                         \
    X(grid_host)                                                                                   \
    X(grid_again)                                                                                  \
    X(grid_leave)                                                                                  \
    X(grid_letter)                                                                                 \
    X(grid_types)                                                                                  \
    X(grid_host_tasks)                                                                             \
    X(grid_host_fails)                                                                             \
    X(grid_cancel)                                                                                 \
    X(grid_lost)                                                                                   \
    X(grid_fail)

#define SCENARIO_DECLARE(name) extern const scenario scenario_##name;
SCENARIO_MAP(SCENARIO_DECLARE)
#undef SCENARIO_DECLARE

#endif /* EXPLORE_SCENARIO_H */
