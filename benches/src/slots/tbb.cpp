// Runs the same frames of jobs as `mod.rs`, on oneTBB: `slots CPU CPU WARM FRAMES`. For each counted frame it prints a line: the
// milliseconds from due to the end of the last job.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <time.h>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

static const uint64_t PERIOD_NS = 20000000, WORK_NS = 6000000, JOB_NS_MIN = 50000, JOB_NS_MAX = 500000;

static uint64_t now_ns(clockid_t clock) {
    timespec at;
    clock_gettime(clock, &at);
    return uint64_t(at.tv_sec) * 1000000000u + uint64_t(at.tv_nsec);
}

static void pin(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) exit(1);
}

static std::vector<uint64_t> jobs_ns(uint64_t frame) {
    uint64_t chance = 88172645463325252u ^ ((frame + 1) * 0x9E3779B97F4A7C15u), left_ns = WORK_NS;
    std::vector<uint64_t> jobs;
    while (left_ns > 0) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        uint64_t ns = JOB_NS_MIN + chance % (JOB_NS_MAX - JOB_NS_MIN);
        if (ns > left_ns) ns = left_ns;
        jobs.push_back(ns);
        left_ns -= ns;
    }
    return jobs;
}

static void work(uint64_t ns, std::atomic<uint64_t> &done_ns) {
    uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns) __builtin_ia32_pause();
    uint64_t ended_ns = now_ns(CLOCK_MONOTONIC), before_ns = done_ns.load();
    while (before_ns < ended_ns && !done_ns.compare_exchange_weak(before_ns, ended_ns)) {}
}

struct Pinned : tbb::task_scheduler_observer {
    int cpus[2];
    Pinned(tbb::task_arena &arena, int first, int second) : tbb::task_scheduler_observer(arena), cpus{first, second} { observe(true); }
    void on_scheduler_entry(bool) override {
        int at = tbb::this_task_arena::current_thread_index();
        if (at >= 0 && at < 2) pin(cpus[at]);
    }
    ~Pinned() { observe(false); }
};

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int first = atoi(arguments[1]), second = atoi(arguments[2]), warm = atoi(arguments[3]), frames = atoi(arguments[4]);
    pin(first);
    tbb::global_control control(tbb::global_control::max_allowed_parallelism, 2);
    tbb::task_arena arena(2);
    Pinned pinned(arena, first, second);
    uint64_t due_ns = now_ns(CLOCK_MONOTONIC) + now_ns(CLOCK_REALTIME) % PERIOD_NS;
    for (int at = 0; at < warm + frames; at++) {
        std::vector<uint64_t> jobs = jobs_ns(uint64_t(at));
        std::atomic<uint64_t> done_ns{0};
        due_ns += PERIOD_NS;
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        if (now > due_ns) due_ns += (now - due_ns) / PERIOD_NS * PERIOD_NS;
        timespec due = {time_t(due_ns / 1000000000u), long(due_ns % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
        arena.execute([&] {
            tbb::task_group group;
            for (uint64_t ns : jobs) group.run([ns, &done_ns] { work(ns, done_ns); });
            group.wait();
        });
        if (at >= warm) printf("%.6f\n", double(done_ns.load() - due_ns) / 1e6);
    }
    return 0;
}
