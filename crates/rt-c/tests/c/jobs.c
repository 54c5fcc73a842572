/* Jobs from C: many jobs, jobs in order, loops over a range, asynchronous jobs, and errors. Exits with 0, or with the line that failed. */
#include "check.h"
#include <stdatomic.h>

enum { MANY = 1000 };

typedef struct {
    EvenkeelJobs *jobs;
    EvenkeelFrame *seen;
    atomic_int ran, nested, order, wrong, later, has_no_workers;
    int cells[MANY];
} World;

static void one(EvenkeelFrame *frame, void *context)
{
    World *world = context;

    (void)frame;
    atomic_fetch_add(&world->ran, 1);
}

static void nests(EvenkeelFrame *frame, void *context)
{
    World *world = context;

    atomic_fetch_add(&world->nested, 1);
    OK(evenkeel_frame_push(frame, 0, one, world));
}

static void first(EvenkeelFrame *frame, void *context)
{
    World *world = context;

    (void)frame;
    if (atomic_fetch_add(&world->order, 1) != 0)
        atomic_store(&world->wrong, 1);
}

static void second(EvenkeelFrame *frame, void *context)
{
    World *world = context;

    (void)frame;
    if (atomic_fetch_add(&world->order, 1) != 1)
        atomic_store(&world->wrong, 1);
}

static void later(EvenkeelFrame *frame, void *context)
{
    World *world = context;

    if (frame != NULL)
        atomic_store(&world->wrong, 1);
    atomic_fetch_add(&world->later, 1);
}

/* A job cannot wait for a job that may be beneath it on the stack. Without workers, it can wait for no job that it pushed. */
static void waits(EvenkeelFrame *frame, void *context)
{
    World *world = context;
    uint32_t number = 0;
    EvenkeelStatus status;

    OK(evenkeel_frame_push_after(frame, 0, one, world, NULL, 0, &number));
    status = evenkeel_frame_wait(frame, number);
    if (status != EVENKEEL_STATUS_WOULD_BLOCK && (world->has_no_workers || status != EVENKEEL_STATUS_OK))
        atomic_store(&world->wrong, 1);
}

static void cell(size_t number, void *context)
{
    ((World *)context)->cells[number]++;
}

static void body(EvenkeelFrame *frame, void *context)
{
    World *world = context;
    uint32_t a, b, is_done = 7;
    uint32_t unknown = 99;
    int i;

    world->seen = frame;
    CHECK(evenkeel_frame_push_after(frame, 0, first, world, &unknown, 1, &a), EVENKEEL_STATUS_BAD_HANDLE);
    OK(evenkeel_frame_push_after(frame, 0, first, world, NULL, 0, &a));
    OK(evenkeel_frame_push_after(frame, 0, second, world, &a, 1, &b));
    CHECK(evenkeel_frame_push_after(frame, 0, second, world, &unknown, 1, &b), EVENKEEL_STATUS_BAD_HANDLE);
    OK(evenkeel_frame_wait(frame, b));
    OK(evenkeel_frame_is_done(frame, b, &is_done));
    HOLDS(is_done == 1 && atomic_load(&world->order) == 2);
    CHECK(evenkeel_frame_wait(frame, 0), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_frame_wait(frame, unknown), EVENKEEL_STATUS_BAD_HANDLE);
    CHECK(evenkeel_frame_is_done(frame, unknown, &is_done), EVENKEEL_STATUS_BAD_HANDLE);
    OK(evenkeel_frame_push(frame, 0, waits, world));
    for (i = 0; i < MANY; i++)
        OK(evenkeel_frame_push(frame, 0, i % 2 ? one : nests, world));
    OK(evenkeel_frame_for_each(frame, 0, MANY, 16, cell, world));
    CHECK(evenkeel_frame_push(frame, 1, one, world), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_frame_push(frame, 7, one, world), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_frame_push(frame, 0, NULL, world), EVENKEEL_STATUS_NULL_POINTER);
    /* Opening a frame within a frame is a second call in the same job system, so it is refused. */
    CHECK(evenkeel_jobs_frame(world->jobs, one, world), EVENKEEL_STATUS_BUSY);
    CHECK(evenkeel_jobs_free(world->jobs), EVENKEEL_STATUS_BUSY);
}

