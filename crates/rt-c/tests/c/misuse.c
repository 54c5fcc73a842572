/* Mistakes of C programs: each returns a status, and none crashes. Exits with 0, or with the line that failed. */
#define _GNU_SOURCE
#include "check.h"
#include "evenkeel_rt.h" /* A second time does no harm. */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The tick of a program that was compiled before `began_ns` and `missed` existed, and the memory behind it. */
typedef struct {
    uint32_t size, version;
    uint64_t number, due_ns;
    uint64_t behind[2];
} OldTick;

static int older_and_newer_callers(void)
{
    EvenkeelClockSettings settings;
    EvenkeelClock *clock = NULL;
    OldTick old;
    struct {
        EvenkeelTick tick;
        uint64_t newer[3];
    } new;
    struct {
        EvenkeelClockSettings settings;
        uint64_t newer;
    } asks;

    /* A settings struct that ends after its period. */
    CHECK(EVENKEEL_INIT(&settings), EVENKEEL_STATUS_OK);
    memset((char *)&settings + 16, 0xff, sizeof settings - 16);
    settings.size = 16;
    settings.period_ns = 1000000;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OK);

    memset(&old, 0x55, sizeof old);
    CHECK(evenkeel_init(&old, 24), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_wait(clock, (EvenkeelTick *)&old), EVENKEEL_STATUS_OK);
    HOLDS(old.size == 24 && old.due_ns > 0);
    HOLDS(old.behind[0] == 0x5555555555555555u && old.behind[1] == 0x5555555555555555u);

    /* A program that knows more fields than the library: size shows how far the struct was filled. */
    CHECK(evenkeel_init(&new, sizeof new), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_wait(clock, &new.tick), EVENKEEL_STATUS_OK);
    HOLDS(new.tick.size == sizeof(EvenkeelTick) && new.tick.number > old.number && new.newer[0] == 0);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_OK);

    /* A newer program that uses no new field gets its clock. One that uses a new field is refused. */
    CHECK(evenkeel_init(&asks, sizeof asks), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_new(&asks.settings, &clock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_OK);
    asks.newer = 1;
    CHECK(evenkeel_clock_new(&asks.settings, &clock), EVENKEEL_STATUS_UNKNOWN_FIELD);
    asks.newer = 0;
    asks.settings.version = EVENKEEL_ABI_VERSION + 1;
    CHECK(evenkeel_clock_new(&asks.settings, &clock), EVENKEEL_STATUS_BAD_VERSION);
    asks.settings.size = 0;
    CHECK(evenkeel_clock_new(&asks.settings, &clock), EVENKEEL_STATUS_BAD_SIZE);
    return 0;
}

static int handles(void)
{
    EvenkeelClockSettings settings;
    EvenkeelClock *clock = NULL, *other = NULL;
    uint64_t due = 7;
    char text[256];

    CHECK(EVENKEEL_INIT(&settings), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_next_due(clock, &due), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_BAD_HANDLE);
    /* A new clock uses the freed place in the table. The old handle must not name it. */
    CHECK(evenkeel_clock_new(&settings, &other), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_next_due(clock, &due), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_clock_next_due((EvenkeelClock *)&due, &due), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_clock_next_due((EvenkeelClock *)(uintptr_t)-1, &due), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_clock_next_due(NULL, &due), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_clock_next_due(other, NULL), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_last_error(text, sizeof text), EVENKEEL_STATUS_OK);
    HOLDS(strstr(text, "uint64_t") != NULL);
    CHECK(evenkeel_clock_next_due(other, (uint64_t *)((char *)&due + 1)), EVENKEEL_STATUS_MISALIGNED);
    CHECK(evenkeel_clock_free(other), EVENKEEL_STATUS_OK);
    return 0;
}

static void *unlocks(void *mutex)
{
    return (void *)(uintptr_t)evenkeel_mutex_unlock(mutex);
}

static void *unlocks_write(void *lock)
{
    return (void *)(uintptr_t)evenkeel_rw_lock_unlock_write(lock);
}

