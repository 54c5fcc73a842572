/* evenkeel_rt.hpp: each object does what its comment says, and failures are errors with the status of the C call. */
#include <evenkeel_rt.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <thread>

#define CHECK(is_so)                                                    \
    do {                                                                \
        if (!(is_so)) {                                                 \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #is_so);    \
            return 1;                                                   \
        }                                                               \
    } while (0)

using namespace std::chrono_literals;

namespace {

template <typename Call>
EvenkeelStatus status_of(Call &&call) {
    try {
        call();
    } catch (const evenkeel::Error &error) {
        return std::strlen(error.what()) > 0 ? error.status() : EVENKEEL_STATUS_OK;
    }
    return EVENKEEL_STATUS_OK;
}

int ticks() {
    for (const evenkeel::Nanoseconds period : {1ns, 0ns, -1ns, evenkeel::Nanoseconds(10h)}) {
        CHECK(status_of([&] { const evenkeel::TickLoop never(period); }) == EVENKEEL_STATUS_OUT_OF_RANGE);
    }
    evenkeel::TickLoop loop(5ms);
    {
        auto tick = loop.wait();
        CHECK(tick.number() == tick.missed() && tick.elapsed() == 5ms * (1 + tick.missed()));
        CHECK(tick.done().number == tick.get().number);
        CHECK(status_of([&] { tick.done(); }) == EVENKEEL_STATUS_NULL_POINTER);
    }
    while (!loop.poll()) {
        CHECK(loop.next_due() > 0ns);
        std::this_thread::sleep_for(100us);
    }
    CHECK(loop.report().ticks == 2 && loop.lateness().count == 2);
    CHECK(!loop.report_text().empty());
    loop.advice();
    CHECK(status_of([&] { loop.add(EVENKEEL_COUNT_JOBS, 1); }) == EVENKEEL_STATUS_NO_DATA);
    EvenkeelStatus elsewhere = EVENKEEL_STATUS_OK;
    std::thread([&] { elsewhere = status_of([&] { loop.wait(); }); }).join();
    CHECK(elsewhere == EVENKEEL_STATUS_WRONG_THREAD);
    return 0;
}

int jobs() {
    evenkeel::Jobs jobs(2);
    std::atomic<int> ran(0);
    std::atomic<bool> in_order(true);
    auto first = [&] { ++ran; };
    auto then = [&](evenkeel::Frame) {
        in_order = in_order && ran >= 1;
        ++ran;
    };
    jobs.frame([&](evenkeel::Frame frame) {
        const auto number = frame.push_after(first, nullptr, 0);
        frame.push_after(then, &number, 1);
        frame.wait(number);
        frame.push(first);
        frame.for_each(100, 7, [&](std::size_t) { ++ran; });
    });
    CHECK(ran == 103 && in_order);
    // The frame ends before the exception of its body continues.
    const auto status = status_of([&] {
        jobs.frame([&](evenkeel::Frame frame) {
            frame.push(first);
            throw evenkeel::Error(EVENKEEL_STATUS_NO_DATA, "test");
        });
    });
    CHECK(status == EVENKEEL_STATUS_NO_DATA && ran == 104);
    CHECK(status_of([&] { jobs.frame([&](evenkeel::Frame frame) { frame.push(first, 9); }); }) == EVENKEEL_STATUS_OUT_OF_RANGE);
    CHECK(status_of([&] { jobs.cpu_slice(0); }) == EVENKEEL_STATUS_OUT_OF_RANGE);
    auto settings = evenkeel::prepared<EvenkeelJobSettings>();
    settings.slice_cpus = "0";
    const evenkeel::Jobs sliced(settings);
    CHECK(sliced.cpu_slice(0).left_ns == 0 && sliced.last_frame().left == 0);
    return 0;
}

int locks() {
    evenkeel::Mutex mutex;
    evenkeel::InheritMutex inherit;
    evenkeel::SharedMutex shared;
    evenkeel::Event event;
    {
        const std::scoped_lock<evenkeel::Mutex, evenkeel::InheritMutex> both(mutex, inherit);
        bool taken = true;
        std::thread([&] { taken = mutex.try_lock() || inherit.try_lock(); }).join();
        CHECK(!taken);
    }
    {
        const std::shared_lock<evenkeel::SharedMutex> one(shared);
        CHECK(shared.try_lock_shared() && !shared.try_lock());
        shared.unlock_shared();
    }
    CHECK(status_of([&] { mutex.unlock(); }) == EVENKEEL_STATUS_NOT_LOCKED);
    std::thread setter([&] { event.set(); });
    event.wait();
    setter.join();
    event.reset();
    return 0;
}

int packets() {
    CHECK(status_of([] { evenkeel::Udp("nowhere"); }) == EVENKEEL_STATUS_BAD_TEXT);
    evenkeel::Udp one("127.0.0.1:0"), other("127.0.0.1:0");
    CHECK(one.send(other.local_address(), "tick", 4));
    one.flush();
    std::size_t bytes = 0;
    for (int tries = 0; tries < 1000 && bytes == 0; ++tries) {
        other.receive(16, [&](const EvenkeelPacket &packet) { bytes += packet.bytes_count; });
        if (bytes == 0) std::this_thread::sleep_for(1ms);
    }
    CHECK(bytes == 4);
    return 0;
}

}  // namespace

int main() { return ticks() || jobs() || locks() || packets(); }
