/* Everything that several threads may do at once: locks, events, scopes that another thread reads, handles that are made and freed, and the
 * two halves of a socket. Exits with 0, or with the line that failed. ThreadSanitizer (lab/thread-sanitizer.sh) also reports races. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, TURNS = 2000 };

static EvenkeelMutex mutex;
static EvenkeelInheritMutex inherit;
static EvenkeelRwLock rw;
static EvenkeelEvent start;
static uint32_t scope;
/* Plain words, each guarded by one of the locks. */
static long by_mutex, by_inherit, by_rw, before_start;

/* The kernel passes this lock from thread to thread. ThreadSanitizer does not see that, and would report a race on the plain word. */
#ifdef __SANITIZE_THREAD__
#define PLUS_ONE(word) __atomic_fetch_add(&(word), 1, __ATOMIC_RELAXED)
#else
#define PLUS_ONE(word) ((word)++)
#endif

static void *work(void *none)
{
    EvenkeelClockSettings settings;
    EvenkeelTick tick;
    EvenkeelClock *clock;
    int i;

    OK(evenkeel_scope_start_thread("worker", 64));
    OK(evenkeel_event_wait(&start));
    if (before_start != 7)
        exit(1);
    for (i = 0; i < TURNS; i++) {
        OK(evenkeel_scope_enter(scope));
        OK(evenkeel_mutex_lock(&mutex));
        by_mutex++;
        OK(evenkeel_mutex_unlock(&mutex));
        OK(evenkeel_inherit_mutex_lock(&inherit));
        PLUS_ONE(by_inherit);
        OK(evenkeel_inherit_mutex_unlock(&inherit));
        if (i % 10 == 0) {
            OK(evenkeel_rw_lock_write(&rw));
            by_rw++;
            OK(evenkeel_rw_lock_unlock_write(&rw));
        } else {
            OK(evenkeel_rw_lock_read(&rw));
            if (by_rw < 0)
                exit(1);
            OK(evenkeel_rw_lock_unlock_read(&rw));
        }
        OK(evenkeel_scope_leave(scope));
    }
    for (i = 0; i < 20; i++) {
        OK(EVENKEEL_INIT(&settings));
        settings.period_ns = 100000;
        OK(evenkeel_clock_new(&settings, &clock));
        OK(EVENKEEL_INIT(&tick));
        OK(evenkeel_clock_wait(clock, &tick));
        OK(evenkeel_clock_free(clock));
    }
    return none;
}

/* Reads the rings while other threads write them, and queries a clock that another thread may be using. */
static void *look(void *clock)
{
    enum { ROOM = 1 << 20 };
    char *json = malloc(ROOM);
    size_t needed;
    uint64_t due;
    int i;

    for (i = 0; i < 50; i++) {
        EvenkeelStatus status = evenkeel_clock_next_due(clock, &due);

        if (json == NULL || (status != EVENKEEL_STATUS_OK && status != EVENKEEL_STATUS_BUSY))
            exit(1);
        OK(evenkeel_scope_chrome_json(json, ROOM, &needed));
    }
    free(json);
    return NULL;
}

/* All packets fit into the socket's buffer, whichever thread runs first. */
enum { PACKETS = 160 };

static EvenkeelUdp *udp;

/* Sends packets on the socket that the main thread receives on, to the socket's own address. */
static void *send_to_itself(void *none)
{
    EvenkeelAddress address;
    EvenkeelFlushed flushed;
    unsigned char bytes[8] = {0};
    int i;

    OK(EVENKEEL_INIT(&address));
    OK(evenkeel_udp_local_address(udp, &address));
    OK(EVENKEEL_INIT(&flushed));
    for (i = 0; i < PACKETS; i++) {
        OK(evenkeel_udp_send(udp, &address, bytes, sizeof bytes));
        if (i % 8 == 7)
            OK(evenkeel_udp_flush(udp, &flushed));
    }
    return none;
}

static void count(const EvenkeelPacket *packet, void *came)
{
    *(size_t *)came += packet->bytes_count / 8;
}

static int a_half_each(void)
{
    EvenkeelUdpSettings settings;
    EvenkeelReceived received;
    pthread_t sender;
    size_t came = 0;
    int looks;

    OK(EVENKEEL_INIT(&settings));
    settings.address = "127.0.0.1:0";
    OK(evenkeel_udp_new(&settings, &udp));
    OK(EVENKEEL_INIT(&received));
    if (pthread_create(&sender, NULL, send_to_itself, NULL) != 0)
        return 1;
    for (looks = 0; looks < 10000000 && came < PACKETS; looks++)
        OK(evenkeel_udp_receive(udp, 64, count, &came, &received));
    pthread_join(sender, NULL);
    OK(evenkeel_udp_free(udp));
    return came != PACKETS;
}

int main(void)
{
    EvenkeelClockSettings settings;
    EvenkeelTick tick;
    EvenkeelClock *clock;
    pthread_t workers[THREADS], reader;
    int i;

    OK(evenkeel_mutex_init(&mutex));
    OK(evenkeel_inherit_mutex_init(&inherit));
    OK(evenkeel_rw_lock_init(&rw));
    OK(evenkeel_event_init(&start));
    OK(evenkeel_scope_register("work", &scope));
    /* Start to record before the thread that reads the rings starts: until a thread records, reading is an error. */
    OK(evenkeel_scope_start_thread("main", 64));
    OK(EVENKEEL_INIT(&settings));
    settings.period_ns = 1000000;
    OK(evenkeel_clock_new(&settings, &clock));
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i], NULL, work, NULL) != 0)
            return 1;
    if (pthread_create(&reader, NULL, look, clock) != 0)
        return 1;
    before_start = 7;
    OK(evenkeel_event_set(&start));
    OK(EVENKEEL_INIT(&tick));
    for (i = 0; i < 50; i++) {
        EvenkeelStatus status = evenkeel_clock_wait(clock, &tick);

        if (status != EVENKEEL_STATUS_OK && status != EVENKEEL_STATUS_BUSY)
            return 1;
    }
    for (i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
    pthread_join(reader, NULL);
    if (by_mutex != THREADS * TURNS || by_inherit != THREADS * TURNS || by_rw != THREADS * TURNS / 10)
        return 1;
    OK(evenkeel_clock_free(clock));
    OK(evenkeel_mutex_destroy(&mutex));
    OK(evenkeel_inherit_mutex_destroy(&inherit));
    OK(evenkeel_rw_lock_destroy(&rw));
    OK(evenkeel_event_destroy(&start));
    return a_half_each();
}
