/* evenkeel-rt: ticks that keep time on rented machines, where the CPU is sometimes taken away.
 *
 * cbindgen generates this header from crates/rt-c of evenkeel. Make changes there.
 *
 * Every function returns an EvenkeelStatus, except those that cannot fail. Prepare each struct with EVENKEEL_INIT(&structure); a field
 * that is zero means the default. Locks are structs in your own storage: prepare one with its _init function. For each _new there is a
 * _free, and for each _init of a lock a _destroy. The library looks handles up and never dereferences them: a null, freed or foreign
 * handle is an error. No call unwinds or ends the process. After a fault inside the library, the call prints the
 * message to standard error and returns EVENKEEL_STATUS_PANICKED.
 */

#ifndef EVENKEEL_RT_H
#define EVENKEEL_RT_H

#include <stddef.h>
#include <stdint.h>

// The version of the header: what its structs and functions mean. New fields at the end of a struct do not change the version.
#define EVENKEEL_ABI_VERSION 2

// The value that requests nothing, for a field of EvenkeelThreadConfig whose zero means a default.
#define EVENKEEL_DO_NOT_ASK 9223372036854775807

// The value of a field whose number the kernel does not report.
#define EVENKEEL_UNKNOWN 9223372036854775807

// The result of a call. Non-zero means that the call failed.
enum EvenkeelStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The call succeeded.
    EVENKEEL_STATUS_OK = 0,
    // A required pointer is null.
    EVENKEEL_STATUS_NULL_POINTER = 1,
    // A pointer is not aligned for its type.
    EVENKEEL_STATUS_MISALIGNED = 2,
    // The handle is not valid: it was freed, has another kind, or never existed. Or the lock was not initialised.
    EVENKEEL_STATUS_BAD_HANDLE = 3,
    // The object is in use by another call that excludes this call, or this thread already holds the lock.
    EVENKEEL_STATUS_BUSY = 4,
    // The struct's size is impossible. Prepare the struct with EVENKEEL_INIT.
    EVENKEEL_STATUS_BAD_SIZE = 5,
    // This library does not know the struct's version.
    EVENKEEL_STATUS_BAD_VERSION = 6,
    // The struct uses a field that this library does not know: the library is older than its caller.
    EVENKEEL_STATUS_UNKNOWN_FIELD = 7,
    // A number is outside its documented range.
    EVENKEEL_STATUS_OUT_OF_RANGE = 8,
    // A text is not UTF-8, is too long, or has the wrong form.
    EVENKEEL_STATUS_BAD_TEXT = 9,
    // The buffer is too small. The call reports how many bytes it needs.
    EVENKEEL_STATUS_TOO_SMALL = 10,
    // There is no room for one more object of this kind.
    EVENKEEL_STATUS_NO_ROOM = 11,
    // The call would have to wait: the tick is not due, the lock is held, or the job is not done.
    EVENKEEL_STATUS_WOULD_BLOCK = 12,
    // The kernel, a file or a peer refused. evenkeel_last_error has the reason.
    EVENKEEL_STATUS_REFUSED = 13,
    // A fault in the library, or a misuse from which the library cannot continue. The panic did not unwind into the caller.
    // An object that may be half-changed returns this status until it is freed.
    EVENKEEL_STATUS_PANICKED = 14,
    // The lock to release is not held.
    EVENKEEL_STATUS_NOT_LOCKED = 15,
    // There is nothing to return: no tick has begun, nothing was recorded, or nothing is left.
    EVENKEEL_STATUS_NO_DATA = 16,
    // No thread runs the jobs of this queue.
    EVENKEEL_STATUS_NO_WORKER = 17,
    // The object belongs to another thread: the thread that made or locked it.
    EVENKEEL_STATUS_WRONG_THREAD = 18,
    // This system does not support the call. Only Linux supports it.
    EVENKEEL_STATUS_UNSUPPORTED = 19,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelStatus EvenkeelStatus;
#else
typedef uint32_t EvenkeelStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether the clock may shift ticks to where they finish soonest: EvenkeelClockSettings.align.
enum EvenkeelAlign
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The clock shifts ticks if measurements show that ticks finish sooner at another phase.
    EVENKEEL_ALIGN_MEASURED = 0,
    // The clock never shifts ticks: they keep their phase.
    EVENKEEL_ALIGN_NEVER = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelAlign EvenkeelAlign;
#else
typedef uint32_t EvenkeelAlign;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How the clock reacts if the CPU is taken away: EvenkeelQuantum.alignment.
enum EvenkeelAlignment
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The clock does not move ticks: alignment is off, there are no slices, or no phase was better.
    EVENKEEL_ALIGNMENT_FREE = 0,
    // The clock searches for gaps in idle time.
    EVENKEEL_ALIGNMENT_LOOKING = 1,
    // The clock runs ticks at several phases, to find where they finish soonest.
    EVENKEEL_ALIGNMENT_TRYING = 2,
    // The clock keeps ticks at the best phase.
    EVENKEEL_ALIGNMENT_HELD = 3,
    // There are slices, but the tick period does not fit the period of the slices.
    EVENKEEL_ALIGNMENT_NO_MULTIPLE = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelAlignment EvenkeelAlignment;
#else
typedef uint32_t EvenkeelAlignment;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The counters of a session's page.
enum EvenkeelCount
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Jobs that ran.
    EVENKEEL_COUNT_JOBS = 0,
    // Datagrams received.
    EVENKEEL_COUNT_PACKETS_IN = 1,
    // Datagrams sent.
    EVENKEEL_COUNT_PACKETS_OUT = 2,
    // Bytes received in datagrams.
    EVENKEEL_COUNT_BYTES_IN = 3,
    // Bytes sent in datagrams.
    EVENKEEL_COUNT_BYTES_OUT = 4,
    // Datagrams lost because there was no room, in either direction.
    EVENKEEL_COUNT_DROPS = 5,
    // The current number of players in the session. This number goes up and down.
    EVENKEEL_COUNT_PLAYERS = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelCount EvenkeelCount;
#else
typedef uint32_t EvenkeelCount;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether a setting is active, in the fields of EvenkeelThreadReport.
enum EvenkeelApplyStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Not requested.
    EVENKEEL_APPLY_STATUS_NOT_REQUESTED = 0,
    // The setting is active. If the kernel allows it, the setting was read back.
    EVENKEEL_APPLY_STATUS_ACTIVE = 1,
    // The kernel refused the setting. The next field of the report has the error number.
    EVENKEEL_APPLY_STATUS_REFUSED = 2,
    // The setting was active and is suspended: the tick used nearly all of its CPU, and the rest of the machine would have starved.
    EVENKEEL_APPLY_STATUS_SUSPENDED = 3,
    // The kernel accepted the setting, but it has no effect.
    EVENKEEL_APPLY_STATUS_NO_EFFECT = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelApplyStatus EvenkeelApplyStatus;
#else
typedef uint32_t EvenkeelApplyStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which pages stay in memory, in EvenkeelMemoryConfig.lock.
enum EvenkeelMemoryLock
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // All pages that are mapped now or later. Each page stays from its first use on. Unused pages cost no memory.
    EVENKEEL_MEMORY_LOCK_ALL_ON_FAULT = 0,
    // No pages: the kernel decides which pages it swaps out.
    EVENKEEL_MEMORY_LOCK_NOTHING = 1,
    // All pages that are mapped now, loaded at once.
    EVENKEEL_MEMORY_LOCK_PRESENT = 2,
    // All pages that are mapped now or later, loaded at once. This includes the whole stack of every thread.
    EVENKEEL_MEMORY_LOCK_ALL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelMemoryLock EvenkeelMemoryLock;
#else
typedef uint32_t EvenkeelMemoryLock;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happens to deadlines that pass while a tick is late: EvenkeelClockSettings.overrun.
enum EvenkeelOverrun
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Deadlines that pass are missed. The next tick is at the next deadline, and EvenkeelTick.missed counts them.
    EVENKEEL_OVERRUN_SKIP = 0,
    // Up to EvenkeelClockSettings.catch_up_at_most late ticks run right after one another.
    EVENKEEL_OVERRUN_CATCH_UP = 1,
    // Time stretches: the next tick is one period after the late tick began.
    EVENKEEL_OVERRUN_SLOW_DOWN = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelOverrun EvenkeelOverrun;
#else
typedef uint32_t EvenkeelOverrun;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a loop reacts to the phases of other sessions: EvenkeelPhaseReport.state.
enum EvenkeelPhaseState
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Spreading was not requested.
    EVENKEEL_PHASE_STATE_OFF = 0,
    // The loop keeps its phase, because the alignment of its ticks needs that. Other sessions spread around it.
    EVENKEEL_PHASE_STATE_ALIGNED = 1,
    // No other session with a matching period shares CPUs with this one.
    EVENKEEL_PHASE_STATE_ALONE = 2,
    // The loop's ticks move towards their goal.
    EVENKEEL_PHASE_STATE_SETTLING = 3,
    // The loop's ticks are at their goal.
    EVENKEEL_PHASE_STATE_SETTLED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelPhaseState EvenkeelPhaseState;
#else
typedef uint32_t EvenkeelPhaseState;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The state of a request.
enum EvenkeelProgress
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Not requested.
    EVENKEEL_PROGRESS_NOT_REQUESTED = 0,
    // The sidecar has not accepted the request yet. The thread repeats it.
    EVENKEEL_PROGRESS_ASKED = 1,
    // The sidecar accepted the request.
    EVENKEEL_PROGRESS_DONE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelProgress EvenkeelProgress;
#else
typedef uint32_t EvenkeelProgress;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How the CPU is taken away from the thread that ticks: EvenkeelQuantum.model.
enum EvenkeelQuantumModel
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Not known: the clock has not searched for long enough.
    EVENKEEL_QUANTUM_MODEL_UNKNOWN = 0,
    // The CPU is not taken away.
    EVENKEEL_QUANTUM_MODEL_NONE = 1,
    // The CPU is taken away at fixed times, by a hypervisor that runs each virtual CPU in slices.
    EVENKEEL_QUANTUM_MODEL_FIXED_SLOT = 2,
    // The CPU is taken away when the quota of a CPU limit is used up, until the limit's next period.
    EVENKEEL_QUANTUM_MODEL_TOKEN_BUCKET = 3,
    // The CPU is taken away at irregular times.
    EVENKEEL_QUANTUM_MODEL_IRREGULAR = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelQuantumModel EvenkeelQuantumModel;
#else
typedef uint32_t EvenkeelQuantumModel;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why a period changed, in EvenkeelRateChange.why.
enum EvenkeelRateReason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Ticks need too much of their share of the period.
    EVENKEEL_RATE_REASON_WORK = 0,
    // Ticks were missed.
    EVENKEEL_RATE_REASON_MISSED = 1,
    // The tick's thread waited for a CPU too long.
    EVENKEEL_RATE_REASON_WAITED = 2,
    // A CPU limit stopped the server.
    EVENKEEL_RATE_REASON_THROTTLED = 3,
    // Other threads of the server's control group waited for a CPU, and the ticks are part of the cause.
    EVENKEEL_RATE_REASON_PRESSURE = 4,
    // The rest of the system waited for a CPU, and the ticks are part of the cause.
    EVENKEEL_RATE_REASON_STARVED = 5,
    // There was room for a shorter period for long enough.
    EVENKEEL_RATE_REASON_CALM = 6,
    // Another phase of the game began.
    EVENKEEL_RATE_REASON_PHASE = 7,
    // The time slices of the CPU changed.
    EVENKEEL_RATE_REASON_TIME_SLICES = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelRateReason EvenkeelRateReason;
#else
typedef uint32_t EvenkeelRateReason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether the clock spins for the last microseconds before a tick, at most 100: EvenkeelClockSettings.spinning.
enum EvenkeelSpinning
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The clock spins if the process has more than one CPU. Under a CPU limit it spins less.
    EVENKEEL_SPINNING_WHERE_THERE_IS_ROOM = 0,
    // The clock never spins.
    EVENKEEL_SPINNING_NEVER = 1,
    // The clock always spins. Use this for a CPU that is reserved for the server.
    EVENKEEL_SPINNING_ALWAYS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelSpinning EvenkeelSpinning;
#else
typedef uint32_t EvenkeelSpinning;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of the lock or event, in EvenkeelLongWait.kind.
enum EvenkeelWaitKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A mutex.
    EVENKEEL_WAIT_KIND_MUTEX = 0,
    // A mutex whose holder inherits priority.
    EVENKEEL_WAIT_KIND_INHERIT_MUTEX = 1,
    // A reader-writer lock, to take it for reading.
    EVENKEEL_WAIT_KIND_READ = 2,
    // A reader-writer lock, to take it for writing.
    EVENKEEL_WAIT_KIND_WRITE = 3,
    // An event.
    EVENKEEL_WAIT_KIND_EVENT = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelWaitKind EvenkeelWaitKind;
#else
typedef uint32_t EvenkeelWaitKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How packets go between the server and the kernel. EvenkeelUdpSettings.receive and send have this type, and so has EvenkeelUdpReport.
enum EvenkeelIoBackend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The fastest backend in our measurements: Uring for receiving if the library was built with it, and Offloaded in all other cases.
    EVENKEEL_IO_BACKEND_AUTO = 0,
    // The backend that takes the least CPU time per packet on this machine. The library measures the backends for up to 0.1 s on loopback.
    EVENKEEL_IO_BACKEND_MEASURED = 1,
    // A call for each packet.
    EVENKEEL_IO_BACKEND_ONE = 2,
    // Up to 64 packets per call.
    EVENKEEL_IO_BACKEND_BATCHED = 3,
    // Like Batched, but the kernel takes or returns several packets of one peer as one message (UDP_GRO, UDP_SEGMENT).
    EVENKEEL_IO_BACKEND_OFFLOADED = 4,
    // Receives with one standing request of io_uring. Sends as Offloaded does.
    // Needs Linux 6.1 and a library that was built with `make install-rt FEATURES=io-uring`.
    // The request belongs to the thread that first receives. If another thread receives, the socket continues as Offloaded.
    EVENKEEL_IO_BACKEND_URING = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum EvenkeelIoBackend EvenkeelIoBackend;
#else
typedef uint32_t EvenkeelIoBackend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Reports to the sidecar from a thread of its own.
typedef struct EvenkeelAgones EvenkeelAgones;

// Pushes asynchronous jobs, from any thread.
typedef struct EvenkeelAsynchronous EvenkeelAsynchronous;

// Ticks at absolute times.
typedef struct EvenkeelClock EvenkeelClock;

// An open frame. The library passes a handle to the frame's body and to each job.
// The handle is valid only on that thread, and only until the body or the job returns.
typedef struct EvenkeelFrame EvenkeelFrame;

// Workers and their queues.
typedef struct EvenkeelJobs EvenkeelJobs;

// Memory settings that are applied.
typedef struct EvenkeelMemory EvenkeelMemory;

// Chooses the period of a clock.
typedef struct EvenkeelRate EvenkeelRate;

// A session's page.
typedef struct EvenkeelTelemetry EvenkeelTelemetry;

// A thread whose settings are applied. Freeing it ends dma_latency_us; the other settings stay.
typedef struct EvenkeelThread EvenkeelThread;

// A server loop: a clock with its thread, memory, rate, scopes and telemetry.
typedef struct EvenkeelTickLoop EvenkeelTickLoop;

// A server's socket.
typedef struct EvenkeelUdp EvenkeelUdp;

// Settings for Agones. All zero (EVENKEEL_INIT) means: the port from the environment, and a health message every two seconds.
// After two seconds without a tick, health messages stop.
typedef struct EvenkeelAgonesSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The sidecar's port on this machine, 1 to 65,535. 0 means the port in AGONES_SDK_HTTP_PORT, or 9358 if that is not set.
    uint32_t port;
    // The timeout of a request, in milliseconds, up to 60,000. 0 means 1,000.
    uint32_t timeout_ms;
    // The time between health messages, in milliseconds, up to 3,600,000. It must be less than spec.health.periodSeconds. 0 means 2,000.
    uint32_t health_period_ms;
    // How long ticks may be missing before health messages stop, in milliseconds, up to 3,600,000. 0 means 2,000.
    uint32_t stall_ms;
} EvenkeelAgonesSettings;

// The game server, as the sidecar reports it. Texts have a zero at the end, and are empty if the sidecar does not report them.
// A text that does not fit causes EVENKEEL_STATUS_TOO_SMALL.
typedef struct EvenkeelGameServer {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The game server's name.
    char name[256];
    // The game server's namespace. The field's name is two words, because `namespace` is a keyword of C++.
    char name_space[256];
    // The game server's state, such as "Ready" or "Allocated".
    char state[64];
    // The address for players.
    char address[256];
    // The game server's first port. 0 if the game server has no port.
    uint32_t port;
    // The number of the game server's ports.
    uint32_t ports_count;
} EvenkeelGameServer;

// The state of all requests.
typedef struct EvenkeelAgonesReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Health messages that the sidecar accepted.
    uint64_t health_sent;
    // Health messages that were not sent, because there was no tick.
    uint64_t health_withheld;
    // Requests of any kind that failed.
    uint64_t failures;
    // The state of the request by evenkeel_agones_ready, as an EvenkeelProgress.
    uint32_t ready;
    // The state of the request by evenkeel_agones_shutdown, as an EvenkeelProgress.
    uint32_t shutdown;
    // Why the last failed request failed, cut to fit, with a zero at the end. Empty if no request failed.
    char last_failure[256];
} EvenkeelAgonesReport;

// Settings of a clock. All zero (EVENKEEL_INIT): 50 ticks a second, and missed ticks are skipped.
typedef struct EvenkeelClockSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The period of ticks, in nanoseconds: 1,000 to 3,600,000,000,000. 0 means 20,000,000.
    uint64_t period_ns;
    // One of EvenkeelOverrun.
    uint32_t overrun;
    // The maximum number of late ticks in a row if `overrun` is CatchUp. Otherwise 0.
    uint32_t catch_up_at_most;
    // One of EvenkeelSpinning.
    uint32_t spinning;
    // One of EvenkeelAlign.
    uint32_t align;
} EvenkeelClockSettings;

// Which settings are active: an EvenkeelApplyStatus for each setting. If the kernel refused it, its error number (errno) follows, else 0.
typedef struct EvenkeelThreadReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The EvenkeelApplyStatus of EvenkeelThreadConfig.cpus.
    uint32_t cpus;
    // The errno of the field above.
    int32_t cpus_errno;
    // The EvenkeelApplyStatus of EvenkeelThreadConfig.slice_ns. For a real-time thread, the slice is not requested.
    uint32_t slice;
    // The errno of the field above.
    int32_t slice_errno;
    // The EvenkeelApplyStatus of EvenkeelThreadConfig.timer_slack_ns.
    uint32_t timer_slack;
    // The errno of the field above.
    int32_t timer_slack_errno;
    // The EvenkeelApplyStatus of EvenkeelThreadConfig.fifo_priority.
    uint32_t fifo;
    // The errno of the field above.
    int32_t fifo_errno;
    // The EvenkeelApplyStatus of EvenkeelThreadConfig.dma_latency_us.
    uint32_t dma_latency;
    // The errno of the field above.
    int32_t dma_latency_errno;
} EvenkeelThreadReport;

// A tick that has begun. All times are times of evenkeel_now_ns.
typedef struct EvenkeelTick {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // How many ticks came before this one, including missed ticks.
    uint64_t number;
    // When the tick was due, in nanoseconds.
    uint64_t due_ns;
    // When the tick began, in nanoseconds.
    uint64_t began_ns;
    // How many ticks were missed right before this one.
    uint64_t missed;
    // The time to move the world by, in nanoseconds: one period for this tick, and one for each missed tick before it.
    uint64_t elapsed_ns;
} EvenkeelTick;

// A tick that has ended. All times are times of evenkeel_now_ns.
typedef struct EvenkeelDone {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The tick's number.
    uint64_t number;
    // When the tick's work ended, in nanoseconds.
    uint64_t done_ns;
    // The time from due to begun, in nanoseconds.
    uint64_t lateness_ns;
    // The time from begun to done, in nanoseconds.
    uint64_t work_ns;
    // The time from due to done, in nanoseconds: the latency that players notice.
    uint64_t due_to_done_ns;
} EvenkeelDone;

// How well the ticks kept time so far.
typedef struct EvenkeelClockReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Ticks that began.
    uint64_t ticks;
    // Ticks that were missed.
    uint64_t missed;
    // The current period of ticks, in nanoseconds.
    uint64_t period_ns;
    // When the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
    uint64_t next_due_ns;
    // How long before a tick the clock wakes and spins, in nanoseconds; 0 if it never spins.
    uint64_t margin_ns;
} EvenkeelClockReport;

// A distribution in nanoseconds. Quantiles are accurate to 1 %, the smallest and largest values are exact.
typedef struct EvenkeelSummary {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The number of values.
    uint64_t count;
    // The smallest value.
    uint64_t min_ns;
    // The median.
    uint64_t p50_ns;
    // The quantile 0.9.
    uint64_t p90_ns;
    // The quantile 0.99.
    uint64_t p99_ns;
    // The quantile 0.999.
    uint64_t p999_ns;
    // The largest value.
    uint64_t max_ns;
} EvenkeelSummary;

// Kernel settings of a tick's thread. All zero (EVENKEEL_INIT) means settings that help on every machine and need no privileges.
typedef struct EvenkeelThreadConfig {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Runs the thread on these CPUs only, as a list such as "2-3,6". Null means that the kernel chooses.
    const char *cpus;
    // The scheduler's time slice, in nanoseconds, 100,000 to 100,000,000. 0 means 100,000. Needs Linux 6.12.
    // For a value out of this range, the report says that it has no effect.
    uint64_t slice_ns;
    // How late the kernel may end a sleep, in nanoseconds. 0 means 1.
    uint64_t timer_slack_ns;
    // Makes the thread real-time (SCHED_FIFO) with this priority, 1 to 99. Needs CAP_SYS_NICE. 0 means not real-time.
    uint32_t fifo_priority;
    // If not 0, keeps all CPUs out of idle states that take longer than dma_latency_us to leave, until the thread is freed.
    // This setting costs power, and needs write access to /dev/cpu_dma_latency.
    uint32_t asks_dma_latency;
    // The longest allowed time to leave an idle state, in microseconds, 0 to 2,000,000,000. Used if asks_dma_latency is not 0.
    int32_t dma_latency_us;
    // Always 0.
    uint32_t reserved;
} EvenkeelThreadConfig;

// A worker with its own queues and thread settings.
typedef struct EvenkeelWorkerSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The numbers of the queues that the worker takes jobs from. The worker always takes from the first queue that has a job.
    uint32_t queues[9];
    // How many queues the worker takes jobs from, 1 to 9.
    uint32_t queues_count;
    // The kernel settings of the worker's thread, such as its CPUs, in a struct prepared by evenkeel_init. Null means the default settings.
    const struct EvenkeelThreadConfig *thread;
} EvenkeelWorkerSettings;

