/* A loop in C from single parts: sets up its thread, ticks a hundred times, and prints how well the ticks kept time. */
#include <evenkeel_rt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void must(EvenkeelStatus status, const char *what)
{
    char more[256];

    if (status == EVENKEEL_STATUS_OK)
        return;
    evenkeel_last_error(more, sizeof more);
    fprintf(stderr, "%s: %s: %s\n", what, evenkeel_status_text(status), more);
    exit(1);
}

int main(void)
{
    EvenkeelThreadConfig config;
    EvenkeelThreadReport got;
    EvenkeelThread *thread;
    EvenkeelClockSettings settings;
    EvenkeelClock *clock;
    EvenkeelSummary felt;
    EvenkeelClockReport report;
    uint32_t move;
    int i;

    /* The kernel settings of the thread. A refused setting is not an error: the report lists it. */
    EVENKEEL_INIT(&config);
    must(evenkeel_thread_new(&config, &thread), "set the thread up");
    EVENKEEL_INIT(&got);
    must(evenkeel_thread_report(thread, &got), "thread report");
    printf("timer slack: %s\n", got.timer_slack == EVENKEEL_APPLY_STATUS_ACTIVE ? "active" : "not active");

    /* Once, before the first tick: allocate the profiler's memory and register names. */
    must(evenkeel_scope_start_thread("tick", 4096), "start the profiler");
    must(evenkeel_scope_register("move players", &move), "name a scope");

    EVENKEEL_INIT(&settings);
    settings.period_ns = 5 * 1000 * 1000;
    settings.overrun = EVENKEEL_OVERRUN_SKIP;
    must(evenkeel_clock_new(&settings, &clock), "start the clock");
    must(evenkeel_clock_take_thread(clock, thread), "hand the thread over");

    for (i = 0; i < 100; i++) {
        EvenkeelTick tick;
        EvenkeelDone done;

        EVENKEEL_INIT(&tick);
        must(evenkeel_clock_wait(clock, &tick), "wait");

        evenkeel_scope_enter(move);
        /* ... move the world by (1 + tick.missed) periods ... */
        evenkeel_scope_leave(move);

        EVENKEEL_INIT(&done);
        must(evenkeel_clock_done(clock, &done), "done");
    }

    EVENKEEL_INIT(&report);
    must(evenkeel_clock_report(clock, &report), "report");
    EVENKEEL_INIT(&felt);
    must(evenkeel_clock_due_to_done(clock, &felt), "due to done");
    printf("%" PRIu64 " ticks, %" PRIu64 " missed, due to done %" PRIu64 " ns at the median, %" PRIu64 " ns at p99\n",
           report.ticks, report.missed, felt.p50_ns, felt.p99_ns);
    must(evenkeel_clock_free(clock), "free the clock");
    return 0;
}
