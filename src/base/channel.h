/* channel.h - messages between the processes of a runtime, over a Unix socket.
 *
 * A message is one packet of fixed size, and may carry open files. The other end may be gone, or
 * may send garbage: nothing of a message is trusted before it is checked.
 */
#ifndef PTOI_CHANNEL_H
#define PTOI_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <pto/status.h>

#define PTOI_MESSAGE_FILES 8

typedef struct ptoi_message {
    uint32_t kind;    /* ptoi_message_kind (window/caller.h) */
    uint32_t process; /* of a worker process: its number */
    uint32_t first;   /* its first worker */
    uint32_t count;   /* its workers */
    uint32_t types;   /* that they serve */
    int32_t pid;
    int32_t how; /* how a process ended: status of waitpid; or a pto_status */
    uint32_t kernel;
    uint64_t value;
    char text[448]; /* ends with a zero */
} ptoi_message;

/* Two ends that are connected. */
pto_status ptoi_channel_pair(int ends[2]);

/* Sends a message, with `count` open files. False: the other end is gone. */
bool ptoi_channel_send(int channel, const ptoi_message *message, const int *files, int count);

/* Receives a message, and waits for one unless it is told not to. Files that came along are in
 * files[], the others are -1. Returns 1; 0 if there is none; -1 if the other end is gone, or if it
 * sent something else. */
int ptoi_channel_receive(int channel, ptoi_message *message, int files[PTOI_MESSAGE_FILES],
                         bool wait);

#endif /* PTOI_CHANNEL_H */