// Settings of a job system. All zero (EVENKEEL_INIT) means one frame queue, one asynchronous queue, and no workers.
// Without workers, the thread that opens a frame runs its jobs.
// Frame queues have the numbers from 0, in the order in which threads take from them. The asynchronous queue has the next number.
typedef struct EvenkeelJobSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The number of threads that take jobs from the frame queues in their order, and then from the asynchronous queue.
    uint32_t workers;
    // The number of threads that take asynchronous jobs only, so that long jobs do not delay a frame. At most 63 together with the other workers.
    uint32_t asynchronous_workers;
    // The number of frame queues, up to 8. 0 means 1.
    uint32_t frame_queues;
    // The capacity of each frame queue, up to 1,048,576. 0 means 1,024.
    uint32_t frame_capacity;
    // The capacity of the asynchronous queue, up to 1,048,576. 0 means 256. A job that does not fit is refused.
    uint32_t asynchronous_capacity;
    // How many jobs of a frame may have dependencies or be dependencies, up to 1,048,576. 0 means 1,024.
    uint32_t linked_max;
    // How many dependencies these jobs may have together, up to 1,048,576. 0 means 4,096.
    uint32_t waits_max;
    // What happens to a job if its frame queue is full. 0: the pushing thread runs it at once. 1: the push fails.
    uint32_t refuses_when_full;
    // What a thread does if it finds no job. 1: it sleeps at once.
    // 0: it looks for a job for some microseconds if the process has CPUs to spare, and then sleeps.
    uint32_t sleeps_at_once;
    // What happens to an asynchronous job if no worker takes from its queue. 0: the push fails.
    // 1: the job waits until evenkeel_jobs_run_asynchronous runs it.
    uint32_t caller_runs_asynchronous;
    // More workers, each with its own queues and thread settings: `own_workers_count` pointers to the workers' settings.
    // Their numbers follow those of the workers above. Null means no such workers.
    const struct EvenkeelWorkerSettings *const *own_workers;
    // How many workers `own_workers` lists. At most 63 together with all other workers.
    size_t own_workers_count;
    // The CPUs that a hypervisor may run in slices, as a list such as "0-1", with numbers up to 255. Null or empty means none.
    // If a job does not fit into the rest of its CPU's slice, it begins on another CPU, if that is sooner.
    // Use this for threads that are pinned to one CPU each. A thread for each listed CPU follows the CPU's slices: see evenkeel_jobs_cpu_slice.
    const char *slice_cpus;
} EvenkeelJobSettings;

// A job, or the body of a frame. The arguments are the frame (null in an asynchronous job) and the context of the push.
// The function must return: no exception and no longjmp may leave it.
typedef void (*EvenkeelJob)(struct EvenkeelFrame *frame, void *context);

// One step of a loop. Its arguments are the number of the step and the context.
typedef void (*EvenkeelEach)(size_t number, void *context);

// The counters of the last frame.
typedef struct EvenkeelFrameCounters {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Jobs of the frame that ran.
    uint64_t jobs;
    // The jobs that ran on the thread that opened the frame.
    uint64_t by_caller;
    // The jobs that ran on workers.
    uint64_t by_workers;
    // Asynchronous jobs that ended during the frame.
    uint64_t asynchronous;
    // Jobs that found their queue full.
    uint64_t full;
    // Threads that the caller and workers woke.
    uint64_t wakes;
    // How long the thread that opened the frame slept because the remaining jobs ran on other threads, in nanoseconds.
    uint64_t waited_ns;
    // The sum of the jobs' durations, in nanoseconds.
    uint64_t busy_ns;
    // The duration of the longest job, in nanoseconds.
    uint64_t longest_job_ns;
    // How often a thread left a job to others because its CPU was about to be taken away: see EvenkeelJobSettings.slice_cpus.
    // The thread looks for a job again every 50 us.
    uint64_t left;
} EvenkeelFrameCounters;

// When a CPU is available. A hypervisor may run a virtual CPU for only a part of each period. This part is the CPU's slice.
typedef struct EvenkeelCpuSlice {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // 1 if slices are known. 0 if the CPU has none, or they are not known yet. In that case all fields after `pinned_errno` are 0.
    uint32_t is_known;
    // Whether the CPU is followed, as an EvenkeelApplyStatus. Refused means that no such CPU exists, or the process may not run on it.
    // Not requested means that the thread that follows the CPU has not started yet.
    uint32_t pinned;
    // The errno of the field above.
    int32_t pinned_errno;
    // Always 0.
    uint32_t reserved;
    // From the start of one slice to the start of the next, in nanoseconds.
    uint64_t period_ns;
    // How long the CPU is available in each period, in nanoseconds. This is less than the period.
    uint64_t share_ns;
    // When a recent slice began, in nanoseconds of evenkeel_now_ns's clock.
    uint64_t start_ns;
    // How long ago the current period began, in nanoseconds, at the time of the call.
    uint64_t since_start_ns;
    // How long the CPU is still available, in nanoseconds, at the time of the call. 0 while the CPU is taken away.
    uint64_t left_ns;
} EvenkeelCpuSlice;

// A lock, in storage that the caller owns. evenkeel_mutex_init prepares it. Do not copy or move it.
typedef struct EvenkeelMutex {
    // Internal to the library.
    uint64_t opaque[2];
} EvenkeelMutex;

// A lock whose holder runs with the priority of the most urgent waiter: for a real-time tick that shares data with ordinary threads.
// The lock is in storage that the caller owns. evenkeel_inherit_mutex_init prepares the storage. Do not copy or move it.
typedef struct EvenkeelInheritMutex {
    // Internal to the library.
    uint64_t opaque[2];
} EvenkeelInheritMutex;

// A lock for many readers or one writer, in storage that the caller owns. evenkeel_rw_lock_init prepares it. Do not copy or move it.
typedef struct EvenkeelRwLock {
    // Internal to the library.
    uint64_t opaque[3];
} EvenkeelRwLock;

// An event happens once, until it is reset. It is in storage that the caller owns.
// evenkeel_event_init prepares it. Do not copy or move it.
typedef struct EvenkeelEvent {
    // Internal to the library.
    uint64_t opaque[2];
} EvenkeelEvent;

// Memory settings. All zero (EVENKEEL_INIT): EVENKEEL_MEMORY_LOCK_ALL_ON_FAULT, and 256 KiB of stack.
typedef struct EvenkeelMemoryConfig {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // One of EvenkeelMemoryLock.
    uint32_t lock;
    // Always 0.
    uint32_t reserved;
    // Loads this many bytes of the calling thread's stack, up to 64 MiB. 0 means 262,144. EVENKEEL_DO_NOT_ASK means none.
    uint64_t stack_bytes;
    // Loads this many bytes for the heap, and makes glibc keep freed memory, in the whole process. Use it if the server allocates later.
    // 0 means none.
    uint64_t heap_bytes;
} EvenkeelMemoryConfig;

// Which settings are active: an EvenkeelApplyStatus for each setting. If the kernel refused it, its error number (errno) follows, else 0.
typedef struct EvenkeelMemoryReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Whether pages that are mapped now stay in memory.
    uint32_t present;
    // The errno of the field above.
    int32_t present_errno;
    // Whether pages that are mapped later stay in memory. If a limit would make later allocations fail, the library does not request this.
    uint32_t future;
    // The errno of the field above.
    int32_t future_errno;
    // The status of EvenkeelMemoryConfig.stack_bytes.
    uint32_t stack;
    // The errno of the field above.
    int32_t stack_errno;
    // The status of EvenkeelMemoryConfig.heap_bytes.
    uint32_t heap;
    // The errno of the field above.
    int32_t heap_errno;
    // How many bytes this process may lock. UINT64_MAX means no limit.
    uint64_t lock_limit_bytes;
} EvenkeelMemoryReport;

// Page faults of a tick.
typedef struct EvenkeelTickMemory {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Page faults of the tick's thread without disk access, since the previous tick ended. UINT64_MAX if the kernel does not report them.
    uint64_t minor_faults;
    // Page faults of the tick's thread that waited for a disk. UINT64_MAX if the kernel does not report them.
    uint64_t major_faults;
    // Pages that the whole system read back from swap since the start, updated once a second.
    // UINT64_MAX if the kernel does not report them.
    uint64_t swapped_in;
} EvenkeelTickMemory;

// How the CPU is taken away, and how the clock reacts to the gaps.
typedef struct EvenkeelQuantum {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // One of EvenkeelQuantumModel.
    uint32_t model;
    // One of EvenkeelAlignment.
    uint32_t alignment;
    // The period of the slices or of the limit, in nanoseconds. 0 if there are no slices and no limit.
    uint64_t period_ns;
    // The share of the CPU that this machine or server gets, up to 1. Below 0 if it is not known.
    double share;
    // How often the clock shifted ticks.
    uint64_t moves;
    // Gaps from outside this machine's threads: a hypervisor, or an interrupt.
    uint64_t gaps_foreign;
    // Gaps in which another thread had the CPU.
    uint64_t gaps_preempted;
    // Gaps with an unknown cause.
    uint64_t gaps_unknown;
    // How often the clock woke in idle time to search. Each wake-up costs some 5 us of CPU time.
    uint64_t probes;
    // When a recent slice began, in nanoseconds of evenkeel_now_ns's clock. 0 if there are no slices.
    uint64_t phase_ns;
    // The confidence that there are slices, from 0 to 1. Below 0 if there are no slices.
    double confidence;
} EvenkeelQuantum;

// Settings of a rate. All zero (EVENKEEL_INIT) means periods of 10, 20, 30 and 50 ms. The period is 10 ms only in a phase that requests it.
typedef struct EvenkeelRateSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The periods to choose from, in nanoseconds, 1 ms to 10 s each, in any order. The list ends at the first 0.
    uint64_t ladder_ns[16];
    // The period to start with, in nanoseconds. 0 means 20,000,000.
    uint64_t start_ns;
    // The shortest period of the phase to start in, in nanoseconds. 0 means 20,000,000.
    uint64_t fastest_ns;
    // The longest period of the phase to start in, in nanoseconds. 0 means 50,000,000.
    uint64_t slowest_ns;
    // The highest sustainable load, 0.05 to 1. The load is how long a tick works, divided by the part of the period in which it may run. 0 means 0.75.
    double sustainable;
    // With one CPU, the share of the CPU for the rest of the system, up to 0.95. 0 means 0.5, and a value below 0 means none.
    double system_share;
} EvenkeelRateSettings;

// The last change of the period.
typedef struct EvenkeelRateChange {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The number of changes since the start, including this one.
    uint64_t changes;
    // The period before the change, in nanoseconds.
    uint64_t from_ns;
    // The period after the change, in nanoseconds.
    uint64_t to_ns;
    // One of EvenkeelRateReason.
    uint32_t why;
    // Always 0.
    uint32_t reserved;
} EvenkeelRateChange;

// A scope that used the CPU for a long time.
typedef struct EvenkeelLongScope {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The scope's name, cut to fit, with a zero at the end.
    char name[136];
    // The kernel's id of the thread that ran the scope.
    uint32_t thread;
    // Always 0.
    uint32_t reserved;
    // When the scope ended, in nanoseconds of evenkeel_now_ns's clock.
    uint64_t end_ns;
    // The CPU time of the scope, in nanoseconds. It includes time that a hypervisor took without the kernel's knowledge.
    uint64_t cpu_ns;
} EvenkeelLongScope;

// Settings of a session's page.
typedef struct EvenkeelTelemetrySettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The session's name: any text of 1 to 64 bytes.
    const char *session;
    // The folder of the page. Null means /dev/shm, or $XDG_RUNTIME_DIR if /dev/shm is not writable.
    const char *folder;
    // If not 0, the server's group may read the page too. If 0, only the server's user may read it.
    uint32_t is_for_group;
    // Always 0.
    uint32_t reserved;
} EvenkeelTelemetrySettings;

// Where the sessions of a host find each other.
typedef struct EvenkeelPhaseSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The folder of the sessions' files. Null means /dev/shm. Sessions see each other if they use the same folder.
    const char *folder;
} EvenkeelPhaseSettings;

