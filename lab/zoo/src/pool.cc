// A thread pool with a timer thread, 60 Hz: the timer wakes at set times and hands 4 jobs of 300 us to 3 workers. No thread is the tick:
// the timer does no work, and each worker has a share that changes from tick to tick. It prints its own count at SIGTERM.
#include <algorithm>
#include "work.h"
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <queue>
#include <thread>
static std::atomic<bool> stop{false};
int main() {
    std::signal(SIGTERM, [](int) { stop = true; });
    std::signal(SIGINT, [](int) { stop = true; });
    const uint64_t rounds = zoo_rounds_for(300);
    std::mutex lock;
    std::condition_variable wake;
    std::queue<uint64_t> jobs;
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; i++) {
        workers.emplace_back([&] {
            std::unique_lock<std::mutex> held(lock);
            for (;;) {
                wake.wait(held, [&] { return stop || !jobs.empty(); });
                if (jobs.empty()) return;
                uint64_t job = jobs.front();
                jobs.pop();
                held.unlock();
                zoo_rounds(job);
                held.lock();
            }
        });
        pthread_setname_np(workers.back().native_handle(), ("pool-" + std::to_string(i)).c_str());
    }
    pthread_setname_np(pthread_self(), "timer");
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    auto due = start;
    uint64_t ticks = 0;
    while (!stop) {
        due += std::chrono::nanoseconds(1000000000 / 60);
        std::this_thread::sleep_until(due);
        {
            std::lock_guard<std::mutex> held(lock);
            for (int i = 0; i < 4; i++) jobs.push(rounds);
        }
        wake.notify_all();
        ticks++;
    }
    const double seconds = std::chrono::duration<double>(clock::now() - start).count();
    { std::lock_guard<std::mutex> held(lock); }
    wake.notify_all();
    for (auto &worker : workers) worker.join();
    std::fprintf(stderr, "zoo: %llu ticks in %.3f s, %.3f Hz\n", (unsigned long long)ticks, seconds, ticks / seconds);
}
