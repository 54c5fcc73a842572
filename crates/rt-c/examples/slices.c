/* Jobs on CPUs that a hypervisor gives in time slices: one thread pinned to each CPU, and no job on a CPU that is about to be taken away.
 *
 * usage: slices [CPU...]     such as: slices 0 1; [default: 0] */
#include <evenkeel_rt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPUS_MAX = 8, JOBS = 64, FRAMES = 50 };
static volatile double sums[JOBS];

static void must(EvenkeelStatus status, const char *what)
{
    char why[256];
    if (status == EVENKEEL_STATUS_OK) return;
    evenkeel_last_error(why, sizeof why);
    fprintf(stderr, "failed to %s: %s: %s\n", what, evenkeel_status_text(status), why);
    exit(1);
}

static void work(size_t number, void *unused)
{
    int i;
    (void)unused;
    for (i = 0; i < 20000; i++) sums[number] += i;
}

static void body(EvenkeelFrame *frame, void *unused) { must(evenkeel_frame_for_each(frame, 0, JOBS, 1, work, unused), "push jobs"); }

/* Any thread or job may ask this, for example to find out whether there is time for a long step. */
static void print_slice(EvenkeelJobs *jobs, const char *cpu)
{
    EvenkeelCpuSlice slice;
    EVENKEEL_INIT(&slice);
    must(evenkeel_jobs_cpu_slice(jobs, (uint32_t)strtoul(cpu, NULL, 10), &slice), "ask for a CPU's slice");
    if (slice.pinned == EVENKEEL_APPLY_STATUS_REFUSED)
        printf("CPU %s: not followed: %s\n", cpu, strerror(slice.pinned_errno));
    else if (!slice.is_known)
        printf("CPU %s: no slices known\n", cpu);
    else
        printf("CPU %s: %.1f of %.1f ms, %.1f ms left now\n", cpu, (double)slice.share_ns / 1e6,
               (double)slice.period_ns / 1e6, (double)slice.left_ns / 1e6);
}

int main(int count, char **arguments)
{
    static char first[] = "0", *alone[] = {first};
    char **cpus = count > 1 ? arguments + 1 : alone, list[128] = "";
    const size_t cpus_count = count > 1 ? (size_t)count - 1 : 1;
    EvenkeelThreadConfig configs[CPUS_MAX];
    EvenkeelWorkerSettings workers[CPUS_MAX];
    const EvenkeelWorkerSettings *own_workers[CPUS_MAX];
    EvenkeelTickLoopSettings settings;
    EvenkeelTickLoop *ticks;
    EvenkeelJobSettings job_settings;
    EvenkeelJobs *jobs;
    EvenkeelTick tick;
    EvenkeelFrameCounters counters;
    uint64_t left = 0;
    size_t i;

    if (cpus_count > CPUS_MAX) return 2;
    for (i = 0; i < cpus_count; i++) {
        EVENKEEL_INIT(&configs[i]);
        configs[i].cpus = cpus[i];
        EVENKEEL_INIT(&workers[i]);
        workers[i].queues_count = 1;                       /* of queue 0 */
        workers[i].thread = &configs[i];
        own_workers[i] = &workers[i];
        if (strlen(list) + strlen(cpus[i]) + 2 > sizeof list) return 2;
        strcat(strcat(list, i == 0 ? "" : ","), cpus[i]);
    }
    EVENKEEL_INIT(&settings);
    settings.thread = &configs[0];                         /* the thread that ticks is on the first CPU, */
    must(evenkeel_tick_loop_new(&settings, &ticks), "start the loop");
    EVENKEEL_INIT(&job_settings);
    job_settings.own_workers = own_workers + 1;            /* and a worker on each of the others */
    job_settings.own_workers_count = cpus_count - 1;
    job_settings.slice_cpus = list;
    must(evenkeel_jobs_new(&job_settings, &jobs), "start the workers");
    EVENKEEL_INIT(&tick);
    EVENKEEL_INIT(&counters);
    for (i = 0; i < FRAMES; i++) {
        must(evenkeel_tick_loop_wait(ticks, &tick), "wait");
        must(evenkeel_jobs_frame(jobs, body, NULL), "run jobs");
        must(evenkeel_jobs_last_frame(jobs, &counters), "read the counters");
        left += counters.left;
    }
    for (i = 0; i < cpus_count; i++) print_slice(jobs, cpus[i]);
    printf("%d frames, jobs left to other CPUs %" PRIu64 " times\n", FRAMES, left);
    must(evenkeel_jobs_free(jobs), "end the workers");
    return evenkeel_tick_loop_free(ticks) == EVENKEEL_STATUS_OK ? 0 : 1;
}