// Settings of a server loop. All zero (EVENKEEL_INIT) means 50 ticks a second, missed ticks are skipped, and thread settings that need no privileges.
// Prepare each struct behind a pointer with EVENKEEL_INIT. The library no longer needs these structs after evenkeel_tick_loop_new.
typedef struct EvenkeelTickLoopSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The period of ticks, in nanoseconds: 1,000 to 3,600,000,000,000. 0 means `rate->start_ns` if `rate` is set, and otherwise 20,000,000.
    uint64_t period_ns;
    // One of EvenkeelOverrun.
    uint32_t overrun;
    // The maximum number of late ticks in a row if `overrun` is CatchUp. Otherwise 0.
    uint32_t catch_up_at_most;
    // One of EvenkeelSpinning.
    uint32_t spinning;
    // One of EvenkeelAlign.
    uint32_t align;
    // The kernel settings of the loop's thread. Null means settings that need no privileges.
    const struct EvenkeelThreadConfig *thread;
    // Keeps the process's pages in memory, and counts the page faults of each tick. Null means off: this setting affects the whole process.
    const struct EvenkeelMemoryConfig *memory;
    // Publishes every tick on a page of shared memory. Null means off.
    const struct EvenkeelTelemetrySettings *telemetry;
    // Lengthens and shortens the period with the load. Null means that the period does not change.
    const struct EvenkeelRateSettings *rate;
    // Records scopes of the loop's thread, under this name. Null means off.
    const char *scopes_name;
    // How many of the thread's last scopes the loop records, up to a million. Used with scopes_name. 0 means 4,096.
    uint64_t scopes_count;
    // Spreads the ticks of all sessions on this host, so that fewer ticks collide. Null means off.
    const struct EvenkeelPhaseSettings *phases;
} EvenkeelTickLoopSettings;

// How a session's ticks are spread among the ticks of others.
typedef struct EvenkeelPhaseReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // One of EvenkeelPhaseState.
    uint32_t state;
    // How many other sessions the loop takes into account.
    uint32_t neighbours;
    // How far the loop has shifted its ticks so far, in nanoseconds. Positive means later.
    int64_t shifted_ns;
    // How far the ticks still have to move, in nanoseconds. Positive means later.
    int64_t distance_ns;
} EvenkeelPhaseReport;

// Settings of a socket. All zero (EVENKEEL_INIT) means any port of every interface, and a receive buffer of the system's default size.
typedef struct EvenkeelUdpSettings {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The address to receive on, such as `0.0.0.0:7777` or `[::]:7777`. Null means any port of every IPv4 interface.
    const char *address;
    // The backend for receiving: one of EvenkeelIoBackend. If the kernel refuses the backend, the socket uses the next simpler one.
    uint32_t receive;
    // The backend for sending: one of EvenkeelIoBackend.
    uint32_t send;
    // The longest datagram, in bytes, up to 65,527. 0 means 1,500.
    uint32_t bytes_max;
    // The maximum number of packets that wait to be sent, up to 65,536. 0 means 512.
    uint32_t queue_packets;
    // How many players, or other peers, send to the socket. The receive buffer gets room for their packets. 0 means the system's default size.
    uint32_t players;
    // How many packets each player sends per second. Required if players is not 0.
    uint32_t packets_a_second;
    // The size of each packet, in bytes. Required if players is not 0.
    uint32_t packet_bytes;
    // The longest time between two calls that receive, in milliseconds: the tick period plus its lateness. Required if players is not 0.
    uint32_t drain_interval_ms;
    // If not 0, the kernel reports how long each packet waited.
    uint32_t stamps;
    // If not 0, the socket counts packets that the network did not deliver.
    uint32_t hears_undelivered;
    // How long a call that finds no packet polls the device, in microseconds. 0 means that it does not poll.
    uint32_t busy_poll_us;
    // Always 0.
    uint32_t reserved;
    // Packets of each player in a tick, up to 65,535, only for the backend Measured. 0 means 1.
    // The number of players and the packet size are the fields above, or 64 players and 100 bytes if those are 0.
    uint32_t packets_a_peer;
    // How long the library measures the backends, in milliseconds, up to 10,000, only for the backend Measured. 0 means 100.
    uint32_t trial_ms;
    // The destination of the test packets, such as `192.0.2.1:9`, only for the backend Measured. At most 4,096 packets of zeros are sent.
    // Null means that test packets go between two sockets on loopback, and pass no device.
    const char *trial_toward;
} EvenkeelUdpSettings;

// The address that a packet comes from or goes to.
typedef struct EvenkeelAddress {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The IP address in network byte order; for IPv4, the first four bytes.
    uint8_t ip[16];
    // The port, 1 to 65,535.
    uint32_t port;
    // 1 for IPv6, 0 for IPv4.
    uint32_t is_ipv6;
    // The interface's number, for IPv6 link-local addresses.
    uint32_t scope_id;
    // Always 0.
    uint32_t reserved;
} EvenkeelAddress;

// A received packet. Its pointers are valid until the function that gets the packet returns.
typedef struct EvenkeelPacket {
    // The size of this struct, in bytes.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The sender's address, which may be forged.
    struct EvenkeelAddress from;
    // The payload.
    const uint8_t *bytes;
    // The length of the payload.
    size_t bytes_count;
    // How long the packet waited in the kernel, in nanoseconds. EVENKEEL_UNKNOWN unless the settings request time stamps.
    uint64_t waited_ns;
    // 1 if the packet was longer than bytes_max, and its rest is cut off. 0 otherwise.
    uint32_t is_truncated;
    // Always 0.
    uint32_t reserved;
} EvenkeelPacket;

// A function that the library calls with each received packet. It must return: no exception and no longjmp may leave it.
// The function may answer with evenkeel_udp_send and evenkeel_udp_flush on the same socket.
// Meanwhile, calls that receive, or report about receiving, return EVENKEEL_STATUS_BUSY.
typedef void (*EvenkeelOnPacket)(const struct EvenkeelPacket *packet, void *context);

// The counts of one call that received packets.
typedef struct EvenkeelReceived {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The number of packets.
    uint64_t packets;
    // The sum of the packets' payloads, in bytes.
    uint64_t bytes;
    // How many of the packets were cut off, because they were too long.
    uint64_t truncated;
    // Errors that the network or the kernel reported during the call.
    uint32_t errors;
    // 1 if the call stopped at its limit, so that more packets may wait. 0 otherwise.
    uint32_t is_bound_reached;
} EvenkeelReceived;

// The counts of one call that sent the queued packets.
typedef struct EvenkeelFlushed {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // Packets that the kernel accepted.
    uint64_t sent;
    // Packets that the kernel refused. They are dropped.
    uint64_t refused;
    // Packets that stay queued, because the kernel had no room.
    uint64_t waiting;
} EvenkeelFlushed;

// Which settings of a socket are active, and its counters since the start.
// Each setting has an EvenkeelApplyStatus. If the kernel refused it, its error number (errno) follows, else 0.
typedef struct EvenkeelUdpReport {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The port that the socket receives on.
    uint32_t port;
    // The backend for receiving now: One, Batched, Offloaded or Uring of EvenkeelIoBackend.
    uint32_t receive_backend;
    // The backend for sending now: One, Batched or Offloaded of EvenkeelIoBackend.
    uint32_t send_backend;
    // Always 0.
    uint32_t reserved;
    // The size that the receive buffer needs for EvenkeelUdpSettings.players, in bytes. EVENKEEL_UNKNOWN if that field is 0.
    uint64_t buffer_needed_bytes;
    // The size of the receive buffer, in bytes. EVENKEEL_UNKNOWN if it could not be read, or EvenkeelUdpSettings.players is 0.
    uint64_t buffer_got_bytes;
    // Packets received.
    uint64_t packets_in;
    // Packets that the kernel accepted for sending.
    uint64_t packets_out;
    // Packets that the socket had no room for. EVENKEEL_UNKNOWN if the kernel does not report them.
    uint64_t dropped;
    // Packets that the kernel refused to send.
    uint64_t refused;
    // Why the socket does not use the requested or best backend for receiving: an errno. 0 if the socket uses it.
    // ENOSYS can also mean that the library was built without this backend.
    int32_t receive_backend_errno;
    // Why the socket does not use the requested or best backend for sending: an errno. 0 if the socket uses it.
    int32_t send_backend_errno;
    // Whether packets go to the socket of the CPU that handles them: see evenkeel_udp_new_sharded.
    uint32_t shard;
    // The errno of the field above.
    int32_t shard_errno;
    // Whether the kernel reports dropped packets.
    uint32_t drops;
    // The errno of the field above.
    int32_t drops_errno;
    // The status of EvenkeelUdpSettings.stamps.
    uint32_t stamps;
    // The errno of the field above.
    int32_t stamps_errno;
    // The status of EvenkeelUdpSettings.hears_undelivered.
    uint32_t undelivered;
    // The errno of the field above.
    int32_t undelivered_errno;
    // The status of EvenkeelUdpSettings.busy_poll_us.
    uint32_t busy_poll;
    // The errno of the field above.
    int32_t busy_poll_errno;
    // Whether the kernel accepted a receive buffer above the system's limit (SO_RCVBUFFORCE).
    uint32_t buffer_forced;
    // The errno of the field above.
    int32_t buffer_forced_errno;
    // The largest receive buffer that an ordinary process may request (net.core.rmem_max), in bytes. The kernel doubles this value.
    // EVENKEEL_UNKNOWN if it could not be read, or EvenkeelUdpSettings.players is 0.
    uint64_t rmem_max_bytes;
    // Bytes of the received packets, without headers.
    uint64_t bytes_in;
    // Bytes of the packets that the kernel accepted for sending.
    uint64_t bytes_out;
    // Received packets that were cut off, because they were too long.
    uint64_t truncated;
    // Errors of the network or the kernel while receiving.
    uint64_t errors;
    // System calls that received packets.
    uint64_t calls_in;
    // System calls that sent packets.
    uint64_t calls_out;
    // Packets that were not queued, because the queue was full or the packet was too long.
    uint64_t not_queued;
    // How often the kernel had no room for a packet.
    uint64_t stalls;
    // Packets that are queued now.
    uint64_t waiting;
    // Undelivered packets of all peers that evenkeel_udp_failure does not list.
    uint64_t failures_of_others;
} EvenkeelUdpReport;

// The measurements of the backends. They exist only for the backend Measured.
typedef struct EvenkeelUdpTrial {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The number of rounds.
    uint64_t rounds;
    // How long the measurement took, in nanoseconds.
    uint64_t took_ns;
    // CPU time per received packet, in nanoseconds, the median of the rounds. The order is One, Batched, Offloaded and Uring.
    // Below 0 for a backend that is not available or was not measured.
    double receive_ns[4];
    // CPU time per sent packet, in the same order. On loopback this time includes the kernel's work for the receiver.
    double send_ns[4];
} EvenkeelUdpTrial;

// A peer that some packets did not reach.
typedef struct EvenkeelUdpFailure {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // The peer.
    struct EvenkeelAddress to;
    // Why the last of these packets did not reach the peer: an errno.
    int32_t why_errno;
    // Always 0.
    uint32_t reserved;
    // How many packets did not reach the peer.
    uint64_t packets;
} EvenkeelUdpFailure;

// A wait that took longer than the limit of evenkeel_waits_log_over.
typedef struct EvenkeelLongWait {
    // The size of this struct, in bytes; after a call, how many were filled.
    uint32_t size;
    // The version of this struct: EVENKEEL_ABI_VERSION.
    uint32_t version;
    // One of EvenkeelWaitKind.
    uint32_t kind;
    // The kernel's id of the thread that waited.
    uint32_t thread;
    // The address of the lock or event.
    uint64_t lock;
    // When the wait began, in nanoseconds of CLOCK_MONOTONIC.
    uint64_t start_ns;
    // How long the wait took, in nanoseconds, without no_cpu_ns.
    uint64_t length_ns;
    // How long the lock was free but the waiter had no CPU, in nanoseconds.
    // If the kernel does not count this time, the field is UINT64_MAX, and length_ns includes the time.
    uint64_t no_cpu_ns;
} EvenkeelLongWait;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, such as "0.1.0".
//
// Threads: any, at any time. The text lives as long as the library is loaded.
const char *evenkeel_version(void);

// The ABI version of the running library. EVENKEEL_ABI_VERSION is the ABI version of the header that the program was compiled with.
//
// Threads: any, at any time.
uint32_t evenkeel_abi_version(void);

