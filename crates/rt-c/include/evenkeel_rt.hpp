// evenkeel-rt for C++17: objects that free themselves, over the C interface of evenkeel_rt.h. Header only. Ticks, jobs, locks, scopes
// and packets allocate nothing; texts and errors do.
//
// A call that fails throws evenkeel::Error. Without exceptions, it prints the reason and aborts. To replace that, define
// EVENKEEL_FAILED(status, what) before the include; it must not return. Destructors never throw.
#ifndef EVENKEEL_RT_HPP
#define EVENKEEL_RT_HPP

#include <evenkeel_rt.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if !defined(EVENKEEL_FAILED)
#if defined(__cpp_exceptions)
#define EVENKEEL_FAILED(status, what) throw ::evenkeel::Error(status, what)
#else
#define EVENKEEL_FAILED(status, what) ::evenkeel::detail::fail(status, what)
#endif
#endif

namespace evenkeel {

namespace detail {

inline std::string reason(EvenkeelStatus status, const char *what) {
    char why[512] = "";
    evenkeel_last_error(why, sizeof why);
    return std::string("failed to ") + what + ": " + evenkeel_status_text(status) + (why[0] == 0 ? "" : ": ") + why;
}

[[noreturn]] inline void fail(EvenkeelStatus status, const char *what) {
    std::fprintf(stderr, "evenkeel: %s\n", reason(status, what).c_str());
    std::abort();
}

}  // namespace detail

// Why a call failed.
class Error : public std::runtime_error {
public:
    Error(EvenkeelStatus status, const char *what)
        : std::runtime_error(detail::reason(status, what)), status_(status) {}
    EvenkeelStatus status() const noexcept { return status_; }

private:
    EvenkeelStatus status_;
};

// Throws if a call of the C interface failed; `what` follows "failed to".
inline void check(EvenkeelStatus status, const char *what) {
    if (status != EVENKEEL_STATUS_OK) EVENKEEL_FAILED(status, what);
}

// A struct of the C interface with its size and version set, and all other fields zero: the defaults.
template <typename Struct>
Struct prepared() {
    Struct made;
    check(EVENKEEL_INIT(&made), "prepare a struct");
    return made;
}

namespace detail {

template <typename Of, EvenkeelStatus (*free_it)(Of *)>
struct Free {
    void operator()(Of *handle) const noexcept { free_it(handle); }
};
template <typename Of, EvenkeelStatus (*free_it)(Of *)>
using Handle = std::unique_ptr<Of, Free<Of, free_it>>;

// The text that `fill` writes. If it does not fit, the buffer grows to the reported length.
template <typename Fill>
std::string text(Fill fill, const char *what) {
    std::string text(1024, '\0');
    for (;;) {
        std::size_t needed = 0;
        const auto status = fill(&text[0], text.size(), &needed);
        if (status == EVENKEEL_STATUS_TOO_SMALL && needed > text.size()) {
            text.resize(needed);
            continue;
        }
        check(status, what);
        text.resize(needed == 0 ? 0 : needed - 1);
        return text;
    }
}

template <typename Callable>
void *context_of(Callable &callable) {
    return const_cast<void *>(static_cast<const void *>(std::addressof(callable)));
}

}  // namespace detail

using Nanoseconds = std::chrono::nanoseconds;

// The time on the clock of all times here, as from evenkeel_now_ns.
inline Nanoseconds now() {
    std::uint64_t ns = 0;
    check(evenkeel_now_ns(&ns), "read the clock");
    return Nanoseconds(ns);
}

class TickLoop;

// A tick that has begun. Its destructor ends it.
class Tick {
public:
    Tick(Tick &&other) noexcept : ticks_(std::exchange(other.ticks_, nullptr)), tick_(other.tick_) {}
    Tick(const Tick &) = delete;
    Tick &operator=(const Tick &) = delete;
    Tick &operator=(Tick &&) = delete;
    ~Tick() {
        EvenkeelDone done;
        if (ticks_ != nullptr && EVENKEEL_INIT(&done) == EVENKEEL_STATUS_OK) evenkeel_tick_loop_done(ticks_, &done);
    }

    // How many ticks came before this one, including missed ticks.
    std::uint64_t number() const noexcept { return tick_.number; }
    // How many ticks were missed right before this one.
    std::uint64_t missed() const noexcept { return tick_.missed; }
    // The time to move the world by: one period, and one for each missed tick before it.
    Nanoseconds elapsed() const noexcept { return Nanoseconds(tick_.elapsed_ns); }
    double elapsed_seconds() const noexcept { return std::chrono::duration<double>(elapsed()).count(); }
    // The whole struct of the C interface.
    const EvenkeelTick &get() const noexcept { return tick_; }

