//! `StackReason`: what the stack of a switch shows.
//! The kernel function that called the scheduler identifies the wait. Without kernel names, C library functions identify most waits.

use super::interval::Reason;
use crate::names::Names;
use crate::recording::Recording;
use crate::stack::StackId;

/// The maximum number of kernel functions to examine. The function that identifies a wait is never further from the scheduler.
const FRAMES_MAX: usize = 64;
/// The maximum number of user functions to examine: the C library's wrapper and its neighbours.
const USER_FRAMES_MAX: usize = 4;

/// The reason of a wait, as far as a stack shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackReason {
    /// The thread waited, for this reason.
    Waits(Reason),
    /// The thread was returning to user mode, or at a preemption point of the kernel.
    Forced,
    /// The thread ran the work by which the kernel throttles a control group.
    ThrottleWork,
    /// The thread called sched_yield.
    Yielded,
    /// The thread will not run again.
    Ended,
    /// The stack shows no reason.
    Nothing,
}

/// How a kernel function is recognized.
enum Like {
    /// The function has this name.
    Is(&'static str),
    /// The function's name begins with this text.
    Begins(&'static str),
}
use Like::{Begins, Is};

/// Functions of the scheduler, which all waits share.
const CORE: &[Like] = &[
    Is("schedule"),
    Is("__schedule"),
    Is("schedule_preempt_disabled"),
    Begins("schedule_timeout"),
    Begins("schedule_hrtimeout"),
    Is("__schedule_loop"),
    Is("preempt_schedule_thunk"),
    Begins("perf_"),
    Begins("__perf_"),
    Is("prepare_task_switch"),
];

/// Functions through which a ready thread leaves its CPU.
const FORCED: &[Like] = &[
    Begins("preempt_schedule"),
    Begins("__cond_resched"),
    Is("_cond_resched"),
    Begins("irqentry_exit"),
    Begins("raw_irqentry_exit"),
    Begins("exit_to_user_mode"),
    Begins("syscall_exit_to_user_mode"),
    Begins("prepare_exit_to_usermode"),
    Is("do_notify_resume"),
    Is("ret_to_user"),
    Is("arm64_preempt_schedule_irq"),
];

/// Functions of a page fault. The reason is the page fault, whatever the thread waits for inside these functions.
const FAULT: &[Like] = &[
    Is("handle_mm_fault"),
    Is("exc_page_fault"),
    Is("do_user_addr_fault"),
    Is("do_page_fault"),
    Is("__do_page_fault"),
    Is("do_swap_page"),
    Is("handle_userfault"),
];

/// The reason of a wait, by kernel function. If a stack has several of these functions, the function nearest to the scheduler decides.
const WAITS: &[(Like, Reason)] = &[
    (Begins("futex_"), Reason::Futex),
    (Is("__futex_wait"), Reason::Futex),
    (Is("do_futex"), Reason::Futex),
    (Is("ep_poll"), Reason::Poll),
    (Begins("do_epoll_"), Reason::Poll),
    (Is("do_sys_poll"), Reason::Poll),
    (Is("do_poll"), Reason::Poll),
    (Is("poll_schedule_timeout"), Reason::Poll),
    (Is("do_select"), Reason::Poll),
    (Is("core_sys_select"), Reason::Poll),
    (Begins("io_cqring_"), Reason::Poll),
    (Begins("__do_sys_io_uring_enter"), Reason::Poll),
    (Is("read_events"), Reason::Poll),
    (Is("do_io_getevents"), Reason::Poll),
    (Is("do_nanosleep"), Reason::Sleep),
    (Is("hrtimer_nanosleep"), Reason::Sleep),
    (Begins("common_nsleep"), Reason::Sleep),
    (Begins("alarm_timer_nsleep"), Reason::Sleep),
    (Begins("timerfd_read"), Reason::Sleep),
    (Begins("usleep_range"), Reason::Sleep),
    (Begins("msleep"), Reason::Sleep),
    (Begins("pipe_"), Reason::Socket),
    (Begins("anon_pipe_"), Reason::Socket),
    (Begins("fifo_"), Reason::Socket),
    (Is("wait_for_partner"), Reason::Socket),
    (Begins("eventfd_"), Reason::Socket),
    (Begins("unix_"), Reason::Socket),
    (Begins("__unix_"), Reason::Socket),
    (Begins("__skb_wait_"), Reason::Socket),
    (Begins("__skb_recv_"), Reason::Socket),
    (Begins("sk_wait_"), Reason::Socket),
    (Begins("sk_stream_wait_"), Reason::Socket),
    (Begins("sock_"), Reason::Socket),
    (Begins("__sock_"), Reason::Socket),
    (Begins("tcp_"), Reason::Socket),
    (Begins("udp_"), Reason::Socket),
    (Begins("udpv6_"), Reason::Socket),
    (Begins("inet_"), Reason::Socket),
    (Begins("vsock_"), Reason::Socket),
    (Begins("netlink_"), Reason::Socket),
    (Begins("packet_recvmsg"), Reason::Socket),
    (Begins("n_tty_"), Reason::Socket),
    (Begins("__sys_recv"), Reason::Socket),
    (Begins("__sys_send"), Reason::Socket),
    (Begins("__sys_accept"), Reason::Socket),
    (Begins("__sys_connect"), Reason::Socket),
    (Begins("io_schedule"), Reason::Disk),
    (Begins("bit_wait_io"), Reason::Disk),
    (Begins("wait_for_completion_io"), Reason::Disk),
    (Begins("blk_"), Reason::Disk),
    (Begins("blkdev_"), Reason::Disk),
    (Begins("submit_bio"), Reason::Disk),
    (Begins("folio_wait_"), Reason::Disk),
    (Begins("wait_on_page_"), Reason::Disk),
    (Begins("filemap_"), Reason::Disk),
    (Begins("__filemap_"), Reason::Disk),
    (Begins("balance_dirty_pages"), Reason::Disk),
    (Begins("jbd2_"), Reason::Disk),
    (Begins("nfs_"), Reason::Disk),
    (Begins("rpc_wait_"), Reason::Disk),
    (Begins("request_wait_answer"), Reason::Disk),
    (Is("do_fsync"), Reason::Disk),
    (Is("do_wait"), Reason::Stopped),
    (Is("kernel_wait4"), Reason::Stopped),
    (Is("wait_for_vfork_done"), Reason::Stopped),
    (Begins("ptrace_stop"), Reason::Stopped),
    (Begins("do_signal_stop"), Reason::Stopped),
    (Begins("do_jobctl_trap"), Reason::Stopped),
    (Begins("do_freezer_trap"), Reason::Stopped),
    (Begins("do_sigtimedwait"), Reason::Stopped),
    (Begins("sigsuspend"), Reason::Stopped),
    (Is("get_signal"), Reason::Stopped),
    (Begins("__x64_sys_pause"), Reason::Stopped),
    (Is("__refrigerator"), Reason::Stopped),
    (Begins("rwsem_"), Reason::KernelLock),
    (Begins("down_read"), Reason::KernelLock),
    (Begins("down_write"), Reason::KernelLock),
    (Begins("__down"), Reason::KernelLock),
    (Begins("mutex_lock"), Reason::KernelLock),
    (Begins("__mutex_lock"), Reason::KernelLock),
    (Begins("percpu_"), Reason::KernelLock),
    (Begins("rt_mutex_"), Reason::KernelLock),
    (Begins("__rt_mutex_"), Reason::KernelLock),
];

/// The C library's wrapper functions and the reason of their wait. Names are without prefixes and suffixes.
const USER_WAITS: &[(&[&str], Reason)] = &[
    (
        &[
            "lll_lock_wait",
            "futex_abstimed_wait_common",
            "pthread_mutex_lock",
            "pthread_cond_wait",
            "pthread_cond_timedwait",
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_join",
            "sem_wait",
            "sem_timedwait",
        ],
        Reason::Futex,
    ),
    (&["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect"], Reason::Poll),
    (&["clock_nanosleep", "nanosleep", "usleep", "sleep"], Reason::Sleep),
    (
        &["recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto", "sendmsg", "sendmmsg", "accept", "accept4"],
        Reason::Socket,
    ),
    (&["connect"], Reason::Socket),
    (&["fsync", "fdatasync", "msync", "sync"], Reason::Disk),
    (&["wait4", "waitpid", "waitid", "sigwait", "sigtimedwait", "sigsuspend", "pause"], Reason::Stopped),
    (&["sched_yield"], Reason::Yielded),
];

/// The reason that the stack of a switch shows.
pub(super) fn seen(recording: &Recording, names: &Names, stack: StackId) -> StackReason {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    for frame in recording.stacks.innermost_first(stack).take(FRAMES_MAX) {
        let named = names.get(frame);
        let into = if named.is_kernel { &mut kernel } else { &mut user };
        into.extend(named.functions.iter().rev().map(|function| function.name.as_str()));
    }
    of_kernel(&kernel).unwrap_or_else(|| of_user(&user))
}

/// The reason by the kernel functions, innermost first. None if the stack has no kernel functions.
fn of_kernel(functions: &[&str]) -> Option<StackReason> {
    let functions: Vec<&str> = functions.iter().map(|name| bare(name)).collect();
    // A tail call leaves no frame, so the first function may be any of the scheduler's functions.
    let first = functions.iter().position(|name| !is_any(CORE, name))?;
    let own = &functions[first..];
    let name = own[0];
    if own.iter().take(2).any(|name| name.ends_with("sys_sched_yield") || *name == "do_sched_yield") {
        return Some(StackReason::Yielded);
    }
    if name == "do_task_dead" || name == "do_exit" {
        return Some(StackReason::Ended);
    }
    if is_any(FORCED, name) {
        let is_work = own.iter().take(4).any(|name| matches!(*name, "throttle_cfs_rq_work" | "task_work_run"));
        return Some(if is_work { StackReason::ThrottleWork } else { StackReason::Forced });
    }
    if own.iter().any(|name| is_any(FAULT, name)) {
        return Some(StackReason::Waits(Reason::PageFault));
    }
    // A wait for a disk goes through a scheduler function that only disk waits use.
    let waits = functions.iter().find_map(|name| {
        let found = WAITS.iter().find(|(like, _)| like.is(name));
        found.map(|(_, reason)| *reason)
    });
    Some(StackReason::Waits(waits.unwrap_or(Reason::Other)))
}

/// The reason by user functions only, for stacks without kernel functions.
fn of_user(functions: &[&str]) -> StackReason {
    let found = functions.iter().take(USER_FRAMES_MAX).find_map(|name| {
        let name = name.split('@').next().unwrap_or(name);
        let name = name.trim_start_matches("__GI_").trim_start_matches("__libc_").trim_start_matches('_');
        USER_WAITS.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
    });
    match found {
        Some(Reason::Yielded) => StackReason::Yielded,
        Some(reason) => StackReason::Waits(reason),
        None => StackReason::Nothing,
    }
}

/// A function's name without the suffixes of compilers (`.constprop.0`, `.isra.0`) and without the kernel mark.
fn bare(name: &str) -> &str {
    let name = name.strip_suffix("_[k]").unwrap_or(name);
    name.split_once('.').map_or(name, |(name, _)| name)
}

fn is_any(list: &[Like], name: &str) -> bool {
    list.iter().any(|like| like.is(name))
}

impl Like {
    fn is(&self, name: &str) -> bool {
        match self {
            Is(whole) => *whole == name,
            Begins(begin) => name.starts_with(begin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks of kernel 6.18, unless a row names another kernel.
    #[test]
    fn stacks_say_why() {
        use Reason::{Disk, Futex, KernelLock, Other, PageFault, Poll, Sleep, Socket, Stopped};
        let table: &[(&str, StackReason)] = &[
            ("schedule futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex", StackReason::Waits(Futex)),
            ("__schedule schedule futex_wait_queue_me futex_wait do_futex", StackReason::Waits(Futex)),
            ("schedule schedule_hrtimeout_range_clock do_epoll_wait __x64_sys_epoll_wait", StackReason::Waits(Poll)),
            (
                "schedule schedule_hrtimeout_range_clock poll_schedule_timeout.constprop.0 do_sys_poll",
                StackReason::Waits(Poll),
            ),
            ("schedule io_cqring_wait __do_sys_io_uring_enter", StackReason::Waits(Poll)),
            ("schedule do_nanosleep hrtimer_nanosleep common_nsleep", StackReason::Waits(Sleep)),
            ("schedule anon_pipe_read vfs_read ksys_read", StackReason::Waits(Socket)),
            ("schedule schedule_timeout __skb_wait_for_more_packets __unix_dgram_recvmsg", StackReason::Waits(Socket)),
            (
                "schedule schedule_timeout wait_woken sk_wait_data tcp_recvmsg_locked tcp_recvmsg",
                StackReason::Waits(Socket),
            ),
            (
                "schedule io_schedule folio_wait_bit folio_wait_writeback __filemap_fdatawait_range",
                StackReason::Waits(Disk),
            ),
            ("schedule schedule_timeout io_schedule_timeout wait_for_completion_io_timeout", StackReason::Waits(Disk)),
            (
                "schedule io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit do_fsync",
                StackReason::Waits(Disk),
            ),
            (
                "schedule io_schedule folio_wait_bit_common filemap_read_folio filemap_fault __do_fault do_fault \
                 __handle_mm_fault handle_mm_fault exc_page_fault asm_exc_page_fault",
                StackReason::Waits(PageFault),
            ),
            ("schedule io_schedule do_swap_page handle_mm_fault", StackReason::Waits(PageFault)),
            (
                "schedule schedule_preempt_disabled rwsem_down_read_slowpath down_read do_madvise",
                StackReason::Waits(KernelLock),
            ),
            ("schedule do_wait kernel_wait4", StackReason::Waits(Stopped)),
            ("schedule do_signal_stop get_signal exit_to_user_mode_loop", StackReason::Waits(Stopped)),
            ("schedule schedule_timeout wait_for_completion affine_move_task", StackReason::Waits(Other)),
            ("schedule irqentry_exit_to_user_mode asm_exc_page_fault", StackReason::Forced),
            ("schedule irqentry_exit_to_user_mode asm_sysvec_apic_timer_interrupt", StackReason::Forced),
            ("schedule exit_to_user_mode_loop do_syscall_64", StackReason::Forced),
            ("__cond_resched generic_perform_write ext4_buffered_write_iter", StackReason::Forced),
            ("preempt_schedule_irq irqentry_exit asm_sysvec_apic_timer_interrupt futex_wait", StackReason::Forced),
            ("__cond_resched task_work_run irqentry_exit_to_user_mode", StackReason::ThrottleWork),
            ("schedule __x64_sys_sched_yield do_syscall_64", StackReason::Yielded),
            ("do_task_dead do_exit do_group_exit", StackReason::Ended),
            (
                "schedule schedule_timeout io_schedule_timeout submit_bio_wait blkdev_issue_discard evict do_exit",
                StackReason::Waits(Disk),
            ),
        ];
        for (stack, expected) in table {
            let functions: Vec<&str> = stack.split_whitespace().collect();
            assert_eq!(of_kernel(&functions), Some(*expected), "{stack}");
        }
        assert_eq!(of_kernel(&[]), None);
        assert_eq!(of_kernel(&["schedule"]), None, "nothing is said by the scheduler alone");
    }

    #[test]
    fn without_the_kernels_names_the_c_librarys_tell() {
        let table = [
            ("__GI___lll_lock_wait", StackReason::Waits(Reason::Futex)),
            ("clock_nanosleep@GLIBC_2.2.5", StackReason::Waits(Reason::Sleep)),
            ("__poll", StackReason::Waits(Reason::Poll)),
            ("__libc_recv", StackReason::Waits(Reason::Socket)),
            ("__sched_yield", StackReason::Yielded),
            ("read", StackReason::Nothing),
            ("my_poll", StackReason::Nothing),
        ];
        for (name, expected) in table {
            assert_eq!(of_user(&[name]), expected, "{name}");
        }
    }
}
