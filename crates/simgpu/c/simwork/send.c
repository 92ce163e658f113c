// send, receive: a TCP connection with a process that launches at one end. Either end may be the one that
// connects.
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

#define PIECE (8 << 10)
// From <linux/tcp.h>, which does not go together with <netinet/tcp.h>.
#define SEND_QUEUE 2
#define REPAIR_OFF_NO_PROBE -1

static const char *address = "127.0.0.1", *port = "0";
static uint64_t bytes = 1 << 20;
static bool listens, answers;

static _Noreturn void cannot(const char *what) {
    options_refuse("cannot %s %s port %s: %s", what, address, port, strerror(errno));
}

static int listen_and_accept(const struct addrinfo *at) {
    int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, 1) != 0)
        cannot("listen on");
    int connection = accept(listener, NULL, NULL);
    close(listener);
    return connection;
}

// The other end may not listen yet.
static int connect_to(const struct addrinfo *to) {
    for (uint64_t give_up = now_ns() + 20000000000; now_ns() < give_up && !gate_is_stopped();) {
        int connection = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(connection, to->ai_addr, to->ai_addrlen) == 0)
            return connection;
        close(connection);
        if (errno != ECONNREFUSED)
            break;
        sleep_ns(10000000);
    }
    return -1;
}

static int make_connection(void) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        options_refuse("%s port %s is no address", address, port);
    int connection = listens ? listen_and_accept(found) : connect_to(found);
    if (connection < 0)
        cannot(listens ? "accept on" : "connect to");
    freeaddrinfo(found);
    return connection;
}

static void print_end(const char *name, const struct sockaddr_storage *end, socklen_t length) {
    char host[64], service[16];
    getnameinfo((const struct sockaddr *)end, length, host, sizeof host, service, sizeof service,
                NI_NUMERICHOST | NI_NUMERICSERV);
    fprintf(truth_more(), ",\"%s\":\"%s\",\"%s_port\":%s", name, host, name, service);
}

static void print_ends(int connection) {
    struct sockaddr_storage end;
    socklen_t length = sizeof end;
    getsockname(connection, (struct sockaddr *)&end, &length);
    print_end("local", &end, length);
    length = sizeof end;
    getpeername(connection, (struct sockaddr *)&end, &length);
    print_end("remote", &end, length);
}

// The number of the first byte that will be sent, as the kernel's repair mode tells whom it trusts.
static void print_first_number(int connection) {
    int on = 1, queue = SEND_QUEUE, off = REPAIR_OFF_NO_PROBE;
    uint32_t number;
    socklen_t length = sizeof number;
    if (setsockopt(connection, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
        return;
    setsockopt(connection, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof queue);
    if (getsockopt(connection, IPPROTO_TCP, TCP_QUEUE_SEQ, &number, &length) == 0)
        fprintf(truth_more(), ",\"first_seq\":%" PRIu32, number);
    setsockopt(connection, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off);
}

// Segments that the kernel sent again, by its own account.
static void print_retransmits(int connection) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
        fprintf(truth_more(), ",\"retransmits\":%" PRIu32, info.tcpi_total_retrans);
}

// Until the other end has it all.
static void await_close(int connection) {
    char rest;
    shutdown(connection, SHUT_WR);
    while (recv(connection, &rest, 1, 0) > 0) {
    }
}

int command_send(char **arguments) {
    const struct option options[] = {
        TEXT("to", address, "address to connect to, or to listen on"),
        TEXT("port", port, "port"),
        NUMBER("bytes", bytes, "bytes to send; a launch goes before every 8 KiB"),
        FLAG("listen", listens, "be connected to"),
        FLAG("answers", answers, "wait for an answer to every 8 KiB, as ranks do that exchange something"),
        END,
    };
    options_parse("send", "sends over a TCP connection, and launches now and then", arguments, options);
    workload_begin();
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    int connection = make_connection();
    print_ends(connection);
    print_first_number(connection);
    static char piece[PIECE];
    uint64_t sent = 0, launches = 0;
    while (sent < bytes && !gate_is_stopped()) {
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
        launches++;
        uint64_t left = bytes - sent;
        ssize_t taken = send(connection, piece, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
        if (taken < 0)
            cannot("send to");
        sent += taken;
        char answer;
        if (answers && sent % PIECE == 0 && recv(connection, &answer, 1, 0) != 1)
            cannot("get an answer from");
    }
    await_close(connection);
    print_retransmits(connection);
    kernels_count(VIA_RUNTIME, launches);
    fprintf(truth_more(), ",\"sent\":%" PRIu64, sent);
    truth_print("send");
    return 0;
}

int command_receive(char **arguments) {
    const struct option options[] = {
        TEXT("to", address, "address to connect to, or to listen on"),
        TEXT("port", port, "port"),
        FLAG("listen", listens, "be connected to"),
        FLAG("answers", answers, "answer every 8 KiB"),
        END,
    };
    options_parse("receive", "receives over a TCP connection, and makes no calls", arguments, options);
    truth_begin();
    gate_wait();
    int connection = make_connection();
    static char piece[PIECE];
    uint64_t received = 0, answered = 0;
    for (ssize_t got; (got = recv(connection, piece, sizeof piece, 0)) > 0;) {
        received += got;
        for (; answers && answered < received / PIECE; answered++)
            if (send(connection, "x", 1, MSG_NOSIGNAL) != 1)
                cannot("answer");
    }
    fprintf(truth_more(), ",\"received\":%" PRIu64, received);
    truth_print("receive");
    return 0;
}