// Prepares a struct: sets its size and version, and sets all other fields to zero, which means the defaults.
// EVENKEEL_INIT(&structure) calls this function with the right size.
//
// Threads: any. The caller owns the struct.
//
// # Safety
// `structure` is null or points to `size` bytes that may be written.
EvenkeelStatus evenkeel_init(void *structure, size_t size);

// Writes the time of the monotonic clock (CLOCK_MONOTONIC) to `now_ns`, in nanoseconds. All times of this library are times of this clock.
//
// Threads: any, at any time.
//
// # Safety
// `now_ns` may be written. A null `now_ns` is an error.
EvenkeelStatus evenkeel_now_ns(uint64_t *now_ns);

// Starts to report to the sidecar. The sidecar may start later. Returns EVENKEEL_STATUS_REFUSED if AGONES_SDK_HTTP_PORT is not a port.
//
// Threads: any. Call it before evenkeel_thread_new if you can, because a new thread inherits the CPUs of the thread that starts it.
// Free the handle with evenkeel_agones_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init; `agones` may be written. A null `agones` is an error.
EvenkeelStatus evenkeel_agones_new(const struct EvenkeelAgonesSettings *asked,
                                   struct EvenkeelAgones **agones);

// Call this function in each tick. It takes some nanoseconds. Before the first call, the library sends no health message.
//
// Threads: only the thread that ticks.
EvenkeelStatus evenkeel_agones_tick(const struct EvenkeelAgones *agones);

// Reports that the server is ready for players. Returns at once. The thread repeats the request until the sidecar accepts it.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_agones_ready(const struct EvenkeelAgones *agones);

// Asks Agones to shut the game server down. Returns at once. The thread repeats the request until the sidecar accepts it.
// evenkeel_agones_free sends the request once more.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_agones_shutdown(const struct EvenkeelAgones *agones);

// Reads the game server from the sidecar. Blocks until the answer or the timeout. Returns EVENKEEL_STATUS_REFUSED if the sidecar does not answer.
//
// Threads: any except the thread that ticks.
//
// # Safety
// `game_server` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_agones_game_server(const struct EvenkeelAgones *agones,
                                           struct EvenkeelGameServer *game_server);

// The state of all requests.
//
// Threads: any, at any time.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_agones_report(const struct EvenkeelAgones *agones, struct EvenkeelAgonesReport *report);

// Ends the library's thread and frees the handle. This takes at most two timeouts. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
//
// Threads: any except the thread that ticks.
EvenkeelStatus evenkeel_agones_free(struct EvenkeelAgones *agones);

// Starts a clock. The first tick is due one period later.
// Threads: any. Free the handle with evenkeel_clock_free. Unless a function says otherwise, only one thread at a time may use a clock.
// A second thread gets EVENKEEL_STATUS_BUSY, and nothing changes.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init; `clock` may be written. A null `clock` is an error.
EvenkeelStatus evenkeel_clock_new(const struct EvenkeelClockSettings *asked,
                                  struct EvenkeelClock **clock);

// Frees a clock and the thread handle that it took.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the clock. In that case the clock is not freed.
EvenkeelStatus evenkeel_clock_free(struct EvenkeelClock *clock);

// Makes the clock responsible for the thread's settings.
// While the ticks of a real-time thread take more than nine tenths of the time, the clock makes the thread an ordinary one.
// So an administrator can still log in and stop the server. The thread's handle is no longer valid.
//
// Threads: only the thread that evenkeel_thread_new set up, and that ticks.
EvenkeelStatus evenkeel_clock_take_thread(struct EvenkeelClock *clock,
                                          struct EvenkeelThread *thread);

// Returns which settings of the clock's thread are active now. Returns EVENKEEL_STATUS_NO_DATA if the clock took no thread.
//
// Threads: one at a time.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_thread_report(const struct EvenkeelClock *clock,
                                            struct EvenkeelThreadReport *report);

// Sleeps until the next tick is due, and begins it. If the previous tick has not ended, this call ends it.
//
// Threads: only the thread that ticks.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_wait(struct EvenkeelClock *clock, struct EvenkeelTick *tick);

// For engines that own their loop: begins the next tick if it is due, else returns EVENKEEL_STATUS_WOULD_BLOCK. Never waits.
// evenkeel_clock_next_due returns when to call this function.
//
// Threads: only the thread that ticks.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_poll(struct EvenkeelClock *clock,
                                   struct EvenkeelTick *tick);

// For engines that own their loop: when the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
//
// Threads: one at a time.
//
// # Safety
// `due_ns` may be written. A null `due_ns` is an error.
EvenkeelStatus evenkeel_clock_next_due(const struct EvenkeelClock *clock, uint64_t *due_ns);

// Ends the tick. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
//
// Threads: only the thread that ticks.
//
// # Safety
// `done` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_done(struct EvenkeelClock *clock, struct EvenkeelDone *done);

// Sets another period, from the next tick on, in nanoseconds: 1,000 to 3,600,000,000,000.
//
// Threads: one at a time.
EvenkeelStatus evenkeel_clock_set_period(struct EvenkeelClock *clock, uint64_t period_ns);

// Shifts all later ticks by this many nanoseconds, later or earlier, up to an hour.
//
// Threads: one at a time.
EvenkeelStatus evenkeel_clock_shift(struct EvenkeelClock *clock, int64_t by_ns);

// Returns how well the ticks kept time so far.
//
// Threads: one at a time.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_report(const struct EvenkeelClock *clock, struct EvenkeelClockReport *report);

// The time from when a tick was due to when it began. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
//
// Threads: one at a time.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_lateness(const struct EvenkeelClock *clock, struct EvenkeelSummary *summary);

// The time from when a tick was due to when it was done: the latency that players notice. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: one at a time.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_due_to_done(const struct EvenkeelClock *clock,
                                          struct EvenkeelSummary *summary);

// The time from when a tick began to when it was done. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: one at a time.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_work(const struct EvenkeelClock *clock, struct EvenkeelSummary *summary);

// Returns a short English text for a status. An unknown number has a text too.
//
// Threads: any, at any time. The text lives as long as the library is loaded.
const char *evenkeel_status_text(uint32_t status);

// Writes details of the calling thread's last failed call to `buffer`, cut to `size` bytes with the zero at the end.
// The text is empty if the status already says everything.
//
// Threads: any. Each thread has its own text.
//
// # Safety
// `buffer` is null or points to `size` bytes that may be written.
EvenkeelStatus evenkeel_last_error(char *buffer, size_t size);

// Starts the workers. Allocates all memory of the job system.
// Returns EVENKEEL_STATUS_BAD_TEXT if EvenkeelJobSettings.slice_cpus is not a list of CPUs, and EVENKEEL_STATUS_OUT_OF_RANGE if it has a CPU above 255.
//
// Threads: any. Free the handle with evenkeel_jobs_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init, and so are the structs that it points to; `jobs` may be written. A null `jobs` is an error.
EvenkeelStatus evenkeel_jobs_new(const struct EvenkeelJobSettings *asked,
                                 struct EvenkeelJobs **jobs);

// Runs all asynchronous jobs that were pushed, waits for them, and ends the workers. evenkeel_jobs_discard drops the waiting jobs instead.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while a frame is open.
EvenkeelStatus evenkeel_jobs_free(struct EvenkeelJobs *jobs);

// Ends the workers as soon as the running jobs are done. Drops the waiting asynchronous jobs without calling their functions.
// Writes to `dropped` how many jobs it dropped. Also frees the handle.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while a frame is open.
//
// # Safety
// `dropped` may be written. A null `dropped` is an error.
EvenkeelStatus evenkeel_jobs_discard(struct EvenkeelJobs *jobs,
                                     size_t *dropped);

// Opens a frame: calls `body`, which pushes jobs, and returns when all of them are done. This thread runs jobs until then.
//
// Threads: one at a time. `body` runs on the calling thread.
//
// # Safety
// `body` is null or a function that takes this context.
EvenkeelStatus evenkeel_jobs_frame(struct EvenkeelJobs *jobs,
                                   EvenkeelJob body,
                                   void *context);

// Pushes a job to a frame.
// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full and EvenkeelJobSettings.refuses_when_full is set.
// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the queue does not exist or is asynchronous.
// Returns EVENKEEL_STATUS_BAD_HANDLE if the frame is not open on this thread.
//
// Threads: only the thread that received this frame handle.
//
// # Safety
// `job` is null, or a function that may be called with `context` on any thread until the frame ends.
EvenkeelStatus evenkeel_frame_push(struct EvenkeelFrame *frame, uint32_t queue_number, EvenkeelJob job, void *context);

// Pushes a job that starts when `others_count` other jobs are done. Writes the job's number to `number`, so that other jobs can depend on it.
// Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with one of the numbers in `others`.
// Returns EVENKEEL_STATUS_NO_ROOM if the frame already has linked_max such jobs.
//
// Threads: only the thread that received this frame handle.
//
// # Safety
// `others` points to `others_count` numbers, or is null if `others_count` is 0; `job` as for evenkeel_frame_push; `number` may be written. A null `number` is an error.
EvenkeelStatus evenkeel_frame_push_after(struct EvenkeelFrame *frame,
                                         uint32_t queue_number,
                                         EvenkeelJob job,
                                         void *context,
                                         const uint32_t *others,
                                         size_t others_count,
                                         uint32_t *number);

// Runs jobs until the job with this number from evenkeel_frame_push_after is done.
// Inside a job it returns EVENKEEL_STATUS_WOULD_BLOCK at once if the awaited job is not done.
// The reason: the awaited job may be on the same stack, below the job that waits. Inside a job, use evenkeel_frame_push_after.
// Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with this number.
//
// Threads: only the thread that received this frame handle.
EvenkeelStatus evenkeel_frame_wait(struct EvenkeelFrame *frame,
                                   uint32_t number);

// Writes to `is_done` whether the job with this number is done: 1 or 0. Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with this number.
//
// Threads: only the thread that received this frame handle.
//
// # Safety
// `is_done` may be written. A null `is_done` is an error.
EvenkeelStatus evenkeel_frame_is_done(struct EvenkeelFrame *frame,
                                      uint32_t number,
                                      uint32_t *is_done);

// Calls `each` with every number from 0 to `count` (not included), in chunks, on this thread and on workers that take from the queue.
// Returns when all calls have returned.
//
// Threads: only the thread that received this frame handle.
//
// # Safety
// `each` is null, or a function that may be called with `context` on several threads at once.
EvenkeelStatus evenkeel_frame_for_each(struct EvenkeelFrame *frame,
                                       uint32_t queue_number,
                                       size_t count,
                                       size_t chunk,
                                       EvenkeelEach each,
                                       void *context);

// Creates a handle that pushes asynchronous jobs.
//
// Threads: any, but not while a frame is open. Free the handle with evenkeel_asynchronous_free.
//
// # Safety
// `asynchronous` may be written. A null `asynchronous` is an error.
EvenkeelStatus evenkeel_asynchronous_new(struct EvenkeelJobs *jobs, struct EvenkeelAsynchronous **asynchronous);

// Pushes an asynchronous job, which no frame waits for.
// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full, and EVENKEEL_STATUS_REFUSED if the job system was freed.
// Returns EVENKEEL_STATUS_NO_WORKER if no worker takes from the queue and EvenkeelJobSettings.caller_runs_asynchronous is not set.
//
// Threads: any, at any time, also in jobs.
//
// # Safety
// `job` is null, or a function that may be called with `context` on any thread until the job system is freed.
EvenkeelStatus evenkeel_asynchronous_push(const struct EvenkeelAsynchronous *asynchronous,
                                          uint32_t queue_number,
                                          EvenkeelJob job,
                                          void *context);

// Frees the handle. Jobs that were pushed still run.
//
// Threads: any.
EvenkeelStatus evenkeel_asynchronous_free(struct EvenkeelAsynchronous *asynchronous);

