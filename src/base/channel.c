#define _GNU_SOURCE /* SOCK_CLOEXEC, MSG_CMSG_CLOEXEC */
#include "base/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/* Room for the files of a message, aligned as the system wants it. */
typedef union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(PTOI_MESSAGE_FILES * sizeof(int))];
} control;

pto_status ptoi_channel_pair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return ptoi_fail(PTO_SYSTEM, "create: socketpair: %s", strerror(errno));
    }
    return PTO_OK;
}

bool ptoi_channel_send(int channel, const ptoi_message *message, const int *files, int count)
{
    struct iovec part = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    control c;
    memset(&c, 0, sizeof c);
    if (count) {
        packet.msg_control = &c;
        packet.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        c.header.cmsg_level = SOL_SOCKET;
        c.header.cmsg_type = SCM_RIGHTS;
        c.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(&c.header), files, (size_t)count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(channel, &packet, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message;
}

static int take_files(struct msghdr *packet, int files[PTOI_MESSAGE_FILES])
{
    int count = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(packet); h; h = CMSG_NXTHDR(packet, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int file;
            memcpy(&file, CMSG_DATA(h) + i * sizeof file, sizeof file);
            if (count < PTOI_MESSAGE_FILES) {
                files[count++] = file;
            } else {
                close(file);
            }
        }
    }
    return count;
}

int ptoi_channel_receive(int channel, ptoi_message *message, int files[PTOI_MESSAGE_FILES],
                         bool wait)
{
    struct iovec part = {message, sizeof *message};
    control c;
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
    for (int i = 0; i < PTOI_MESSAGE_FILES; i++) {
        files[i] = -1;
    }
    ssize_t got;
    do {
        got = recvmsg(channel, &packet, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return 0;
    }
    const int count = got < 0 ? 0 : take_files(&packet, files);
    if (got != (ssize_t)sizeof *message) {
        for (int i = 0; i < count; i++) {
            close(files[i]);
            files[i] = -1;
        }
        return -1;
    }
    message->text[sizeof message->text - 1] = '\0';
    return 1;
}