    // Ends the tick now, and returns its times.
    EvenkeelDone done() {
        auto done = prepared<EvenkeelDone>();
        check(evenkeel_tick_loop_done(std::exchange(ticks_, nullptr), &done), "end the tick");
        return done;
    }

private:
    friend class TickLoop;
    Tick(EvenkeelTickLoop *ticks, const EvenkeelTick &tick) : ticks_(ticks), tick_(tick) {}
    EvenkeelTickLoop *ticks_;
    EvenkeelTick tick_;
};

// A server loop. Build it on the thread that ticks: it belongs to that thread.
class TickLoop {
public:
    explicit TickLoop(Nanoseconds period) : TickLoop(with_period(period)) {}
    explicit TickLoop(const EvenkeelTickLoopSettings &settings) {
        EvenkeelTickLoop *made = nullptr;
        check(evenkeel_tick_loop_new(&settings, &made), "start the tick loop");
        ticks_.reset(made);
    }

    // Sleeps until the next tick is due, and begins it.
    Tick wait() {
        auto tick = prepared<EvenkeelTick>();
        check(evenkeel_tick_loop_wait(get(), &tick), "wait for the tick");
        return Tick(get(), tick);
    }
    // For engines that own their loop: begins the next tick if it is due. It never waits.
    std::optional<Tick> poll() {
        auto tick = prepared<EvenkeelTick>();
        const auto status = evenkeel_tick_loop_poll(get(), &tick);
        if (status == EVENKEEL_STATUS_WOULD_BLOCK) return std::nullopt;
        check(status, "poll for the tick");
        return Tick(get(), tick);
    }
    // When the next tick is due, on the clock of evenkeel::now.
    Nanoseconds next_due() const {
        std::uint64_t due_ns = 0;
        check(evenkeel_tick_loop_next_due(get(), &due_ns), "ask for the next tick");
        return Nanoseconds(due_ns);
    }

    // Adds to a counter of the telemetry page, such as EVENKEEL_COUNT_PACKETS_IN.
    void add(EvenkeelCount what, std::uint64_t more) { check(evenkeel_tick_loop_add(get(), what, more), "count"); }
    // Sets a counter of the telemetry page, such as EVENKEEL_COUNT_PLAYERS.
    void set(EvenkeelCount what, std::uint64_t now) { check(evenkeel_tick_loop_set(get(), what, now), "count"); }

    EvenkeelClockReport report() const {
        auto report = prepared<EvenkeelClockReport>();
        check(evenkeel_tick_loop_report(get(), &report), "report on the ticks");
        return report;
    }
    std::string report_text() const {
        const auto fill = [this](char *to, std::size_t size, std::size_t *needed) {
            return evenkeel_tick_loop_report_text(get(), to, size, needed);
        };
        return detail::text(fill, "report on the ticks");
    }
    // A line for each setting that the kernel refused, with what to do. Empty if it refused none.
    std::string advice() const {
        const auto fill = [this](char *to, std::size_t size, std::size_t *needed) {
            return evenkeel_tick_loop_advice(get(), to, size, needed);
        };
        return detail::text(fill, "read the advice");
    }
    // The time from when a tick was due to when it began.
    EvenkeelSummary lateness() const {
        auto summary = prepared<EvenkeelSummary>();
        check(evenkeel_tick_loop_lateness(get(), &summary), "summarise the lateness");
        return summary;
    }

    // The handle, for all other calls of the C interface.
    EvenkeelTickLoop *get() const noexcept { return ticks_.get(); }

private:
    static EvenkeelTickLoopSettings with_period(Nanoseconds period) {
        auto settings = prepared<EvenkeelTickLoopSettings>();
        // In C, 0 means the default. Here the caller names a period, so 0 and negative values must be out of range.
        settings.period_ns = period.count() > 0 ? static_cast<std::uint64_t>(period.count()) : UINT64_MAX;
        return settings;
    }
    detail::Handle<EvenkeelTickLoop, evenkeel_tick_loop_free> ticks_;
};

// An open frame. It is valid only in the function that received it, and only on that thread.
//
// Jobs are called by reference: a pushed callable must live until the frame ends, and so must objects that the frame's body captured by
// reference. A temporary does not compile. A job that throws ends the program, because a frame cannot end with jobs half done.
class Frame {
public:
    explicit Frame(EvenkeelFrame *frame) noexcept : frame_(frame) {}