// Runs up to `at_most` asynchronous jobs of queues that no worker takes from, and writes to `ran` how many it ran.
// A server without workers calls this function in the time that a tick has left.
// Set EvenkeelJobSettings.caller_runs_asynchronous to allow such jobs.
//
// Threads: one at a time.
//
// # Safety
// `ran` may be written. A null `ran` is an error.
EvenkeelStatus evenkeel_jobs_run_asynchronous(struct EvenkeelJobs *jobs, size_t at_most, size_t *ran);

// Writes the counters of the last frame to `counters`.
//
// Threads: one at a time.
//
// # Safety
// `counters` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_jobs_last_frame(struct EvenkeelJobs *jobs, struct EvenkeelFrameCounters *counters);

// Writes to `report` which settings of a worker's thread are active. Workers have numbers from 0.
// First come EvenkeelJobSettings.workers, then the asynchronous workers, then own_workers.
// Returns EVENKEEL_STATUS_OUT_OF_RANGE if no worker has this number.
//
// Threads: one at a time.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_jobs_worker_report(struct EvenkeelJobs *jobs,
                                           size_t number,
                                           struct EvenkeelThreadReport *report);

// Writes to `slice` when a CPU is available, if a hypervisor runs the CPU in slices. It takes some seconds until slices are known.
// Returns EVENKEEL_STATUS_OUT_OF_RANGE if EvenkeelJobSettings.slice_cpus does not list the CPU.
// Returns EVENKEEL_STATUS_UNSUPPORTED on other systems than Linux.
//
// Threads: any, at any time, also in jobs. The call reads memory and the clock.
//
// # Safety
// `slice` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_jobs_cpu_slice(const struct EvenkeelJobs *jobs,
                                       uint32_t cpu,
                                       struct EvenkeelCpuSlice *slice);

// Prepares a lock that nobody holds.
//
// Threads: one, before any other thread uses it. Call evenkeel_mutex_destroy at the end.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_mutex_init(struct EvenkeelMutex *mutex);

// Takes the lock, sleeping until it is free. Returns EVENKEEL_STATUS_BUSY if the calling thread already holds the lock: it would wait for itself.
//
// Threads: any, at any time.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_mutex_lock(struct EvenkeelMutex *mutex);

// Takes the lock if it is free, else returns EVENKEEL_STATUS_WOULD_BLOCK.
//
// Threads: any, at any time.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_mutex_try_lock(struct EvenkeelMutex *mutex);

// Releases the lock. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody holds it, and EVENKEEL_STATUS_WRONG_THREAD if another thread does.
//
// Threads: only the thread that holds the lock.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_mutex_unlock(struct EvenkeelMutex *mutex);

// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
//
// Threads: one, when no other thread uses it.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_mutex_destroy(struct EvenkeelMutex *mutex);

// Prepares a lock that inherits priority and that nobody holds.
//
// Threads: one, before any other thread uses it. Call evenkeel_inherit_mutex_destroy at the end.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_inherit_mutex_init(struct EvenkeelInheritMutex *mutex);

// Takes the lock, sleeping until it is free. Returns EVENKEEL_STATUS_BUSY if the calling thread already holds the lock: it would wait for itself.
//
// Threads: any, at any time.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_inherit_mutex_lock(struct EvenkeelInheritMutex *mutex);

// Takes the lock if it is free, else returns EVENKEEL_STATUS_WOULD_BLOCK.
//
// Threads: any, at any time.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_inherit_mutex_try_lock(struct EvenkeelInheritMutex *mutex);

// Releases the lock. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody holds it, and EVENKEEL_STATUS_WRONG_THREAD if another thread does.
//
// Threads: only the thread that holds the lock.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_inherit_mutex_unlock(struct EvenkeelInheritMutex *mutex);

// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
//
// Threads: one, when no other thread uses it.
//
// # Safety
// `mutex` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_inherit_mutex_destroy(struct EvenkeelInheritMutex *mutex);

// Prepares a lock for readers and writers that nobody holds.
//
// Threads: one, before any other thread uses it. Call evenkeel_rw_lock_destroy at the end.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_init(struct EvenkeelRwLock *lock);

// Takes the lock for reading, sleeping while a thread writes. Returns EVENKEEL_STATUS_BUSY if the calling thread itself writes.
//
// Threads: any, at any time, except a thread that already holds the lock: it might wait for itself.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_read(struct EvenkeelRwLock *lock);

// Takes the lock for reading if no thread writes, else returns EVENKEEL_STATUS_WOULD_BLOCK.
//
// Threads: any, at any time.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_try_read(struct EvenkeelRwLock *lock);

// Releases a lock that the calling thread took for reading. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody reads.
//
// Threads: only the thread that took the lock.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_unlock_read(struct EvenkeelRwLock *lock);

// Takes the lock for writing, sleeping while any thread reads or writes. Returns EVENKEEL_STATUS_BUSY if the calling thread already writes.
//
// Threads: any, at any time, except a thread that reads: it would wait for itself.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_write(struct EvenkeelRwLock *lock);

// Takes the lock for writing if no thread reads or writes, else returns EVENKEEL_STATUS_WOULD_BLOCK.
//
// Threads: any, at any time.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_try_write(struct EvenkeelRwLock *lock);

// Releases a lock that the calling thread took for writing.
// Returns EVENKEEL_STATUS_NOT_LOCKED if nobody writes, and EVENKEEL_STATUS_WRONG_THREAD if another thread writes.
//
// Threads: only the thread that took the lock.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_unlock_write(struct EvenkeelRwLock *lock);

// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
//
// Threads: one, when no other thread uses it.
//
// # Safety
// `lock` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_rw_lock_destroy(struct EvenkeelRwLock *lock);

// Prepares an event that has not happened.
//
// Threads: one, before any other thread uses it. Call evenkeel_event_destroy at the end.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_event_init(struct EvenkeelEvent *event);

// Sets the event: it has happened. Every waiter continues, and sees the data that the calling thread wrote before the call.
//
// Threads: any, at any time.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_event_set(struct EvenkeelEvent *event);

// Resets the event, so that it can happen again.
//
// Threads: any, after all threads that waited for the event have returned.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_event_reset(struct EvenkeelEvent *event);

// Sleeps until the event has happened.
//
// Threads: any, at any time.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_event_wait(struct EvenkeelEvent *event);

// Writes to `is_set` whether the event has happened: 1 or 0.
//
// Threads: any, at any time.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written; `is_set` may be written. A null `is_set` is an error.
EvenkeelStatus evenkeel_event_is_set(const struct EvenkeelEvent *event,
                                     uint32_t *is_set);

// Ends the use of an event. Returns EVENKEEL_STATUS_BUSY if a thread waits for it. Afterwards the caller may use the storage for other data.
//
// Threads: one, when no other thread uses it.
//
// # Safety
// `event` is null or points to storage that the caller owns and that may be read and written.
EvenkeelStatus evenkeel_event_destroy(struct EvenkeelEvent *event);

// Applies the settings, to the process (lock, heap) and to the calling thread (stack).
// A setting that the kernel refuses is not an error: the report lists it.
//
// Threads: only the thread that ticks, before its first tick. Free the handle with evenkeel_memory_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init; `memory` may be written. A null `memory` is an error.
EvenkeelStatus evenkeel_memory_new(const struct EvenkeelMemoryConfig *asked,
                                   struct EvenkeelMemory **memory);

// Returns which settings are active.
//
// Threads: one at a time.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_memory_report(struct EvenkeelMemory *memory, struct EvenkeelMemoryReport *report);

// Writes to `buffer` a line for each setting that is not active, with what to do. The text is empty if all requested settings are active.
// `needed` is the number of bytes, with the zero at the end. Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit.
//
// Threads: one at a time. Allocates memory: do not call it in a tick.
//
// # Safety
// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_memory_advice(struct EvenkeelMemory *memory,
                                      char *buffer,
                                      size_t size,
                                      size_t *needed);

// Writes the page faults of the last tick to `tick`. Call this function after each evenkeel_clock_done.
// A call costs one system call (about 0.3 us), and once a second it reads a file. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: only the thread that ticks.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_memory_after(struct EvenkeelMemory *memory,
                                     struct EvenkeelClock *clock,
                                     struct EvenkeelTickMemory *tick);

// Loads the pages of memory that ticks will write to. The contents of the memory do not change.
// Returns EVENKEEL_STATUS_REFUSED if the kernel is older than Linux 5.14, or memory is full.
//
// Threads: any, while no other thread writes to this memory.
//
// # Safety
// `memory` is null or points to `bytes` bytes that may be written.
EvenkeelStatus evenkeel_memory_prefault(void *memory, size_t bytes);

// Frees the handle. Locked pages stay locked.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
EvenkeelStatus evenkeel_memory_free(struct EvenkeelMemory *memory);

// Call this function between the steps of a tick's work, so that the clock also finds gaps inside ticks. A call costs some 50 ns.
//
// Threads: only the thread that ticks.
EvenkeelStatus evenkeel_clock_checkpoint(struct EvenkeelClock *clock);

// Writes to `quantum` how the CPU is taken away from the tick's thread, as far as the clock knows, and how the clock reacts.
//
// Threads: one at a time.
//
// # Safety
// `quantum` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_clock_quantum(const struct EvenkeelClock *clock,
                                      struct EvenkeelQuantum *quantum);

// Creates a rate: opens the files with the kernel's counters, and allocates all memory of the rate.
// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the ladder or a share is invalid.
//
// Threads: only the thread that ticks, because the rate reads that thread's counters. Free the handle with evenkeel_rate_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init; `rate` may be written. A null `rate` is an error.
EvenkeelStatus evenkeel_rate_new(const struct EvenkeelRateSettings *asked,
                                 struct EvenkeelRate **rate);

// Writes the current period to `period_ns`, in nanoseconds, to start a clock with.
//
// Threads: one at a time.
//
// # Safety
// `period_ns` may be written. A null `period_ns` is an error.
EvenkeelStatus evenkeel_rate_period(struct EvenkeelRate *rate, uint64_t *period_ns);

// Call this function after each evenkeel_clock_done. If the load requires another period, the clock has it from the next tick on.
// Writes the clock's period to `period_ns`, in nanoseconds. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: only the thread that ticks.
// About once a second this function reads the system's counters for some microseconds, after a tick that leaves time.
//
// # Safety
// `period_ns` may be written. A null `period_ns` is an error.
EvenkeelStatus evenkeel_rate_after(struct EvenkeelRate *rate,
                                   struct EvenkeelClock *clock,
                                   uint64_t *period_ns);

// Enters another phase of the game, with periods from `fastest_ns` to `slowest_ns`. The clock's period moves into that range at once.
//
// Threads: only the thread that ticks.
EvenkeelStatus evenkeel_rate_enter(struct EvenkeelRate *rate,
                                   struct EvenkeelClock *clock,
                                   uint64_t fastest_ns,
                                   uint64_t slowest_ns);

// Passes the clock's detected time slices to the rate. The ladder's rungs become multiples of the slices' period.
// The clock's period follows. Call this function after each evenkeel_rate_after.
//
// Threads: only the thread that ticks.
EvenkeelStatus evenkeel_rate_take_slices(struct EvenkeelRate *rate, struct EvenkeelClock *clock);

// Writes to `load` the load in the last second or so, such as 0.6. Returns EVENKEEL_STATUS_NO_DATA in the first second.
// The load is how long a tick works, divided by the part of the period in which it may run.
//
// Threads: one at a time.
//
// # Safety
// `load` may be written. A null `load` is an error.
EvenkeelStatus evenkeel_rate_load(struct EvenkeelRate *rate, double *load);

// Writes the last change of the period, and its reason, to `change`. Returns EVENKEEL_STATUS_NO_DATA if the period never changed.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
//
// # Safety
// `change` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_rate_last_change(const struct EvenkeelRate *rate,
                                         struct EvenkeelRateChange *change);