static void frames(uint32_t workers)
{
    static World world;
    EvenkeelJobSettings settings;
    EvenkeelFrameCounters counters;
    EvenkeelAsynchronous *asynchronous = NULL;
    size_t ran = 0;
    int frame, i;

    OK(EVENKEEL_INIT(&settings));
    settings.workers = workers;
    settings.caller_runs_asynchronous = workers == 0;
    OK(evenkeel_jobs_new(&settings, &world.jobs));
    for (frame = 0; frame < 20; frame++) {
        EvenkeelJobs *jobs = world.jobs;

        world = (World){0};
        world.jobs = jobs;
        world.has_no_workers = workers == 0;
        OK(evenkeel_jobs_frame(jobs, body, &world));
        HOLDS(world.ran == MANY + 1 && world.nested == MANY / 2 && world.order == 2 && !world.wrong);
        for (i = 0; i < MANY; i++)
            HOLDS(world.cells[i] == 1);
        /* A frame that has ended is not valid. */
        CHECK(evenkeel_frame_push(world.seen, 0, one, &world), EVENKEEL_STATUS_BAD_HANDLE);
    }
    OK(EVENKEEL_INIT(&counters));
    OK(evenkeel_jobs_last_frame(world.jobs, &counters));
    HOLDS(counters.jobs >= MANY + MANY / 2 + 2 && counters.by_caller + counters.by_workers == counters.jobs);

    OK(evenkeel_asynchronous_new(world.jobs, &asynchronous));
    for (i = 0; i < 100; i++)
        OK(evenkeel_asynchronous_push(asynchronous, 1, later, &world));
    CHECK(evenkeel_asynchronous_push(asynchronous, 0, later, &world), EVENKEEL_STATUS_OUT_OF_RANGE);
    OK(evenkeel_jobs_run_asynchronous(world.jobs, 1000, &ran));
    HOLDS(workers > 0 || ran == 100);
    OK(evenkeel_jobs_free(world.jobs));
    CHECK(evenkeel_asynchronous_push(asynchronous, 1, later, &world), EVENKEEL_STATUS_REFUSED);
    OK(evenkeel_asynchronous_free(asynchronous));
    /* All waiting jobs ran before the job system was freed. */
    HOLDS(world.later == 100 && !world.wrong);
}

/* Jobs that no thread would run, and jobs that are discarded. */
static void not_run(void)
{
    static World world;
    EvenkeelJobSettings settings;
    EvenkeelAsynchronous *asynchronous = NULL;
    EvenkeelJobs *jobs = NULL;
    size_t dropped = 7;

    OK(EVENKEEL_INIT(&settings));
    OK(evenkeel_jobs_new(&settings, &jobs));
    OK(evenkeel_asynchronous_new(jobs, &asynchronous));
    CHECK(evenkeel_asynchronous_push(asynchronous, 1, later, &world), EVENKEEL_STATUS_NO_WORKER);
    OK(evenkeel_asynchronous_free(asynchronous));
    CHECK(evenkeel_jobs_discard(jobs, NULL), EVENKEEL_STATUS_NULL_POINTER);
    OK(evenkeel_jobs_discard(jobs, &dropped));
    HOLDS(dropped == 0);
    CHECK(evenkeel_jobs_free(jobs), EVENKEEL_STATUS_BAD_HANDLE);
    settings.caller_runs_asynchronous = 2;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.caller_runs_asynchronous = 1;
    OK(evenkeel_jobs_new(&settings, &jobs));
    OK(evenkeel_asynchronous_new(jobs, &asynchronous));
    OK(evenkeel_asynchronous_push(asynchronous, 1, later, &world));
    OK(evenkeel_jobs_discard(jobs, &dropped));
    OK(evenkeel_asynchronous_free(asynchronous));
    HOLDS(dropped == 1 && world.later == 0);
}

static void both(EvenkeelFrame *frame, void *context)
{
    int i;

    for (i = 0; i < 100; i++)
        OK(evenkeel_frame_push(frame, (uint32_t)i % 2, one, context));
}

