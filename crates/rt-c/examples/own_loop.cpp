// An engine that owns its loop, in C++: it asks when the next tick is due, does its other work until then, and begins the tick when it is
// due.
#include <evenkeel_rt.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

namespace {

void must(EvenkeelStatus status, const char *what) {
    if (status == EVENKEEL_STATUS_OK) return;
    std::fprintf(stderr, "%s: %s\n", what, evenkeel_status_text(status));
    std::exit(1);
}

struct Free {
    void operator()(EvenkeelClock *clock) const { evenkeel_clock_free(clock); }
};

template <typename T>
T prepared() {
    T structure;
    EVENKEEL_INIT(&structure);
    return structure;
}

// A mutex for std::lock_guard. The library's lock is a member, so nothing is allocated.
class Mutex {
public:
    Mutex() { must(evenkeel_mutex_init(&own), "prepare a lock"); }
    ~Mutex() { evenkeel_mutex_destroy(&own); }
    Mutex(const Mutex &) = delete;
    Mutex &operator=(const Mutex &) = delete;
    void lock() { must(evenkeel_mutex_lock(&own), "lock"); }
    void unlock() { must(evenkeel_mutex_unlock(&own), "unlock"); }

private:
    EvenkeelMutex own;
};

}  // namespace

int main() {
    auto settings = prepared<EvenkeelClockSettings>();
    settings.period_ns = 5'000'000;
    settings.spinning = EVENKEEL_SPINNING_NEVER;
    EvenkeelClock *made = nullptr;
    must(evenkeel_clock_new(&settings, &made), "start the clock");
    const std::unique_ptr<EvenkeelClock, Free> clock(made);

    Mutex world;
    long moved = 0;
    EvenkeelEvent ended;
    must(evenkeel_event_init(&ended), "prepare an event");
    std::thread watcher([&] {
        must(evenkeel_event_wait(&ended), "wait for the end");
        const std::lock_guard<Mutex> held(world);
        std::printf("moved %ld periods\n", moved);
    });

    int ticks = 0;
    long idle = 0;
    while (ticks < 50) {
        auto tick = prepared<EvenkeelTick>();
        const auto status = evenkeel_clock_poll(clock.get(), &tick);
        if (status == EVENKEEL_STATUS_WOULD_BLOCK) {
            // The engine's other work goes here: the network, or a sleep until the deadline.
            std::uint64_t due = 0, now = 0;
            must(evenkeel_clock_next_due(clock.get(), &due), "next due");
            must(evenkeel_now_ns(&now), "now");
            if (due > now) std::this_thread::sleep_for(std::chrono::nanoseconds((due - now + 1) / 2));
            ++idle;
            continue;
        }
        must(status, "poll");
        {
            const std::lock_guard<Mutex> held(world);
            moved += 1 + static_cast<long>(tick.missed);
        }
        auto done = prepared<EvenkeelDone>();
        must(evenkeel_clock_done(clock.get(), &done), "done");
        ++ticks;
    }
    must(evenkeel_event_set(&ended), "say that it is over");
    watcher.join();
    evenkeel_event_destroy(&ended);
    std::printf("%d ticks, idle %ld times\n", ticks, idle);
    return idle > 0 && moved >= ticks ? 0 : 1;
}