// Frees the handle. The clock keeps its period.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
EvenkeelStatus evenkeel_rate_free(struct EvenkeelRate *rate);

// Starts to record the calling thread under a name. Allocates a ring for the thread's last scopes (up to a million; rounded up to a power of two).
// Call this function before the first tick: the first call of a process takes up to 0.3 s. A second call with the same name changes nothing.
// Once a thread records, every other thread starts to record at its first scope, with a ring of 4,096.
// Returns EVENKEEL_STATUS_NO_ROOM if 256 threads already record, and EVENKEEL_STATUS_BUSY if this thread records under another name.
//
// Threads: only the thread that enters scopes.
//
// # Safety
// `name` is null or a text that ends with a zero.
EvenkeelStatus evenkeel_scope_start_thread(const char *name,
                                           size_t scopes);

// Writes to `scope` the number of the scope with this name of 1 to 128 bytes. The same name always has the same number.
// The call takes a lock and allocates, so make it at the start, not in a tick. Returns EVENKEEL_STATUS_NO_ROOM if 4,096 names already exist.
//
// Threads: any, at any time.
//
// # Safety
// `name` is null or a text that ends with a zero; `scope` may be written. A null `scope` is an error.
EvenkeelStatus evenkeel_scope_register(const char *name,
                                       uint32_t *scope);

// Enters a scope. Returns EVENKEEL_STATUS_BAD_HANDLE if no scope has this number.
// Returns EVENKEEL_STATUS_NO_ROOM if the thread is already in 128 scopes. In both cases do not leave the scope.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_scope_enter(uint32_t scope);

// Leaves the innermost scope with this number. Returns EVENKEEL_STATUS_BAD_HANDLE if the thread is not in such a scope.
//
// Threads: only the thread that entered the scope.
EvenkeelStatus evenkeel_scope_leave(uint32_t scope);

// Writes all rings to `buffer`, as JSON that opens in Perfetto and chrome://tracing. `needed` is the number of bytes, with the zero at the end.
// Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit. Threads keep recording meanwhile, so call again with more than `needed`.
// Returns EVENKEEL_STATUS_NO_DATA if no thread records.
//
// Threads: any, at any time, but not in a tick, because the call allocates.
//
// # Safety
// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_scope_chrome_json(char *buffer,
                                          size_t size,
                                          size_t *needed);

// Writes all rings as JSON to a file. Creates or replaces the file.
//
// Threads: any, at any time, but not in a tick, because the call allocates and writes a file.
//
// # Safety
// `path` is null or a text that ends with a zero.
EvenkeelStatus evenkeel_scope_write_chrome_json(const char *path);

// From now on, logs each innermost scope that uses the CPU for longer than `over_ns` nanoseconds, on threads that record. Allocates the log.
// Start with half of the quantum if the CPU runs in slices.
// Each scope then reads the thread's CPU time twice, which takes about 0.7 us, so use this for diagnosis only.
// Returns EVENKEEL_STATUS_UNSUPPORTED on other systems than Linux.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_scope_log_long(uint64_t over_ns);

// Stops logging. The caller can still take the scopes in the log.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_scope_stop_long(void);

// Takes the oldest scope of the log. `lost` is the number of scopes that were lost since the last call because the log was full.
// Returns EVENKEEL_STATUS_NO_DATA if no scope is left, and sets `lost` in that case too.
//
// Threads: any, at any time, but not in a tick, because the call takes a lock and allocates.
//
// # Safety
// `long_scope` is null or points to a struct prepared by evenkeel_init; `lost` may be written. A null `lost` is an error.
EvenkeelStatus evenkeel_scope_take_long(struct EvenkeelLongScope *long_scope,
                                        uint64_t *lost);

// Creates the page of a session, which any permitted process can read while the server runs. Freeing the handle removes the page.
// Returns EVENKEEL_STATUS_REFUSED if no folder accepts the page, or this process already has a session of that name.
//
// Threads: any. Free the handle with evenkeel_telemetry_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init, whose texts are null or end with a zero; `telemetry` may be written. A null `telemetry` is an error.
EvenkeelStatus evenkeel_telemetry_new(const struct EvenkeelTelemetrySettings *asked,
                                      struct EvenkeelTelemetry **telemetry);

// Writes the entry of the last tick, with the clock's period. Call this function after each evenkeel_clock_done.
// Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: only the thread that ticks. Takes less than a microsecond.
EvenkeelStatus evenkeel_telemetry_after(const struct EvenkeelTelemetry *telemetry, const struct EvenkeelClock *clock);

// Passes the clock's detected quantum to the page, from the next entry on. Call this function before each evenkeel_telemetry_after.
//
// Threads: only the thread that ticks.
EvenkeelStatus evenkeel_telemetry_quantum(const struct EvenkeelTelemetry *telemetry,
                                          const struct EvenkeelClock *clock);

// Passes the page faults from evenkeel_memory_after to the page, for the next entry. Call this function before evenkeel_telemetry_after.
//
// Threads: only the thread that ticks.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_telemetry_memory(const struct EvenkeelTelemetry *telemetry,
                                         const struct EvenkeelTickMemory *tick);

// Adds to a counter of the page (EvenkeelCount).
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_telemetry_add(const struct EvenkeelTelemetry *telemetry, uint32_t what, uint64_t more);

// Sets a counter of the page (EvenkeelCount), such as players.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_telemetry_set(const struct EvenkeelTelemetry *telemetry, uint32_t what, uint64_t now);

// Writes the path of the page to `path`. `needed` is the number of bytes, with the zero at the end.
//
// Threads: any, at any time.
//
// # Safety
// `path` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_telemetry_path(const struct EvenkeelTelemetry *telemetry,
                                       char *path,
                                       size_t size,
                                       size_t *needed);

// Writes the page to `text` in Prometheus' text format. `needed` is the number of bytes, with the zero at the end.
//
// Threads: any, at any time. Allocates memory: do not call it in a tick.
//
// # Safety
// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_telemetry_prometheus(const struct EvenkeelTelemetry *telemetry,
                                             char *text,
                                             size_t size,
                                             size_t *needed);

// Writes the readable pages of all running sessions of this machine to `text`, as one Prometheus text.
// `needed` is the number of bytes, with the zero at the end. `folder` is the folder of the pages. An empty text means the default folders.
// Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit. Sessions come and go, so call again with more than `needed`.
//
// Threads: any, at any time. Allocates memory and reads files: do not call it in a tick.
//
// # Safety
// `folder` is null or a text that ends with a zero. `text` is null or points to `size` bytes that may be written.
// `needed` is null or may be written.
EvenkeelStatus evenkeel_telemetry_prometheus_of_all(const char *folder,
                                                    char *text,
                                                    size_t size,
                                                    size_t *needed);

// Removes the page.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
EvenkeelStatus evenkeel_telemetry_free(struct EvenkeelTelemetry *telemetry);

// Applies the settings to the calling thread. A setting that the kernel refuses is not an error: the report lists it.
//
// Threads: only the thread that ticks. Free the handle with evenkeel_thread_free, or pass it to evenkeel_clock_take_thread.
//
// # Safety
// `config` is null or points to a struct prepared by evenkeel_init, whose text ends with a zero; `thread` may be written. A null `thread` is an error.
EvenkeelStatus evenkeel_thread_new(const struct EvenkeelThreadConfig *config,
                                   struct EvenkeelThread **thread);

// Writes to `report` which settings are active.
//
// Threads: any.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_thread_report(const struct EvenkeelThread *thread, struct EvenkeelThreadReport *report);

// Frees the handle, and ends dma_latency_us. The thread's other settings stay.
//
// Threads: any.
EvenkeelStatus evenkeel_thread_free(struct EvenkeelThread *thread);

// Sets up the calling thread and starts a loop. The first tick is due one period later. This function allocates all memory of the loop.
// Settings that the kernel refuses are not errors: evenkeel_tick_loop_advice lists them.
// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the period, an enumeration or the ladder of the rate is invalid.
// Returns EVENKEEL_STATUS_REFUSED if the telemetry page cannot be created.
// Returns EVENKEEL_STATUS_NO_ROOM if too many threads record scopes.
// Returns EVENKEEL_STATUS_BUSY if this thread records scopes under another name, such as that of an earlier loop.
//
// Threads: only the thread that ticks. Free the handle with evenkeel_tick_loop_free.
// Unless a function says otherwise, only that thread may use the loop. Other threads get EVENKEEL_STATUS_WRONG_THREAD, and nothing changes.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init. Its pointers are null or point to such structs or to texts that end with a zero.
// `ticks` may be written. A null `ticks` is an error.
EvenkeelStatus evenkeel_tick_loop_new(const struct EvenkeelTickLoopSettings *asked,
                                      struct EvenkeelTickLoop **ticks);

// Sleeps until the next tick is due, and begins it. If the previous tick has not ended, this call ends it.
//
// Threads: only the loop's own thread.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_wait(struct EvenkeelTickLoop *ticks, struct EvenkeelTick *tick);

// For engines that own their loop: begins the next tick if it is due, else returns EVENKEEL_STATUS_WOULD_BLOCK. Never waits.
// evenkeel_tick_loop_next_due returns when to call this function.
//
// Threads: only the loop's own thread.
//
// # Safety
// `tick` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_poll(struct EvenkeelTickLoop *ticks,
                                       struct EvenkeelTick *tick);

// For engines that own their loop: when the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
//
// Threads: only the loop's own thread.
//
// # Safety
// `due_ns` may be written. A null `due_ns` is an error.
EvenkeelStatus evenkeel_tick_loop_next_due(const struct EvenkeelTickLoop *ticks, uint64_t *due_ns);

// Ends the tick, and does its bookkeeping: page faults, telemetry, rate. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
//
// Threads: only the loop's own thread.
//
// # Safety
// `done` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_done(struct EvenkeelTickLoop *ticks,
                                       struct EvenkeelDone *done);

// Call this function between the steps of a tick's work, so that the loop also finds gaps inside ticks. A call costs some 50 ns.
//
// Threads: only the loop's own thread.
EvenkeelStatus evenkeel_tick_loop_checkpoint(struct EvenkeelTickLoop *ticks);

// Enters another phase of the game, with periods from `fastest_ns` to `slowest_ns`. The period moves into that range at once.
// Without a rate, the period does not change.
//
// Threads: only the loop's own thread.
EvenkeelStatus evenkeel_tick_loop_enter_phase(struct EvenkeelTickLoop *ticks,
                                              uint64_t fastest_ns,
                                              uint64_t slowest_ns);

// Adds to a counter (EvenkeelCount) of the telemetry page. Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_tick_loop_add(const struct EvenkeelTickLoop *ticks,
                                      uint32_t what,
                                      uint64_t more);

// Sets a counter (EvenkeelCount) of the telemetry page, such as players. Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_tick_loop_set(const struct EvenkeelTickLoop *ticks,
                                      uint32_t what,
                                      uint64_t now);

// Ends the loop: removes its telemetry page, and ends dma_latency_us. The thread's other settings and locked pages stay.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the loop. In that case the loop is not freed.
EvenkeelStatus evenkeel_tick_loop_free(struct EvenkeelTickLoop *ticks);

// Writes to `report` how well the ticks kept time so far.
//
// Threads: only the loop's own thread.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_report(const struct EvenkeelTickLoop *ticks, struct EvenkeelClockReport *report);

// Writes to `report` how the ticks are spread among the ticks of other sessions.
//
// Threads: only the loop's own thread.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_phase(const struct EvenkeelTickLoop *ticks, struct EvenkeelPhaseReport *report);

// Writes the report to `text`, with a line for each figure. `needed` is the number of bytes, with the zero at the end.
//
// Threads: only the loop's own thread. Allocates memory: do not call it in a tick.
//
// # Safety
// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_tick_loop_report_text(const struct EvenkeelTickLoop *ticks,
                                              char *text,
                                              size_t size,
                                              size_t *needed);