/* Workers with their own queues and thread settings. */
static void own_workers(void)
{
    static World world;
    EvenkeelJobSettings settings;
    EvenkeelWorkerSettings frames, rest;
    const EvenkeelWorkerSettings *workers[3] = {&frames, &rest, NULL};
    EvenkeelThreadConfig config;
    EvenkeelThreadReport report;
    EvenkeelJobs *jobs = NULL;

    OK(EVENKEEL_INIT(&settings));
    OK(EVENKEEL_INIT(&frames));
    OK(EVENKEEL_INIT(&rest));
    OK(EVENKEEL_INIT(&config));
    settings.frame_queues = 2;
    settings.own_workers_count = 2;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_NULL_POINTER);
    settings.own_workers = workers;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    frames.queues[0] = 1;
    frames.queues_count = 2;
    rest.queues[0] = 2;
    rest.queues_count = 10;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    rest.queues_count = 1;
    rest.queues[0] = 3;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    rest.queues[0] = 2;
    frames.queues[1] = 1;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    frames.queues[1] = 0;
    frames.thread = &config;
    config.cpus = "none";
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_BAD_TEXT);
    config.cpus = "0";
    settings.own_workers_count = 64;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.own_workers_count = 3;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_NULL_POINTER);
    settings.own_workers_count = 2;
    OK(evenkeel_jobs_new(&settings, &jobs));
    OK(EVENKEEL_INIT(&report));
    OK(evenkeel_jobs_worker_report(jobs, 0, &report));
    HOLDS(report.cpus == EVENKEEL_APPLY_STATUS_ACTIVE || (report.cpus == EVENKEEL_APPLY_STATUS_REFUSED && report.cpus_errno != 0));
    OK(evenkeel_jobs_worker_report(jobs, 1, &report));
    HOLDS(report.cpus == EVENKEEL_APPLY_STATUS_NOT_REQUESTED);
    CHECK(evenkeel_jobs_worker_report(jobs, 2, &report), EVENKEEL_STATUS_OUT_OF_RANGE);
    OK(evenkeel_jobs_frame(jobs, both, &world));
    HOLDS(world.ran == 100);
    OK(evenkeel_jobs_free(jobs));
}

static EvenkeelJobs *sliced;

/* A job may query the slices, although its frame is using the job system. */
static void asks(EvenkeelFrame *frame, void *context)
{
    EvenkeelCpuSlice slice;

    OK(EVENKEEL_INIT(&slice));
    OK(evenkeel_jobs_cpu_slice(sliced, 0, &slice));
    one(frame, context);
}

static void all_ask(EvenkeelFrame *frame, void *context)
{
    int i;

    for (i = 0; i < 100; i++)
        OK(evenkeel_frame_push(frame, 0, asks, context));
}

/* CPUs whose slices are followed. */
static void slices(void)
{
    static World world;
    static const char *const wrong[] = {"none", "1-0", "0-9999", "0 1"};
    EvenkeelJobSettings settings;
    EvenkeelFrameCounters counters;
    EvenkeelCpuSlice slice;
    size_t i;

    OK(EVENKEEL_INIT(&settings));
    OK(EVENKEEL_INIT(&slice));
    OK(EVENKEEL_INIT(&counters));
    settings.workers = 1;
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        settings.slice_cpus = wrong[i];
        CHECK(evenkeel_jobs_new(&settings, &sliced), EVENKEEL_STATUS_BAD_TEXT);
    }
    settings.slice_cpus = "0,256";
    CHECK(evenkeel_jobs_new(&settings, &sliced), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.slice_cpus = "";
    OK(evenkeel_jobs_new(&settings, &sliced));
    CHECK(evenkeel_jobs_cpu_slice(sliced, 0, &slice), EVENKEEL_STATUS_OUT_OF_RANGE);
    OK(evenkeel_jobs_free(sliced));
    CHECK(evenkeel_jobs_cpu_slice(sliced, 0, &slice), EVENKEEL_STATUS_BAD_HANDLE);

    /* The report shows the errno for a CPU that does not exist. No machine that runs this test has CPU 255. */
    settings.slice_cpus = "0,255";
    OK(evenkeel_jobs_new(&settings, &sliced));
    CHECK(evenkeel_jobs_cpu_slice(sliced, 1, &slice), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_jobs_cpu_slice(sliced, UINT32_MAX, &slice), EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(evenkeel_jobs_cpu_slice(sliced, 0, NULL), EVENKEEL_STATUS_NULL_POINTER);
    do
        OK(evenkeel_jobs_cpu_slice(sliced, 255, &slice));
    while (slice.pinned == EVENKEEL_APPLY_STATUS_NOT_REQUESTED);
    HOLDS(slice.pinned == EVENKEEL_APPLY_STATUS_REFUSED && slice.pinned_errno != 0 && !slice.is_known);
    HOLDS(slice.size == sizeof slice && slice.left_ns == 0 && slice.period_ns == 0);
    OK(evenkeel_jobs_frame(sliced, all_ask, &world));
    OK(evenkeel_jobs_last_frame(sliced, &counters));
    HOLDS(world.ran == 100 && counters.jobs == 100);
    OK(evenkeel_jobs_free(sliced));
}

int main(void)
{
    EvenkeelJobSettings settings;
    EvenkeelJobs *jobs = NULL;

    OK(EVENKEEL_INIT(&settings));
    settings.workers = 64;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    settings.workers = 0;
    settings.frame_queues = 9;
    CHECK(evenkeel_jobs_new(&settings, &jobs), EVENKEEL_STATUS_OUT_OF_RANGE);
    frames(0);
    frames(2);
    not_run();
    own_workers();
    slices();
    return 0;
}
