/* Sockets from C: one socket for each CPU, the measured backend, answers from within a receive, two threads, and packets that were refused
 * or not delivered. Exits with 0, or with the line that failed. The argument is the backend that a socket gets if it requests io_uring. */
#define _GNU_SOURCE
#include <errno.h>
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUND = 50, TRIES = 100000 };

/* Longer than any observed pause of a virtual machine. */
enum { PATIENCE_S = 20 };

static EvenkeelUdp *opened(const char *address, uint32_t receive)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdp *udp = NULL;

    OK(EVENKEEL_INIT(&settings));
    settings.address = address;
    settings.receive = receive;
    OK(evenkeel_udp_new(&settings, &udp));
    return udp;
}

static EvenkeelUdpReport reported(EvenkeelUdp *udp)
{
    EvenkeelUdpReport report;

    OK(EVENKEEL_INIT(&report));
    OK(evenkeel_udp_report(udp, &report));
    HOLDS(report.size == sizeof report);
    return report;
}

static void send_round(EvenkeelUdp *from, EvenkeelUdp *to)
{
    EvenkeelAddress address;
    EvenkeelFlushed flushed;
    unsigned char bytes[100] = {0};
    int i;

    OK(EVENKEEL_INIT(&address));
    OK(evenkeel_udp_local_address(to, &address));
    OK(EVENKEEL_INIT(&flushed));
    for (i = 0; i < ROUND; i++) {
        bytes[0] = (unsigned char)i;
        OK(evenkeel_udp_send(from, &address, bytes, sizeof bytes));
    }
    OK(evenkeel_udp_flush(from, &flushed));
    HOLDS(flushed.refused == 0 && flushed.waiting == 0);
}

static void count(const EvenkeelPacket *packet, void *context)
{
    HOLDS(packet->size == sizeof *packet);
    ++*(int *)context;
}