/* Locks in the program's own storage: on its stack, in any number. */
static int locks(void)
{
    enum { MANY = 5000 };
    EvenkeelMutex mutex;
    EvenkeelRwLock lock;
    EvenkeelEvent event;
    EvenkeelMutex *many = calloc(MANY, sizeof *many);
    uint32_t is_set = 7;
    pthread_t other;
    void *status = NULL;
    int i;

    memset(&mutex, 0x55, sizeof mutex);
    memset(&event, 0, sizeof event);
    CHECK(evenkeel_mutex_lock(&mutex), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_event_set(&event), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_mutex_init(NULL), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_mutex_lock(NULL), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_mutex_init((EvenkeelMutex *)((char *)&mutex + 4)), EVENKEEL_STATUS_MISALIGNED);
    CHECK(evenkeel_mutex_init(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_mutex_unlock(&mutex), EVENKEEL_STATUS_NOT_LOCKED);
    CHECK(evenkeel_mutex_lock(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_mutex_try_lock(&mutex), EVENKEEL_STATUS_WOULD_BLOCK);
    CHECK(evenkeel_mutex_lock(&mutex), EVENKEEL_STATUS_BUSY);
    HOLDS(pthread_create(&other, NULL, unlocks, &mutex) == 0 && pthread_join(other, &status) == 0);
    HOLDS((uintptr_t)status == EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_mutex_destroy(&mutex), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_mutex_unlock(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_mutex_destroy(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_init(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_NOT_LOCKED);
    CHECK(evenkeel_rw_lock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_write(&lock), EVENKEEL_STATUS_NOT_LOCKED);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_write(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_NOT_LOCKED);
    CHECK(evenkeel_rw_lock_try_read(&lock), EVENKEEL_STATUS_WOULD_BLOCK);
    CHECK(evenkeel_rw_lock_try_write(&lock), EVENKEEL_STATUS_WOULD_BLOCK);
    CHECK(evenkeel_rw_lock_write(&lock), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_rw_lock_read(&lock), EVENKEEL_STATUS_BUSY);
    HOLDS(pthread_create(&other, NULL, unlocks_write, &lock) == 0 && pthread_join(other, &status) == 0);
    HOLDS((uintptr_t)status == EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_rw_lock_unlock_write(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_try_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_try_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_try_write(&lock), EVENKEEL_STATUS_WOULD_BLOCK);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_read(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_try_write(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_unlock_write(&lock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_destroy(&lock), EVENKEEL_STATUS_OK);
    /* A destroyed lock, and a lock of another kind. */
    CHECK(evenkeel_mutex_lock(&mutex), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_mutex_destroy(&mutex), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_mutex_init(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_rw_lock_read((EvenkeelRwLock *)&mutex), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_mutex_destroy(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_init(&event), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_is_set(&event, &is_set), EVENKEEL_STATUS_OK);
    HOLDS(is_set == 0);
    CHECK(evenkeel_event_set(&event), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_wait(&event), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_destroy(&event), EVENKEEL_STATUS_OK);
    HOLDS(many != NULL);
    for (i = 0; i < MANY; i++) {
        CHECK(evenkeel_mutex_init(&many[i]), EVENKEEL_STATUS_OK);
        CHECK(evenkeel_mutex_lock(&many[i]), EVENKEEL_STATUS_OK);
    }
    free(many);
    return 0;
}

static int values(void)
{
    EvenkeelClockSettings settings;
    EvenkeelThreadConfig config;
    EvenkeelThread *thread = NULL;
    EvenkeelClock *clock = NULL;
    EvenkeelSummary summary;
    EvenkeelDone done;
    char text[256];
    static char json[65536];
    uint32_t scope, again;
    int i;
    size_t needed;

    CHECK(EVENKEEL_INIT(&settings), EVENKEEL_STATUS_OK);
    settings.overrun = 3;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_last_error(text, sizeof text), EVENKEEL_STATUS_OK);
    HOLDS(strstr(text, "3") != NULL);
    settings.overrun = EVENKEEL_OVERRUN_CATCH_UP;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.catch_up_at_most = 5;
    settings.spinning = 9;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.spinning = 0;
    settings.period_ns = 999;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.period_ns = 0;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_set_period(clock, 0), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_clock_shift(clock, INT64_MIN), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(EVENKEEL_INIT(&summary), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_lateness(clock, &summary), EVENKEEL_STATUS_NO_DATA);
    CHECK(EVENKEEL_INIT(&done), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_clock_done(clock, &done), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_OK);

    CHECK(EVENKEEL_INIT(&config), EVENKEEL_STATUS_OK);
    config.cpus = "one and two";
    CHECK(evenkeel_thread_new(&config, &thread), EVENKEEL_STATUS_BAD_TEXT);
    config.cpus = NULL;
    config.fifo_priority = 100;
    CHECK(evenkeel_thread_new(&config, &thread), EVENKEEL_STATUS_OUT_OF_RANGE);

    CHECK(evenkeel_scope_register("", &scope), EVENKEEL_STATUS_BAD_TEXT);
    CHECK(evenkeel_scope_register("\xff", &scope), EVENKEEL_STATUS_BAD_TEXT);
    CHECK(evenkeel_scope_enter(0), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_scope_enter(123456), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_scope_register("deep", &scope), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_register("deep", &again), EVENKEEL_STATUS_OK);
    HOLDS(scope == again);
    for (i = 0; i < 128; i++)
        CHECK(evenkeel_scope_enter(scope), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_enter(scope), EVENKEEL_STATUS_NO_ROOM);
    for (i = 0; i < 128; i++)
        CHECK(evenkeel_scope_leave(scope), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_leave(scope), EVENKEEL_STATUS_BAD_HANDLE);
#ifdef EVENKEEL_SCOPE
    {
        EVENKEEL_SCOPE(scope);
        EVENKEEL_SCOPE(again);
        EVENKEEL_SCOPE(123456);
        CHECK(evenkeel_scope_leave(scope), EVENKEEL_STATUS_OK);
        CHECK(evenkeel_scope_enter(scope), EVENKEEL_STATUS_OK);
    }
    CHECK(evenkeel_scope_leave(scope), EVENKEEL_STATUS_BAD_HANDLE);
#endif
    /* No thread records. */
    CHECK(evenkeel_scope_chrome_json(text, sizeof text, &needed), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_scope_write_chrome_json("/nowhere/at/all"), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_scope_start_thread("main", 64), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_start_thread("main", 64), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_start_thread("another", 64), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_scope_chrome_json(text, 4, &needed), EVENKEEL_STATUS_TOO_SMALL);
    HOLDS(needed > 4);
    CHECK(evenkeel_scope_chrome_json(json, sizeof json, &needed), EVENKEEL_STATUS_OK);
    HOLDS(needed == strlen(json) + 1 && json[0] == '{');
    CHECK(evenkeel_scope_write_chrome_json("/nowhere/at/all"), EVENKEEL_STATUS_REFUSED);
    return 0;
}

/* A scope that uses 20 ms of CPU time is long. One that sleeps for 20 ms is not. */
static int long_scopes(void)
{
    EvenkeelLongScope taken;
    struct timespec began, now;
    uint64_t lost = 1;
    uint32_t works, sleeps;
    int asleep;

    CHECK(evenkeel_scope_start_thread("main", 64), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_register("works", &works), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_register("sleeps", &sleeps), EVENKEEL_STATUS_OK);
    CHECK(EVENKEEL_INIT(&taken), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_take_long(&taken, NULL), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_scope_take_long(&taken, &lost), EVENKEEL_STATUS_NO_DATA);
    HOLDS(lost == 0);
    CHECK(evenkeel_scope_log_long(10 * 1000 * 1000), EVENKEEL_STATUS_OK);
    for (asleep = 0; asleep < 3; asleep++) {
        CHECK(evenkeel_scope_enter(sleeps), EVENKEEL_STATUS_OK);
        usleep(20000);
        CHECK(evenkeel_scope_leave(sleeps), EVENKEEL_STATUS_OK);
    }
    CHECK(evenkeel_scope_enter(works), EVENKEEL_STATUS_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < 20 * 1000 * 1000);
    CHECK(evenkeel_scope_leave(works), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_stop_long(), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_scope_take_long(&taken, &lost), EVENKEEL_STATUS_OK);
    /* The kernel counts a pause of the machine as CPU time if it comes right before or after a sleep. That does not happen three times. */
    for (asleep = 0; asleep < 3 && strcmp(taken.name, "sleeps") == 0; asleep++)
        CHECK(evenkeel_scope_take_long(&taken, &lost), EVENKEEL_STATUS_OK);
    HOLDS(asleep < 3);
    HOLDS(strcmp(taken.name, "works") == 0 && taken.cpu_ns >= 20 * 1000 * 1000 && taken.thread > 0 && lost == 0);
    CHECK(evenkeel_scope_take_long(&taken, &lost), EVENKEEL_STATUS_NO_DATA);
    return 0;
}

static void *unlocks_inherit(void *mutex)
{
    return (void *)(uintptr_t)evenkeel_inherit_mutex_unlock(mutex);
}

/* This lock behaves like the other locks. */
static int inherit_mutexes(void)
{
    EvenkeelInheritMutex mutex;
    pthread_t other;
    void *status = NULL;

    CHECK(evenkeel_inherit_mutex_init(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_lock(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_lock(&mutex), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_inherit_mutex_try_lock(&mutex), EVENKEEL_STATUS_WOULD_BLOCK);
    HOLDS(pthread_create(&other, NULL, unlocks_inherit, &mutex) == 0 && pthread_join(other, &status) == 0);
    CHECK((EvenkeelStatus)(uintptr_t)status, EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_inherit_mutex_destroy(&mutex), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_inherit_mutex_unlock(&mutex), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_unlock(&mutex), EVENKEEL_STATUS_NOT_LOCKED);
    CHECK(evenkeel_inherit_mutex_destroy(&mutex), EVENKEEL_STATUS_OK);
    return 0;
}

/* Two threads, each of which holds one lock and wants the other. */
typedef struct {
    EvenkeelInheritMutex first, second;
    EvenkeelEvent holds_second;
    long panics;
} Circle;

/* Waits for a lock that may be held by a thread that waits for this one. */
static void want(EvenkeelInheritMutex *mutex, long *panics)
{
    char text[256];

    if (evenkeel_inherit_mutex_lock(mutex) == EVENKEEL_STATUS_OK) {
        OK(evenkeel_inherit_mutex_unlock(mutex));
        return;
    }
    OK(evenkeel_last_error(text, sizeof text));
    HOLDS(strstr(text, "EDEADLK") != NULL || strstr(text, "E35") != NULL);
    *panics = 1;
}

static void *other_way_round(void *circle)
{
    Circle *both = circle;

    OK(evenkeel_inherit_mutex_lock(&both->second));
    OK(evenkeel_event_set(&both->holds_second));
    want(&both->first, &both->panics);
    OK(evenkeel_inherit_mutex_unlock(&both->second));
    return NULL;
}

/* The library panics here, because the kernel reports the deadlock to one of the threads. The call returns the panic as a status. */
static int a_panic_stays_inside(void)
{
    Circle both;
    pthread_t other;
    long panics = 0;

    memset(&both, 0, sizeof both);
    CHECK(evenkeel_inherit_mutex_init(&both.first), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_init(&both.second), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_init(&both.holds_second), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_lock(&both.first), EVENKEEL_STATUS_OK);
    HOLDS(pthread_create(&other, NULL, other_way_round, &both) == 0);
    CHECK(evenkeel_event_wait(&both.holds_second), EVENKEEL_STATUS_OK);
    want(&both.second, &panics);
    CHECK(evenkeel_inherit_mutex_unlock(&both.first), EVENKEEL_STATUS_OK);
    HOLDS(pthread_join(other, NULL) == 0);
    HOLDS(panics + both.panics == 1);
    CHECK(evenkeel_inherit_mutex_destroy(&both.first), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_inherit_mutex_destroy(&both.second), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_event_destroy(&both.holds_second), EVENKEEL_STATUS_OK);
    return 0;
}

static void *ticks(void *clock)
{
    EvenkeelTick tick;
    EvenkeelStatus status;

    EVENKEEL_INIT(&tick);
    /* The other thread may be using the clock just now. */
    while ((status = evenkeel_clock_wait(clock, &tick)) == EVENKEEL_STATUS_BUSY)
        ;
    return status == EVENKEEL_STATUS_OK ? clock : NULL;
}

static int two_threads_in_one_clock(void)
{
    EvenkeelClockSettings settings;
    EvenkeelClock *clock = NULL;
    EvenkeelStatus status;
    pthread_t thread;
    uint64_t due;
    void *ended = NULL;
    int looks = 0;

    CHECK(EVENKEEL_INIT(&settings), EVENKEEL_STATUS_OK);
    settings.period_ns = 300000000;
    CHECK(evenkeel_clock_new(&settings, &clock), EVENKEEL_STATUS_OK);
    HOLDS(pthread_create(&thread, NULL, ticks, clock) == 0);
    /* While the other thread waits in the clock, this thread can neither use nor free it. */
    while ((status = evenkeel_clock_next_due(clock, &due)) == EVENKEEL_STATUS_OK && looks++ < 10000)
        usleep(1000);
    CHECK(status, EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_BUSY);
    HOLDS(pthread_join(thread, &ended) == 0 && ended == clock);
    CHECK(evenkeel_clock_free(clock), EVENKEEL_STATUS_OK);
    return 0;
}

/* Uses another thread's loop: calls for the loop's own thread are refused, and calls for any thread are not. */
static void *uses_a_foreign_loop(void *loop)
{
    EvenkeelTickLoop *ticks = loop;
    EvenkeelClockReport report;
    EvenkeelTick tick;
    EvenkeelDone done;
    uint64_t due;
    char text[64];
    size_t needed;

    OK(EVENKEEL_INIT(&tick));
    OK(EVENKEEL_INIT(&done));
    OK(EVENKEEL_INIT(&report));
    CHECK(evenkeel_tick_loop_wait(ticks, &tick), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_poll(ticks, &tick), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_done(ticks, &done), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_checkpoint(ticks), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_enter_phase(ticks, 1000000, 2000000), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_next_due(ticks, &due), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_report(ticks, &report), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_advice(ticks, text, sizeof text, &needed), EVENKEEL_STATUS_WRONG_THREAD);
    OK(evenkeel_tick_loop_add(ticks, EVENKEEL_COUNT_JOBS, 3));
    return loop;
}

static void *frees_a_loop(void *loop)
{
    OK(evenkeel_tick_loop_free(loop));
    return loop;
}

static void *leaves_a_loop(void *place)
{
    EvenkeelTickLoopSettings settings;
    EvenkeelTickLoop *ticks = NULL;

    OK(EVENKEEL_INIT(&settings));
    OK(evenkeel_tick_loop_new(&settings, &ticks));
    *(EvenkeelTickLoop **)place = ticks;
    return NULL;
}

static int loops_and_threads(EvenkeelTickLoop *ticks)
{
    EvenkeelTickLoop *other = NULL;
    EvenkeelTick tick;
    pthread_t thread;
    void *ended = NULL;

    HOLDS(pthread_create(&thread, NULL, uses_a_foreign_loop, ticks) == 0);
    HOLDS(pthread_join(thread, &ended) == 0 && ended == ticks);
    /* The loop's own thread has ended. Other threads cannot use the loop, but they can free it. */
    HOLDS(pthread_create(&thread, NULL, leaves_a_loop, &other) == 0);
    HOLDS(pthread_join(thread, NULL) == 0);
    OK(EVENKEEL_INIT(&tick));
    CHECK(evenkeel_tick_loop_wait(other, &tick), EVENKEEL_STATUS_WRONG_THREAD);
    CHECK(evenkeel_tick_loop_add(other, EVENKEEL_COUNT_JOBS, 1), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_tick_loop_free(other));
    HOLDS(pthread_create(&thread, NULL, frees_a_loop, ticks) == 0);
    HOLDS(pthread_join(thread, NULL) == 0);
    CHECK(evenkeel_tick_loop_free(ticks), EVENKEEL_STATUS_BAD_HANDLE);
    return 0;
}

static int loops(const char *folder)
{
    EvenkeelTickLoopSettings settings;
    EvenkeelPhaseSettings phases;
    EvenkeelPhaseReport phase;
    EvenkeelThreadConfig thread;
    EvenkeelMemoryConfig memory;
    EvenkeelTelemetrySettings telemetry;
    EvenkeelRateSettings rate;
    EvenkeelMemoryReport memory_report;
    EvenkeelThreadReport thread_report;
    EvenkeelRateChange change;
    EvenkeelSummary summary;
    EvenkeelTickLoop *ticks = NULL;
    EvenkeelTick tick;
    EvenkeelDone done;
    double load;
    char text[16384];
    size_t needed;
    int i;

    OK(EVENKEEL_INIT(&settings));
    OK(EVENKEEL_INIT(&thread));
    OK(EVENKEEL_INIT(&memory));
    OK(EVENKEEL_INIT(&telemetry));
    OK(EVENKEEL_INIT(&rate));
    OK(EVENKEEL_INIT(&tick));
    OK(EVENKEEL_INIT(&done));
    OK(EVENKEEL_INIT(&summary));
    OK(EVENKEEL_INIT(&change));
    OK(EVENKEEL_INIT(&thread_report));
    OK(EVENKEEL_INIT(&memory_report));
    OK(EVENKEEL_INIT(&phases));
    OK(EVENKEEL_INIT(&phase));
    settings.period_ns = 999;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.period_ns = 1000000;
    settings.spinning = 9;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.spinning = EVENKEEL_SPINNING_NEVER;
    settings.scopes_count = 64;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_BAD_TEXT);
    settings.scopes_name = "another";
    /* Settings that point to a struct that was not prepared, or to structs with invalid fields. */
    memory.size = 0;
    settings.memory = &memory;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_BAD_SIZE);
    OK(EVENKEEL_INIT(&memory));
    memory.lock = EVENKEEL_MEMORY_LOCK_NOTHING;
    thread.fifo_priority = 100;
    settings.thread = &thread;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_OUT_OF_RANGE);
    thread.fifo_priority = 0;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_BUSY);
    settings.scopes_name = "main";
    settings.telemetry = &telemetry;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_NULL_POINTER);
    telemetry.session = "loop";
    telemetry.folder = "/nowhere/at/all";
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_REFUSED);
    telemetry.folder = folder;
    phases.folder = "/nowhere/at/all";
    settings.phases = &phases;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_REFUSED);
    phases.folder = folder;
    rate.sustainable = 7;
    settings.rate = &rate;
    CHECK(evenkeel_tick_loop_new(&settings, &ticks), EVENKEEL_STATUS_OUT_OF_RANGE);
    HOLDS(ticks == NULL);
    rate.sustainable = 0;
    rate.ladder_ns[0] = 1000000;
    rate.ladder_ns[1] = 5000000;
    rate.fastest_ns = 1000000;
    rate.slowest_ns = 5000000;
    OK(evenkeel_tick_loop_new(&settings, &ticks));

    OK(evenkeel_tick_loop_phase(ticks, &phase));
    HOLDS(phase.state == EVENKEEL_PHASE_STATE_ALIGNED || phase.state == EVENKEEL_PHASE_STATE_ALONE);
    CHECK(evenkeel_tick_loop_phase(ticks, NULL), EVENKEEL_STATUS_NULL_POINTER);
    CHECK(evenkeel_tick_loop_done(ticks, &done), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_tick_loop_lateness(ticks, &summary), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_tick_loop_load(ticks, &load), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_tick_loop_last_change(ticks, &change), EVENKEEL_STATUS_NO_DATA);
    CHECK(evenkeel_tick_loop_enter_phase(ticks, 2, 1), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_tick_loop_add(ticks, 99, 1), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_tick_loop_next_due((EvenkeelTickLoop *)&load, &tick.due_ns), EVENKEEL_STATUS_BAD_HANDLE);
    tick.size = 0;
    CHECK(evenkeel_tick_loop_wait(ticks, &tick), EVENKEEL_STATUS_BAD_SIZE);
    OK(EVENKEEL_INIT(&tick));
    for (i = 0; i < 3; i++) {
        OK(evenkeel_tick_loop_wait(ticks, &tick));
        HOLDS(tick.elapsed_ns == 1000000 * (1 + tick.missed));
        OK(evenkeel_tick_loop_checkpoint(ticks));
        OK(evenkeel_tick_loop_done(ticks, &done));
        HOLDS(done.number == tick.number);
    }
    CHECK(evenkeel_tick_loop_done(ticks, &done), EVENKEEL_STATUS_NO_DATA);
    while (evenkeel_tick_loop_poll(ticks, &tick) == EVENKEEL_STATUS_WOULD_BLOCK)
        usleep(100);
    OK(evenkeel_tick_loop_done(ticks, &done));
    OK(evenkeel_tick_loop_set(ticks, EVENKEEL_COUNT_PLAYERS, 12));
    OK(evenkeel_tick_loop_prometheus(ticks, text, sizeof text, &needed));
    HOLDS(strstr(text, "players") != NULL && strstr(text, " 12\n") != NULL);
    CHECK(evenkeel_tick_loop_telemetry_path(ticks, text, 1, &needed), EVENKEEL_STATUS_TOO_SMALL);
    OK(evenkeel_tick_loop_telemetry_path(ticks, text, sizeof text, &needed));
    HOLDS(strstr(text, folder) == text && access(text, R_OK) == 0);
    OK(evenkeel_tick_loop_due_to_done(ticks, &summary));
    HOLDS(summary.count == 4);
    OK(evenkeel_tick_loop_thread_report(ticks, &thread_report));
    OK(evenkeel_tick_loop_memory_report(ticks, &memory_report));
    OK(evenkeel_tick_loop_enter_phase(ticks, 5000000, 5000000));
    OK(evenkeel_tick_loop_last_change(ticks, &change));
    HOLDS(change.to_ns == 5000000 && change.why == EVENKEEL_RATE_REASON_PHASE);
    return loops_and_threads(ticks) || access(text, R_OK) == 0;
}

/* A handle of one kind is not valid as another kind, even if both are the first of their kind. */
static int kinds(void)
{
    EvenkeelMemoryConfig config;
    EvenkeelMemoryReport memory_report;
    EvenkeelUdpSettings settings;
    EvenkeelUdpReport udp_report;
    EvenkeelMemory *memory = NULL;
    EvenkeelUdp *udp = NULL;

    CHECK(EVENKEEL_INIT(&config), EVENKEEL_STATUS_OK);
    config.lock = EVENKEEL_MEMORY_LOCK_NOTHING;
    CHECK(evenkeel_memory_new(&config, &memory), EVENKEEL_STATUS_OK);
    CHECK(EVENKEEL_INIT(&settings), EVENKEEL_STATUS_OK);
    settings.address = "127.0.0.1:0";
    CHECK(evenkeel_udp_new(&settings, &udp), EVENKEEL_STATUS_OK);
    CHECK(EVENKEEL_INIT(&memory_report), EVENKEEL_STATUS_OK);
    CHECK(EVENKEEL_INIT(&udp_report), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_udp_report((EvenkeelUdp *)memory, &udp_report), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_memory_report((EvenkeelMemory *)udp, &memory_report), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_udp_free((EvenkeelUdp *)memory), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_udp_free(udp), EVENKEEL_STATUS_OK);
    CHECK(evenkeel_memory_free(memory), EVENKEEL_STATUS_OK);
    return 0;
}

int main(int count, char **arguments)
{
    HOLDS(count == 2);
    HOLDS(evenkeel_abi_version() == EVENKEEL_ABI_VERSION);
    HOLDS(strlen(evenkeel_version()) > 0);
    return older_and_newer_callers() || handles() || locks() || kinds() || values() || long_scopes() || inherit_mutexes() || a_panic_stays_inside()
        || loops(arguments[1]) || two_threads_in_one_clock();
}