    // Pushes a job: `void(Frame)` or `void()`.
    template <typename Job>
    void push(Job &job, std::uint32_t queue = 0) {
        check(evenkeel_frame_push(frame_, queue, &call<Job>, detail::context_of(job)), "push a job");
    }
    // Pushes a job that starts when the others are done, and returns its number for jobs that depend on it.
    template <typename Job>
    std::uint32_t push_after(Job &job, const std::uint32_t *others, std::size_t others_count, std::uint32_t queue = 0) {
        std::uint32_t number = 0;
        const auto context = detail::context_of(job);
        check(evenkeel_frame_push_after(frame_, queue, &call<Job>, context, others, others_count, &number), "push a job");
        return number;
    }
    // Calls `each` with every number from 0 to `count`, not included, in chunks, on several threads at once. It returns when all have returned.
    template <typename Each>
    void for_each(std::size_t count, std::size_t chunk, Each &&each, std::uint32_t queue = 0) {
        using Callable = std::remove_reference_t<Each>;
        const EvenkeelEach step = [](std::size_t number, void *context) noexcept {
            (*static_cast<Callable *>(context))(number);
        };
        check(evenkeel_frame_for_each(frame_, queue, count, chunk, step, detail::context_of(each)), "run jobs");
    }
    // Runs jobs until this one is done.
    void wait(std::uint32_t number) { check(evenkeel_frame_wait(frame_, number), "wait for a job"); }

    EvenkeelFrame *get() const noexcept { return frame_; }

private:
    template <typename Job>
    static void call(EvenkeelFrame *frame, void *context) noexcept {
        auto &job = *static_cast<Job *>(context);
        if constexpr (std::is_invocable_v<Job &, Frame>) {
            job(Frame(frame));
        } else {
            job();
        }
    }
    EvenkeelFrame *frame_;
};

// Worker threads and their queues.
class Jobs {
public:
    explicit Jobs(std::uint32_t workers) : Jobs(with_workers(workers)) {}
    explicit Jobs(const EvenkeelJobSettings &settings) {
        EvenkeelJobs *made = nullptr;
        check(evenkeel_jobs_new(&settings, &made), "start the workers");
        jobs_.reset(made);
    }

    // Calls `body(Frame)`, which pushes jobs, and returns when all of them are done. It then rethrows what the body threw.
    template <typename Body>
    void frame(Body &&body) {
        struct Call {
            std::remove_reference_t<Body> *body;
#if defined(__cpp_exceptions)
            std::exception_ptr thrown;
#endif
        } call = {};
        call.body = std::addressof(body);
        const EvenkeelJob enter = [](EvenkeelFrame *frame, void *context) noexcept {
            auto &entered = *static_cast<Call *>(context);
#if defined(__cpp_exceptions)
            try {
                (*entered.body)(Frame(frame));
            } catch (...) {
                entered.thrown = std::current_exception();
            }
#else
            (*entered.body)(Frame(frame));
#endif
        };
        check(evenkeel_jobs_frame(jobs_.get(), enter, &call), "run the frame");
#if defined(__cpp_exceptions)
        if (call.thrown) std::rethrow_exception(call.thrown);
#endif
    }

    // The counters of the last frame.
    EvenkeelFrameCounters last_frame() const {
        auto counters = prepared<EvenkeelFrameCounters>();
        check(evenkeel_jobs_last_frame(get(), &counters), "read the counters of the frame");
        return counters;
    }
    // When a CPU of EvenkeelJobSettings.slice_cpus is available. Any thread may ask, also in a job.
    EvenkeelCpuSlice cpu_slice(std::uint32_t cpu) const {
        auto slice = prepared<EvenkeelCpuSlice>();
        check(evenkeel_jobs_cpu_slice(get(), cpu, &slice), "ask for a CPU's slice");
        return slice;
    }