static int received(EvenkeelUdp *udp, int wanted)
{
    EvenkeelReceived received;
    struct timespec began, now;
    int came = 0;

    OK(EVENKEEL_INIT(&received));
    clock_gettime(CLOCK_MONOTONIC, &began);
    /* Limit the time, not the number of calls: how long a call takes depends on the machine. */
    do {
        OK(evenkeel_udp_receive(udp, 1000, count, &came, &received));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (came < wanted && now.tv_sec - began.tv_sec < PATIENCE_S);
    return came;
}

/* Programs that were compiled before a field existed: the library accepts and fills their shorter structs. */
static void older_callers(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdp *udp = NULL;
    struct {
        EvenkeelUdpReport report;
        char behind[16];
    } old;
    const size_t were = offsetof(EvenkeelUdpReport, receive_backend_errno);

    memset(&settings, 0xff, sizeof settings);
    OK(evenkeel_init(&settings, offsetof(EvenkeelUdpSettings, packets_a_peer)));
    settings.address = "127.0.0.1:0";
    OK(evenkeel_udp_new(&settings, &udp));
    memset(&old, 0x55, sizeof old);
    OK(evenkeel_init(&old, were));
    OK(evenkeel_udp_report(udp, &old.report));
    HOLDS(old.report.size == were && old.report.port > 0 && ((unsigned char *)&old)[were] == 0x55);
    OK(evenkeel_udp_free(udp));

    /* A program that uses the new fields gets what it requests, or an error. */
    OK(EVENKEEL_INIT(&settings));
    settings.trial_ms = 10001;
    CHECK(evenkeel_udp_new(&settings, &udp), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.trial_ms = 1;
    settings.packets_a_peer = 65536;
    CHECK(evenkeel_udp_new(&settings, &udp), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.packets_a_peer = 0;
    settings.trial_toward = "nowhere";
    CHECK(evenkeel_udp_new(&settings, &udp), EVENKEEL_STATUS_BAD_TEXT);
}

static void uring(uint32_t expected)
{
    static char text[4096];
    EvenkeelUdp *udp = opened("127.0.0.1:0", EVENKEEL_IO_BACKEND_URING), *client = opened("127.0.0.1:0", 0);
    EvenkeelUdpReport report = reported(udp);
    size_t needed;

    HOLDS(report.receive_backend == expected);
    HOLDS((report.receive_backend_errno == 0) == (expected == EVENKEEL_IO_BACKEND_URING));
    CHECK(evenkeel_udp_report_text(udp, text, 1, &needed), EVENKEEL_STATUS_TOO_SMALL);
    OK(evenkeel_udp_report_text(udp, text, sizeof text, &needed));
    HOLDS(needed == strlen(text) + 1);
    HOLDS(strstr(text, expected == EVENKEEL_IO_BACKEND_URING ? "receives uring" : "receiving uring is not available") != NULL);
    send_round(client, udp);
    HOLDS(received(udp, ROUND) == ROUND);
    report = reported(udp);
    HOLDS(report.packets_in == ROUND && report.bytes_in == ROUND * 100 && report.receive_backend == expected);
    OK(evenkeel_udp_free(client));
    OK(evenkeel_udp_free(udp));
}

/* The backend that takes the least CPU time here, and the measurements of all backends. */
static void measured(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdpTrial trial;
    EvenkeelUdpReport report;
    EvenkeelUdp *udp = NULL, *plain = opened("127.0.0.1:0", EVENKEEL_IO_BACKEND_ONE);
    double chosen;
    int way;

    OK(EVENKEEL_INIT(&trial));
    CHECK(evenkeel_udp_trial(plain, &trial), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_udp_free(plain));
    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    settings.receive = settings.send = EVENKEEL_IO_BACKEND_MEASURED;
    settings.packets_a_peer = 3;
    /* If system calls are slow, 20 ms are too short for three rounds. So allow more time until there are three. */
    for (settings.trial_ms = 20;; settings.trial_ms *= 8) {
        OK(evenkeel_udp_new(&settings, &udp));
        OK(evenkeel_udp_trial(udp, &trial));
        if (trial.rounds >= 3 || settings.trial_ms > 1000)
            break;
        OK(evenkeel_udp_free(udp));
    }
    report = reported(udp);
    HOLDS(trial.rounds >= 3 && trial.took_ns > 0 && trial.receive_ns[0] > 0 && trial.send_ns[0] > 0);
    HOLDS(report.receive_backend >= EVENKEEL_IO_BACKEND_ONE && report.receive_backend <= EVENKEEL_IO_BACKEND_URING);
    /* The chosen backend was measured, and no other one is more than 4 % better. */
    chosen = trial.receive_ns[report.receive_backend - EVENKEEL_IO_BACKEND_ONE];
    HOLDS(chosen > 0);
    for (way = 0; way < 4; way++)
        HOLDS(trial.receive_ns[way] < 0 || trial.receive_ns[way] >= chosen * 0.96);
    OK(evenkeel_udp_free(udp));
}

typedef struct {
    EvenkeelUdp *to;
    size_t cpu;
} Pinned;

static void *send_on(void *context)
{
    Pinned *pinned = context;
    EvenkeelUdp *client;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(pinned->cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return NULL;
    client = opened("127.0.0.1:0", EVENKEEL_IO_BACKEND_ONE);
    send_round(client, pinned->to);
    OK(evenkeel_udp_free(client));
    return context;
}

/* On loopback the CPU of the sender handles the packet. */
static void sharded(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdp *shards[3] = {NULL, NULL, NULL};
    EvenkeelUdpReport first, other;
    cpu_set_t allowed;
    uint32_t cpus[2], twice[2] = {0, 0}, one = 0;
    size_t many = 0, at, looked;
    size_t cpu;

    HOLDS(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (cpu = 0; cpu < CPU_SETSIZE && many < 2; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[many++] = (uint32_t)cpu;
    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    CHECK(evenkeel_udp_new_sharded(&settings, cpus, 0, shards), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_udp_new_sharded(&settings, cpus, 65, shards), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_udp_new_sharded(&settings, twice, 2, shards), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_udp_new_sharded(&settings, NULL, 1, shards), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_udp_new_sharded(&settings, cpus, 1, NULL), EVENKEEL_STATUS_NULL_POINTER);
    settings.address = "192.0.2.1:0";
    CHECK(evenkeel_udp_new_sharded(&settings, cpus, many, shards), EVENKEEL_STATUS_REFUSED);
    HOLDS(shards[0] == NULL);
    settings.address = "127.0.0.1:0";
    OK(evenkeel_udp_new_sharded(&settings, cpus, many, shards));
    HOLDS(shards[many] == NULL);
    first = reported(shards[0]);
    HOLDS(first.shard == EVENKEEL_APPLY_STATUS_ACTIVE);
    for (at = 0; at < many; at++) {
        Pinned pinned = {shards[at], cpus[at]};
        pthread_t sender;
        void *sent = NULL;

        other = reported(shards[at]);
        HOLDS(other.port == first.port);
        HOLDS(pthread_create(&sender, NULL, send_on, &pinned) == 0 && pthread_join(sender, &sent) == 0 && sent != NULL);
        for (looked = 0; looked < many; looked++)
            HOLDS(received(shards[looked], looked == at ? ROUND : 0) == (looked == at ? ROUND : 0));
    }
    for (at = 0; at < many; at++)
        OK(evenkeel_udp_free(shards[at]));
    /* The largest possible number of sockets, and one more. Either a whole group is opened, or none of it. */
    {
        static EvenkeelUdp *all[256];
        uint32_t numbers[64];
        size_t made;

        for (at = 0; at < 64; at++)
            numbers[at] = (uint32_t)at;
        settings.queue_packets = 1;
        settings.receive = settings.send = EVENKEEL_IO_BACKEND_ONE;
        for (made = 0; made < 192; made += 64)
            OK(evenkeel_udp_new_sharded(&settings, numbers, 64, all + made));
        OK(evenkeel_udp_new_sharded(&settings, &one, 1, all + made));
        CHECK(evenkeel_udp_new_sharded(&settings, numbers, 64, all + made + 1), EVENKEEL_STATUS_NO_ROOM);
        HOLDS(all[made + 1] == NULL);
        OK(evenkeel_udp_new_sharded(&settings, numbers, 63, all + made + 1));
        for (at = 0; at < 256; at++)
            OK(evenkeel_udp_free(all[at]));
    }
}

typedef struct {
    EvenkeelUdp *udp;
    size_t answered;
} Server;

static void answer(const EvenkeelPacket *packet, void *context)
{
    Server *server = context;
    EvenkeelReceived received;
    EvenkeelUdpReport report;
    EvenkeelFlushed flushed;
    int none = 0;

    OK(evenkeel_udp_send(server->udp, &packet->from, packet->bytes, packet->bytes_count));
    OK(EVENKEEL_INIT(&flushed));
    OK(evenkeel_udp_flush(server->udp, &flushed));
    server->answered++;
    OK(EVENKEEL_INIT(&received));
    CHECK(evenkeel_udp_receive(server->udp, 1, count, &none, &received), EVENKEEL_STATUS_BUSY);
    OK(EVENKEEL_INIT(&report));
    CHECK(evenkeel_udp_report(server->udp, &report), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_udp_free(server->udp), EVENKEEL_STATUS_BUSY);
}

static void answers_from_within(void)
{
    Server server = {opened("127.0.0.1:0", 0), 0};
    EvenkeelUdp *client = opened("127.0.0.1:0", 0);
    EvenkeelReceived received_now;
    struct pollfd waits = {-1, POLLIN, 0};
    int descriptor = -1, tries;

    OK(evenkeel_udp_descriptor(server.udp, &descriptor));
    waits.fd = descriptor;
    HOLDS(poll(&waits, 1, 0) == 0);
    send_round(client, server.udp);
    HOLDS(poll(&waits, 1, 5000) == 1 && (waits.revents & POLLIN) != 0);
    OK(EVENKEEL_INIT(&received_now));
    for (tries = 0; tries < TRIES && server.answered < ROUND; tries++)
        OK(evenkeel_udp_receive(server.udp, 1000, answer, &server, &received_now));
    HOLDS(server.answered == ROUND && received(client, ROUND) == ROUND);
    OK(evenkeel_udp_free(client));
    OK(evenkeel_udp_free(server.udp));
}

static void *send_rounds(void *pair)
{
    EvenkeelUdp **udps = pair;
    int i;

    for (i = 0; i < 100; i++)
        send_round(udps[0], udps[1]);
    return pair;
}

/* One thread sends on a socket while another thread receives on it. Neither gets BUSY. */
static void two_threads(void)
{
    EvenkeelUdp *pair[2] = {opened("127.0.0.1:0", 0), opened("127.0.0.1:0", 0)};
    EvenkeelReceived now;
    pthread_t sender;
    int none = 0, i;

    HOLDS(pthread_create(&sender, NULL, send_rounds, pair) == 0);
    OK(EVENKEEL_INIT(&now));
    for (i = 0; i < 2000; i++)
        OK(evenkeel_udp_receive(pair[0], 1000, count, &none, &now));
    HOLDS(pthread_join(sender, NULL) == 0 && none == 0);
    HOLDS(reported(pair[0]).packets_out == 100 * ROUND);
    OK(evenkeel_udp_free(pair[0]));
    OK(evenkeel_udp_free(pair[1]));
}

static void undelivered(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdp *udp = NULL, *gone = opened("127.0.0.1:0", EVENKEEL_IO_BACKEND_ONE);
    EvenkeelUdpFailure failure;
    EvenkeelAddress address;
    EvenkeelFlushed flushed;
    struct sockaddr_in own;
    socklen_t own_bytes = sizeof own;
    char text[64], again[64];
    size_t needed;
    int deaf, tries, none = 0;

    OK(EVENKEEL_INIT(&address));
    OK(evenkeel_udp_local_address(gone, &address));
    /* Keep its port with a socket that is connected to itself. It receives nothing from others, so they get the error for a closed port. */
    OK(evenkeel_udp_descriptor(gone, &deaf));
    deaf = dup(deaf);
    HOLDS(deaf >= 0 && getsockname(deaf, (struct sockaddr *)&own, &own_bytes) == 0);
    HOLDS(connect(deaf, (struct sockaddr *)&own, own_bytes) == 0);
    OK(evenkeel_udp_free(gone));
    CHECK(evenkeel_udp_local_address(gone, &address), EVENKEEL_STATUS_BAD_HANDLE);
    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    settings.hears_undelivered = 1;
    settings.stamps = 1;
    OK(evenkeel_udp_new(&settings, &udp));
    HOLDS(reported(udp).undelivered == EVENKEEL_APPLY_STATUS_ACTIVE && reported(udp).stamps == EVENKEEL_APPLY_STATUS_ACTIVE);
    OK(EVENKEEL_INIT(&failure));
    CHECK(evenkeel_udp_failure(udp, 0, &failure), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_udp_send(udp, &address, (const unsigned char *)"hello", 5));
    OK(EVENKEEL_INIT(&flushed));
    OK(evenkeel_udp_flush(udp, &flushed));
    for (tries = 0; tries < TRIES && evenkeel_udp_failure(udp, 0, &failure) != EVENKEEL_STATUS_OK; tries++)
        none += received(udp, 0);
    HOLDS(none == 0 && failure.why_errno == ECONNREFUSED && failure.packets == 1);
    HOLDS(failure.to.port == address.port && failure.to.ip[0] == 127);
    CHECK(evenkeel_udp_failure(udp, 1, &failure), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_udp_failure(udp, (size_t)-1, &failure), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_address_text(&failure.to, text, sizeof text, &needed));
    OK(evenkeel_address_parse(text, &address));
    OK(evenkeel_address_text(&address, again, sizeof again, &needed));
    HOLDS(strcmp(text, again) == 0 && strncmp(text, "127.0.0.1:", 10) == 0);
    CHECK(evenkeel_address_text(&address, again, 10, &needed), EVENKEEL_STATUS_TOO_SMALL);
    OK(evenkeel_udp_forget_failures(udp));
    CHECK(evenkeel_udp_failure(udp, 0, &failure), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_udp_free(udp));
    HOLDS(close(deaf) == 0);
}

static void waited(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelUdp *udp = NULL, *client = opened("127.0.0.1:0", 0);
    EvenkeelSummary waited;

    OK(EVENKEEL_INIT(&waited));
    CHECK(evenkeel_udp_waited(client, &waited), EVENKEEL_STATUS_NO_DATA);
    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    settings.stamps = 1;
    OK(evenkeel_udp_new(&settings, &udp));
    CHECK(evenkeel_udp_waited(udp, &waited), EVENKEEL_STATUS_NO_DATA);
    send_round(client, udp);
    HOLDS(received(udp, ROUND) == ROUND);
    OK(evenkeel_udp_waited(udp, &waited));
    HOLDS(waited.count == ROUND && waited.min_ns <= waited.p50_ns && waited.p50_ns <= waited.max_ns);
    OK(evenkeel_udp_free(client));
    OK(evenkeel_udp_free(udp));
}

int main(int count, char **arguments)
{
    HOLDS(count == 2);
    older_callers();
    uring((uint32_t)atoi(arguments[1]));
    measured();
    sharded();
    answers_from_within();
    two_threads();
    undelivered();
    waited();
    return 0;
}
