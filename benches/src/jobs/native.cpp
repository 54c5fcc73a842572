// The same measurement as of the Rust pools, with a C++ pool: `native MEASURE WORK THREADS CPU,CPU…` prints one number. Compiled with
// -DONETBB or -DTASKFLOW.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <time.h>

#ifdef ONETBB
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#endif
#ifdef TASKFLOW
#include <taskflow/taskflow.hpp>
#endif

static const int JOBS = 1000;

static uint64_t now_ns(clockid_t clock) {
    timespec at;
    clock_gettime(clock, &at);
    return uint64_t(at.tv_sec) * 1000000000u + uint64_t(at.tv_nsec);
}

// Never inlined: the time of a step depends on the code around it, and a job must take the measured time.
__attribute__((noinline)) static void work(uint64_t steps) {
    for (uint64_t step = 0; step < steps; step++) asm volatile("" : : "r,m"(step) : "memory");
}

static uint64_t steps_of_a_microsecond() {
    const uint64_t tried = 10000;
    uint64_t quickest_ns = ~uint64_t(0);
    for (int at = 0; at < 200; at++) {
        uint64_t start_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        work(tried);
        uint64_t took_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
        if (took_ns < quickest_ns) quickest_ns = took_ns;
    }
    return tried * 1000 / (quickest_ns ? quickest_ns : 1);
}

template <class Frame> static void at_fifty_hertz(int frames, Frame frame) {
    uint64_t due_ns = now_ns(CLOCK_MONOTONIC);
    for (int at = 0; at < frames; at++) {
        due_ns += 20000000;
        timespec due = {time_t(due_ns / 1000000000u), long(due_ns % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
        frame();
    }
}

template <class Frame> static double take(const char *measure, Frame frame) {
    for (int at = 0; at < 5; at++) frame();
    if (!strcmp(measure, "job")) {
        uint64_t began_ns = now_ns(CLOCK_MONOTONIC), ended_ns;
        int frames = 0;
        do {
            frame();
            frames++;
            ended_ns = now_ns(CLOCK_MONOTONIC);
        } while (ended_ns - began_ns < 100000000);
        return double(ended_ns - began_ns) / frames / JOBS;
    }
    if (!strcmp(measure, "frame-cpu")) {
        uint64_t began_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        at_fifty_hertz(25, frame);
        return double(now_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns) / 25 / 1e3;
    }
    uint64_t slowest_ns = 0;
    at_fifty_hertz(100, [&] {
        uint64_t began_ns = now_ns(CLOCK_MONOTONIC);
        frame();
        uint64_t took_ns = now_ns(CLOCK_MONOTONIC) - began_ns;
        if (took_ns > slowest_ns) slowest_ns = took_ns;
    });
    return double(slowest_ns) / 1e3;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    const char *measure = arguments[1];
    int threads = atoi(arguments[3]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (char *at = strtok(arguments[4], ","); at; at = strtok(nullptr, ",")) CPU_SET(atoi(at), &cpus);
    if (threads < 1 || sched_setaffinity(0, sizeof cpus, &cpus)) return 1;
    uint64_t steps = strcmp(arguments[2], "empty") ? steps_of_a_microsecond() : 0;
#ifdef ONETBB
    tbb::global_control control(tbb::global_control::max_allowed_parallelism, size_t(threads));
    tbb::task_arena arena(threads);
    double number = take(measure, [&] {
        arena.execute([&] {
            tbb::task_group group;
            for (int job = 0; job < JOBS; job++) group.run([steps] { work(steps); });
            group.wait();
        });
    });
#endif
#ifdef TASKFLOW
    // The calling thread only waits, so all of them are the executor's.
    tf::Executor executor(static_cast<size_t>(threads));
    double number = take(measure, [&] {
        for (int job = 0; job < JOBS; job++) executor.silent_async([steps] { work(steps); });
        executor.wait_for_all();
    });
#endif
    printf("%.3f\n", number);
    return 0;
}