    EvenkeelJobs *get() const noexcept { return jobs_.get(); }

private:
    static EvenkeelJobSettings with_workers(std::uint32_t workers) {
        auto settings = prepared<EvenkeelJobSettings>();
        settings.workers = workers;
        return settings;
    }
    detail::Handle<EvenkeelJobs, evenkeel_jobs_free> jobs_;
};

namespace detail {

// A lock of the library for std::lock_guard, std::unique_lock and std::scoped_lock.
template <typename Storage, EvenkeelStatus (*init)(Storage *), EvenkeelStatus (*lock_it)(Storage *),
          EvenkeelStatus (*try_it)(Storage *), EvenkeelStatus (*unlock_it)(Storage *),
          EvenkeelStatus (*destroy)(Storage *)>
class Lock {
public:
    Lock() { check(init(&own_), "prepare a lock"); }
    ~Lock() { destroy(&own_); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;
    void lock() { check(lock_it(&own_), "lock"); }
    bool try_lock() {
        const auto status = try_it(&own_);
        if (status == EVENKEEL_STATUS_WOULD_BLOCK) return false;
        check(status, "lock");
        return true;
    }
    void unlock() { check(unlock_it(&own_), "unlock"); }

protected:
    Storage own_;
};

}  // namespace detail

// A lock that sleeps in the kernel. It spins only briefly, and only with more than one CPU.
using Mutex = detail::Lock<EvenkeelMutex, evenkeel_mutex_init, evenkeel_mutex_lock, evenkeel_mutex_try_lock,
                           evenkeel_mutex_unlock, evenkeel_mutex_destroy>;
// A lock whose holder runs with the priority of the most urgent waiter.
using InheritMutex =
    detail::Lock<EvenkeelInheritMutex, evenkeel_inherit_mutex_init, evenkeel_inherit_mutex_lock,
                 evenkeel_inherit_mutex_try_lock, evenkeel_inherit_mutex_unlock, evenkeel_inherit_mutex_destroy>;

// A lock for many readers or one writer, for std::shared_lock and std::unique_lock.
class SharedMutex : public detail::Lock<EvenkeelRwLock, evenkeel_rw_lock_init, evenkeel_rw_lock_write,
                                        evenkeel_rw_lock_try_write, evenkeel_rw_lock_unlock_write,
                                        evenkeel_rw_lock_destroy> {
public:
    void lock_shared() { check(evenkeel_rw_lock_read(&own_), "lock"); }
    bool try_lock_shared() {
        const auto status = evenkeel_rw_lock_try_read(&own_);
        if (status == EVENKEEL_STATUS_WOULD_BLOCK) return false;
        check(status, "lock");
        return true;
    }
    void unlock_shared() { check(evenkeel_rw_lock_unlock_read(&own_), "unlock"); }
};

// Something that happens once, until it is reset.
class Event {
public:
    Event() { check(evenkeel_event_init(&own_), "prepare an event"); }
    ~Event() { evenkeel_event_destroy(&own_); }
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    void set() { check(evenkeel_event_set(&own_), "set an event"); }
    void reset() { check(evenkeel_event_reset(&own_), "reset an event"); }
    void wait() { check(evenkeel_event_wait(&own_), "wait for an event"); }

private:
    EvenkeelEvent own_;
};

// The name of a scope. Make it at the start, not in a tick: it takes a lock.
class ScopeName {
public:
    explicit ScopeName(const char *name) { check(evenkeel_scope_register(name, &number_), "name a scope"); }
    std::uint32_t number() const noexcept { return number_; }

private:
    std::uint32_t number_ = 0;
};

// Records what the thread does until this object is destroyed, under this name, if the thread records scopes.
class Scope {
public:
    explicit Scope(const ScopeName &name) noexcept
        : number_(name.number()), is_entered_(evenkeel_scope_enter(number_) == EVENKEEL_STATUS_OK) {}
    ~Scope() {
        if (is_entered_) evenkeel_scope_leave(number_);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

private:
    std::uint32_t number_;
    bool is_entered_;
};

// A socket that handles many packets in a call.
class Udp {
public:
    explicit Udp(const char *address) : Udp(with_address(address)) {}
    explicit Udp(const EvenkeelUdpSettings &settings) {
        EvenkeelUdp *made = nullptr;
        check(evenkeel_udp_new(&settings, &made), "open the socket");
        udp_.reset(made);
    }

    // Calls `each(const EvenkeelPacket &)` with each waiting packet, up to `at_most`. It never waits. What `each` throws ends the program.
    template <typename Each>
    EvenkeelReceived receive(std::size_t at_most, Each &&each) {
        using Callable = std::remove_reference_t<Each>;
        auto received = prepared<EvenkeelReceived>();
        const EvenkeelOnPacket take = [](const EvenkeelPacket *packet, void *context) noexcept {
            (*static_cast<Callable *>(context))(*packet);
        };
        check(evenkeel_udp_receive(get(), at_most, take, detail::context_of(each), &received), "receive packets");
        return received;
    }
    // Queues a packet. False if the queue is full and the kernel has no room now.
    bool send(const EvenkeelAddress &to, const void *bytes, std::size_t bytes_count) {
        const auto status = evenkeel_udp_send(get(), &to, static_cast<const std::uint8_t *>(bytes), bytes_count);
        if (status == EVENKEEL_STATUS_NO_ROOM) return false;
        check(status, "send a packet");
        return true;
    }
    // Sends the queued packets, as many as the kernel accepts. It never waits.
    EvenkeelFlushed flush() {
        auto flushed = prepared<EvenkeelFlushed>();
        check(evenkeel_udp_flush(get(), &flushed), "flush packets");
        return flushed;
    }
    // The address that the socket receives on.
    EvenkeelAddress local_address() const {
        auto address = prepared<EvenkeelAddress>();
        check(evenkeel_udp_local_address(get(), &address), "ask for the address");
        return address;
    }

    EvenkeelUdp *get() const noexcept { return udp_.get(); }

private:
    static EvenkeelUdpSettings with_address(const char *address) {
        auto settings = prepared<EvenkeelUdpSettings>();
        settings.address = address;
        return settings;
    }
    detail::Handle<EvenkeelUdp, evenkeel_udp_free> udp_;
};

}  // namespace evenkeel

#endif  // EVENKEEL_RT_HPP