// Writes to `text` a line for each setting that was requested and is not active, with what to do.
// The text is empty if all requested settings are active. `needed` is the number of bytes, with the zero at the end.
//
// Threads: only the loop's own thread. Allocates memory: do not call it in a tick.
//
// # Safety
// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_tick_loop_advice(const struct EvenkeelTickLoop *ticks, char *text, size_t size, size_t *needed);

// Writes to `report` which settings of the loop's thread are active now.
//
// Threads: only the loop's own thread.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_thread_report(const struct EvenkeelTickLoop *ticks,
                                                struct EvenkeelThreadReport *report);

// Writes to `report` which memory settings are active now. Returns EVENKEEL_STATUS_NO_DATA if the loop has no memory settings.
//
// Threads: only the loop's own thread.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_memory_report(const struct EvenkeelTickLoop *ticks,
                                                struct EvenkeelMemoryReport *report);

// The time from when a tick was due to when it began. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
//
// Threads: only the loop's own thread.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_lateness(const struct EvenkeelTickLoop *ticks, struct EvenkeelSummary *summary);

// The time from when a tick was due to when it was done: the latency that players notice. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: only the loop's own thread.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_due_to_done(const struct EvenkeelTickLoop *ticks,
                                              struct EvenkeelSummary *summary);

// The time from when a tick began to when it was done. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
//
// Threads: only the loop's own thread.
//
// # Safety
// `summary` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_work(const struct EvenkeelTickLoop *ticks, struct EvenkeelSummary *summary);

// Writes to `quantum` how the CPU is taken away from the loop's thread, as far as the loop knows, and how the loop reacts.
//
// Threads: only the loop's own thread.
//
// # Safety
// `quantum` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_quantum(const struct EvenkeelTickLoop *ticks,
                                          struct EvenkeelQuantum *quantum);

// Writes to `load` the load in the last second or so, such as 0.6. Returns EVENKEEL_STATUS_NO_DATA in the first second, and without a rate.
// The load is how long a tick works, divided by the part of the period in which it may run.
//
// Threads: only the loop's own thread.
//
// # Safety
// `load` may be written. A null `load` is an error.
EvenkeelStatus evenkeel_tick_loop_load(const struct EvenkeelTickLoop *ticks,
                                       double *load);

// Writes the last change of the period, and its reason, to `change`. Returns EVENKEEL_STATUS_NO_DATA if the period never changed.
//
// Threads: any, at any time.
//
// # Safety
// `change` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_tick_loop_last_change(const struct EvenkeelTickLoop *ticks,
                                              struct EvenkeelRateChange *change);

// Writes the path of the telemetry page to `path`. `needed` is the number of bytes, with the zero at the end.
// Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
//
// Threads: any, at any time.
//
// # Safety
// `path` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_tick_loop_telemetry_path(const struct EvenkeelTickLoop *ticks,
                                                 char *path,
                                                 size_t size,
                                                 size_t *needed);

// Writes the telemetry page to `text` in Prometheus' text format. `needed` is the number of bytes, with the zero at the end.
// Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
//
// Threads: any, at any time. Allocates memory and reads a file: do not call it in a tick.
//
// # Safety
// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_tick_loop_prometheus(const struct EvenkeelTickLoop *ticks,
                                             char *text,
                                             size_t size,
                                             size_t *needed);

// Opens a socket. Returns EVENKEEL_STATUS_REFUSED if the kernel refuses the address.
//
// Threads: any. Free the handle with evenkeel_udp_free.
//
// # Safety
// `asked` is null or points to a struct prepared by evenkeel_init, whose text is null or ends with a zero; `udp` may be written. A null `udp` is an error.
EvenkeelStatus evenkeel_udp_new(const struct EvenkeelUdpSettings *asked,
                                struct EvenkeelUdp **udp);

// Opens `cpus_count` sockets on the same address, one for each CPU (1 to 64, numbered from 0), and writes them to `udps`.
// The kernel puts a packet into the socket of the CPU that handles it. A thread that stays on that CPU finds the packet in the CPU's cache.
// The device (RSS) or the system (RPS) chooses which CPU handles a packet. Packets of other CPUs are spread over all sockets.
// Other sockets of the same user can join the address. Either all sockets are opened, or none.
// Returns EVENKEEL_STATUS_REFUSED if the kernel refuses the address. EvenkeelUdpReport.shard says whether the kernel sorts packets by CPU.
//
// Threads: any. Free each handle with evenkeel_udp_free.
//
// # Safety
// `asked` as for evenkeel_udp_new; `cpus` is null or points to `cpus_count` numbers.
// `udps` is null or points to `cpus_count` places that may be written.
EvenkeelStatus evenkeel_udp_new_sharded(const struct EvenkeelUdpSettings *asked,
                                        const uint32_t *cpus,
                                        size_t cpus_count,
                                        struct EvenkeelUdp **udps);

// Calls `each` with every waiting packet, up to `at_most`. Never waits for packets.
//
// Threads: one at a time. Another thread may send meanwhile.
//
// # Safety
// `each` is null or a function that takes this context; `received` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_receive(struct EvenkeelUdp *udp,
                                    size_t at_most,
                                    EvenkeelOnPacket each,
                                    void *context,
                                    struct EvenkeelReceived *received);

// Queues a packet. Returns EVENKEEL_STATUS_OUT_OF_RANGE if the packet is longer than bytes_max.
// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full and the kernel accepts no more now. In that case the packet is lost.
//
// Threads: one at a time. Another thread may receive meanwhile. The function that evenkeel_udp_receive calls may send.
//
// # Safety
// `to` is null or points to a struct prepared by evenkeel_init; `bytes` is null or points to `bytes_count` bytes.
EvenkeelStatus evenkeel_udp_send(struct EvenkeelUdp *udp,
                                 const struct EvenkeelAddress *to,
                                 const uint8_t *bytes,
                                 size_t bytes_count);

// Sends the queued packets, as many as the kernel accepts. Never waits.
//
// Threads: one at a time. Another thread may receive meanwhile.
//
// # Safety
// `flushed` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_flush(struct EvenkeelUdp *udp, struct EvenkeelFlushed *flushed);

// Writes to `address` the address that the socket receives on.
//
// Threads: any, at any time.
//
// # Safety
// `address` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_local_address(const struct EvenkeelUdp *udp, struct EvenkeelAddress *address);

// Writes to `descriptor` the socket's file descriptor, to wait for packets and other events (poll, epoll).
// The descriptor is readable while packets wait in the kernel. Packets that remain from the last call because of a limit do not make it readable.
// The descriptor belongs to the library: do not close it, and do not read from it.
// Returns EVENKEEL_STATUS_UNSUPPORTED on systems without file descriptors.
//
// Threads: any, at any time.
//
// # Safety
// `descriptor` may be written. A null `descriptor` is an error.
EvenkeelStatus evenkeel_udp_descriptor(const struct EvenkeelUdp *udp,
                                       int32_t *descriptor);

// Closes the socket.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
EvenkeelStatus evenkeel_udp_free(struct EvenkeelUdp *udp);

// Reads an address such as `192.0.2.1:7777` or `[2001:db8::1]:7777`, but no host names. Returns EVENKEEL_STATUS_BAD_TEXT if `text` is not an address.
//
// Threads: any, at any time.
//
// # Safety
// `text` is null or a text that ends with a zero; `address` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_address_parse(const char *text,
                                      struct EvenkeelAddress *address);

// Writes an address to `buffer` as text. `needed` is the number of bytes, with the zero at the end. 64 bytes are always enough.
//
// Threads: any, at any time. Allocates memory: do not call it in a tick.
//
// # Safety
// `address` is null or points to a struct prepared by evenkeel_init; `buffer` is null or points to `size` bytes that may be written.
// `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_address_text(const struct EvenkeelAddress *address,
                                     char *buffer,
                                     size_t size,
                                     size_t *needed);

// Writes to `report` which settings of the socket are active, and its counters.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
//
// # Safety
// `report` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_report(struct EvenkeelUdp *udp, struct EvenkeelUdpReport *report);

// Writes to `buffer` a line for each setting: its status when the socket was opened, and what to do about it.
// `needed` is the number of bytes, with the zero at the end. Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit.
//
// Threads: any, at any time. Allocates memory: do not call it in a tick.
//
// # Safety
// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
EvenkeelStatus evenkeel_udp_report_text(const struct EvenkeelUdp *udp,
                                        char *buffer,
                                        size_t size,
                                        size_t *needed);

// Writes the measurements of the backends to `trial`. Returns EVENKEEL_STATUS_NO_DATA if neither half requested the backend Measured.
//
// Threads: any, at any time.
//
// # Safety
// `trial` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_trial(const struct EvenkeelUdp *udp,
                                  struct EvenkeelUdpTrial *trial);

// Writes to `waited` how long packets waited in the kernel.
// Returns EVENKEEL_STATUS_NO_DATA unless the settings request time stamps and the socket has received packets.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives.
//
// # Safety
// `waited` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_waited(const struct EvenkeelUdp *udp, struct EvenkeelSummary *waited);

// Writes to `failure` one of the peers that packets did not reach, by its number from 0 on.
// The first peers are at most 64 for which the kernel refused to send.
// After these come at most 64 peers that the network reported, if the settings request these reports.
// Returns EVENKEEL_STATUS_NO_DATA if no peer has this number.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
//
// # Safety
// `failure` is null or points to a struct prepared by evenkeel_init.
EvenkeelStatus evenkeel_udp_failure(const struct EvenkeelUdp *udp, size_t number, struct EvenkeelUdpFailure *failure);

// Forgets the peers that packets did not reach, and starts to count again.
//
// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
EvenkeelStatus evenkeel_udp_forget_failures(struct EvenkeelUdp *udp);

// From now on, logs every wait for a lock or an event of this library that takes longer than `over_ns` nanoseconds. Allocates the log.
// Start with half of the quantum if the CPU runs in slices. A lock that is free costs no more than before.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_waits_log_over(uint64_t over_ns);

// Stops logging. The caller can still take the waits in the log.
//
// Threads: any, at any time.
EvenkeelStatus evenkeel_waits_stop_log(void);

// Takes the oldest wait of the log. `lost` is the number of waits that were lost since the last call because the log was full.
// Returns EVENKEEL_STATUS_NO_DATA if no wait is left, and sets `lost` in that case too.
//
// Threads: any, at any time, but not in a tick, because the call takes a lock and allocates.
//
// # Safety
// `wait` is null or points to a struct prepared by evenkeel_init; `lost` may be written. A null `lost` is an error.
EvenkeelStatus evenkeel_waits_take(struct EvenkeelLongWait *wait,
                                   uint64_t *lost);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVENKEEL_RT_H */

/* Prepares a struct: EvenkeelTick tick; EVENKEEL_INIT(&tick); */
#define EVENKEEL_INIT(structure) evenkeel_init((structure), sizeof *(structure))

#if !defined(EVENKEEL_SCOPE) && !defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
/* The scope that EVENKEEL_SCOPE entered, or 0 if it could not. */
static inline uint32_t evenkeel_scope_entered(uint32_t scope)
{
    return evenkeel_scope_enter(scope) == EVENKEEL_STATUS_OK ? scope : 0;
}
static inline void evenkeel_scope_left(const uint32_t *scope)
{
    if (*scope != 0)
        evenkeel_scope_leave(*scope);
}
#define EVENKEEL_SCOPE_JOINED(left, right) left##right
#define EVENKEEL_SCOPE_AT_LINE(scope, line) \
    __attribute__((cleanup(evenkeel_scope_left))) const uint32_t EVENKEEL_SCOPE_JOINED(evenkeel_scope_of_line_, line) = \
        evenkeel_scope_entered(scope)
/* Enters the scope with this number until the end of the block, whichever way it is left: { EVENKEEL_SCOPE(move); ... }
 * Needs GCC or Clang, in C. In C++, evenkeel::Scope of evenkeel_rt.hpp does the same. */
#define EVENKEEL_SCOPE(scope) EVENKEEL_SCOPE_AT_LINE(scope, __LINE__)
#endif
