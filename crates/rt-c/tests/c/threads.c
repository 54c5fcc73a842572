/* What several threads may do at once, all of it: locks, events, scopes that another one reads, handles that come and go. Exits with 0, or
 * with the line that did not hold; under ThreadSanitizer (lab/thread-sanitizer.sh) also where two threads race. */
#define _GNU_SOURCE
#include <evenkeel_rt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, TURNS = 2000 };

#define OK(is)                                                                                                  \
    do {                                                                                                        \
        EvenkeelStatus got_ = (is);                                                                             \
        if (got_ != EVENKEEL_STATUS_OK) {                                                                       \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #is, evenkeel_status_text(got_));                    \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

static EvenkeelMutex *mutex;
static EvenkeelInheritMutex *inherit;
static EvenkeelRwLock *rw;
static EvenkeelEvent *start;
static uint32_t scope;
/* Plain words, each guarded by one of the locks. */
static long by_mutex, by_inherit, by_rw, before_start;

/* The kernel itself hands this lock on, which ThreadSanitizer does not see: it would call the plain word a race. */
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
    OK(evenkeel_event_wait(start));
    if (before_start != 7)
        exit(1);
    for (i = 0; i < TURNS; i++) {
        OK(evenkeel_scope_enter(scope));
        OK(evenkeel_mutex_lock(mutex));
        by_mutex++;
        OK(evenkeel_mutex_unlock(mutex));
        OK(evenkeel_inherit_mutex_lock(inherit));
        PLUS_ONE(by_inherit);
        OK(evenkeel_inherit_mutex_unlock(inherit));
        if (i % 10 == 0) {
            OK(evenkeel_rw_lock_write(rw));
            by_rw++;
            OK(evenkeel_rw_lock_unlock_write(rw));
        } else {
            OK(evenkeel_rw_lock_read(rw));
            if (by_rw < 0)
                exit(1);
            OK(evenkeel_rw_lock_unlock_read(rw));
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

/* Reads the rings while they are written, and asks a clock that another thread may be in. */
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

int main(void)
{
    EvenkeelClockSettings settings;
    EvenkeelTick tick;
    EvenkeelClock *clock;
    pthread_t workers[THREADS], reader;
    int i;

    OK(evenkeel_mutex_new(&mutex));
    OK(evenkeel_inherit_mutex_new(&inherit));
    OK(evenkeel_rw_lock_new(&rw));
    OK(evenkeel_event_new(&start));
    OK(evenkeel_scope_register("work", &scope));
    OK(EVENKEEL_INIT(&settings));
    settings.period_ns = 1000000;
    OK(evenkeel_clock_new(&settings, &clock));
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i], NULL, work, NULL) != 0)
            return 1;
    if (pthread_create(&reader, NULL, look, clock) != 0)
        return 1;
    before_start = 7;
    OK(evenkeel_event_set(start));
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
    OK(evenkeel_mutex_free(mutex));
    OK(evenkeel_inherit_mutex_free(inherit));
    OK(evenkeel_rw_lock_free(rw));
    OK(evenkeel_event_free(start));
    return 0;
}
