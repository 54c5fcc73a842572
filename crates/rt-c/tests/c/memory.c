/* Locked memory, the page faults of a tick, and long waits. Exits with 0, or with the line that failed. */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { PAGES = 512, PAGE = 4096 };

static EvenkeelMutex mutex;
static EvenkeelEvent held;

static void *holder(void *none)
{
    struct timespec ten_ms = {0, 10 * 1000 * 1000};

    OK(evenkeel_mutex_lock(&mutex));
    OK(evenkeel_event_set(&held));
    nanosleep(&ten_ms, NULL);
    OK(evenkeel_mutex_unlock(&mutex));
    return none;
}

static void memory(void)
{
    EvenkeelMemoryConfig config;
    EvenkeelMemoryReport report;
    EvenkeelTickMemory cost, quiet;
    EvenkeelClockSettings settings;
    EvenkeelTick tick;
    EvenkeelDone done;
    EvenkeelMemory *memory;
    EvenkeelClock *clock;
    char advice[2048], *pages;
    size_t needed, at;

    EVENKEEL_INIT(&config);
    config.lock = 9;
    CHECK(evenkeel_memory_new(&config, &memory), EVENKEEL_STATUS_OUT_OF_RANGE);
    config.lock = EVENKEEL_MEMORY_LOCK_NOTHING;
    OK(evenkeel_memory_new(&config, &memory));
    EVENKEEL_INIT(&report);
    OK(evenkeel_memory_report(memory, &report));
    HOLDS(report.present == EVENKEEL_APPLY_STATUS_NOT_REQUESTED && report.stack == EVENKEEL_APPLY_STATUS_ACTIVE);
    OK(evenkeel_memory_advice(memory, advice, sizeof advice, &needed));
    HOLDS(needed == strlen(advice) + 1);

    EVENKEEL_INIT(&settings);
    settings.period_ns = 2 * 1000 * 1000;
    OK(evenkeel_clock_new(&settings, &clock));
    EVENKEEL_INIT(&tick);
    EVENKEEL_INIT(&done);
    EVENKEEL_INIT(&cost);
    EVENKEEL_INIT(&quiet);
    CHECK(evenkeel_memory_after(memory, clock, &cost), EVENKEEL_STATUS_NO_DATA);
    OK(evenkeel_clock_wait(clock, &tick));
    pages = malloc(PAGES * PAGE);
    HOLDS(pages != NULL);
    for (at = 0; at < PAGES; at++)
        ((volatile char *)pages)[at * PAGE] = 1;
    OK(evenkeel_clock_done(clock, &done));
    OK(evenkeel_memory_after(memory, clock, &cost));
    free(pages);
    /* One huge page may replace many small ones. */
    HOLDS(cost.minor_faults >= 1 && cost.minor_faults != UINT64_MAX);
    OK(evenkeel_clock_wait(clock, &tick));
    OK(evenkeel_clock_done(clock, &done));
    OK(evenkeel_memory_after(memory, clock, &quiet));
    HOLDS(quiet.minor_faults <= cost.minor_faults);

    pages = malloc(PAGES * PAGE);
    HOLDS(pages != NULL);
    memset(pages, 7, 64);
    if (evenkeel_memory_prefault(pages, PAGES * PAGE) == EVENKEEL_STATUS_OK)
        HOLDS(pages[0] == 7 && pages[63] == 7);
    CHECK(evenkeel_memory_prefault(NULL, 1), EVENKEEL_STATUS_NULL_POINTER);
    free(pages);
    OK(evenkeel_clock_free(clock));
    OK(evenkeel_memory_free(memory));
    CHECK(evenkeel_memory_report(memory, &report), EVENKEEL_STATUS_BAD_HANDLE);
}

static void waits(void)
{
    EvenkeelLongWait wait;
    uint64_t lost = 1;
    pthread_t thread;

    EVENKEEL_INIT(&wait);
    CHECK(evenkeel_waits_take(&wait, &lost), EVENKEEL_STATUS_NO_DATA);
    HOLDS(lost == 0);
    OK(evenkeel_mutex_init(&mutex));
    OK(evenkeel_event_init(&held));
    HOLDS(pthread_create(&thread, NULL, holder, NULL) == 0);
    OK(evenkeel_event_wait(&held));
    OK(evenkeel_waits_log_over(1000 * 1000));
    OK(evenkeel_mutex_lock(&mutex));
    OK(evenkeel_mutex_unlock(&mutex));
    OK(evenkeel_waits_stop_log());
    HOLDS(pthread_join(thread, NULL) == 0);
    /* If the other thread was so late that the lock was free again, there was no wait. */
    if (evenkeel_waits_take(&wait, &lost) == EVENKEEL_STATUS_OK) {
        HOLDS(wait.kind == EVENKEEL_WAIT_KIND_MUTEX && wait.length_ns > 0 && wait.lock != 0 && lost == 0);
        CHECK(evenkeel_waits_take(&wait, &lost), EVENKEEL_STATUS_NO_DATA);
    } else {
        fprintf(stderr, "no wait was seen\n");
    }
    OK(evenkeel_mutex_destroy(&mutex));
    OK(evenkeel_event_destroy(&held));
}

int main(void)
{
    memory();
    waits();
    return 0;
}
