/* A server in C: 50 ticks a second, the work of a tick as jobs on several threads, and a scope that measures it. */
#include <evenkeel_rt.h>
#include <stdio.h>
#include <stdlib.h>
static double players[1000];

static void must(EvenkeelStatus status, const char *what)
{
    char why[256];
    if (status == EVENKEEL_STATUS_OK) return;
    evenkeel_last_error(why, sizeof why);
    fprintf(stderr, "failed to %s: %s: %s\n", what, evenkeel_status_text(status), why);
    exit(1);
}

static void move_player(size_t player, void *seconds) { players[player] += *(double *)seconds; }
static void move_all(EvenkeelFrame *frame, void *seconds)
{
    must(evenkeel_frame_for_each(frame, 0, 1000, 100, move_player, seconds), "push jobs"); /* queue 0, 100 a job */
}

int main(void)
{
    EvenkeelTickLoopSettings settings;
    EvenkeelTickLoop *ticks;
    EvenkeelJobSettings job_settings;
    EvenkeelJobs *jobs;
    EvenkeelTick tick;
    EvenkeelDone done;
    char text[2048];
    size_t needed;
    double seconds;
    uint32_t move, i;

    EVENKEEL_INIT(&tick);
    EVENKEEL_INIT(&done);
    EVENKEEL_INIT(&settings);                    /* all zero: the defaults */
    settings.period_ns = 20 * 1000 * 1000;       /* 50 ticks a second */
    settings.scopes_name = "tick";
    must(evenkeel_tick_loop_new(&settings, &ticks), "start the loop"); /* on the thread that ticks */
    must(evenkeel_tick_loop_advice(ticks, text, sizeof text, &needed), "read the advice");
    fputs(text, stderr);                         /* a line for each setting that the kernel refused */
    EVENKEEL_INIT(&job_settings);
    job_settings.workers = 2;
    must(evenkeel_jobs_new(&job_settings, &jobs), "start the workers");
    must(evenkeel_scope_register("move players", &move), "name the scope");
    for (i = 0; i < 20; i++) {
        must(evenkeel_tick_loop_wait(ticks, &tick), "wait"); /* sleeps until the tick is due */
        seconds = (double)tick.elapsed_ns / 1e9; /* one period, and one for each missed tick */
        evenkeel_scope_enter(move);
        must(evenkeel_jobs_frame(jobs, move_all, &seconds), "run jobs"); /* returns when all are done */
        evenkeel_scope_leave(move);
        must(evenkeel_tick_loop_done(ticks, &done), "end the tick");
    }
    must(evenkeel_tick_loop_report_text(ticks, text, sizeof text, &needed), "report");
    fputs(text, stdout);
    evenkeel_jobs_free(jobs);
    return evenkeel_tick_loop_free(ticks) == EVENKEEL_STATUS_OK ? 0 : 1;
}
