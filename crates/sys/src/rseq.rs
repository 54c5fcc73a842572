//! `Watcher`: whether the kernel preempted the calling thread inside the guest since its last check.
//! A check takes half a nanosecond and no privileges.
//!
//! With restartable sequences (rseq(2)), a thread names a section of code that the kernel must abort when it takes the CPU away.
//! If a thread names a section without ever entering it, nothing is aborted.
//! But the kernel clears the name whenever it gives the CPU to another thread or moves this thread.
//! The kernel does not know when a hypervisor takes the CPU, so in that case it leaves the name.
//! So after a gap, a cleared name means that the guest took the CPU, and an intact name means that the hypervisor took it.
//!
//! The C library registers the thread's area (glibc 2.35 and later). If it does not (musl, older versions), this module does.
//! Kernels differ in when they clear the name, so [`Watcher::self_test`] tests that.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::errno::Errno;
use crate::schedstat::RunDelay;
use crate::{clock, sched, thread};

/// The marker before an abort handler's address. The kernel refuses other code. The value is from glibc's `sys/rseq.h`.
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SIGNATURE: u32 = 0;

/// The first version of the kernel's `struct rseq`: 20 of its 32 bytes have a meaning.
#[repr(C, align(32))]
#[derive(Debug, Default)]
struct Area {
    cpu_id_start: u32,
    cpu_id: u32,
    critical_section: u64,
    flags: u32,
    rest: [u32; 3],
}

/// `struct rseq_cs`: a section of length 0, so that no address is inside the section.
#[repr(C, align(32))]
#[derive(Debug)]
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

/// An address with the signature before it. No code jumps to this address.
#[repr(C, align(8))]
#[derive(Debug)]
struct Landing {
    signature: u32,
    handler: u32,
}

static LANDING: Landing = Landing { signature: SIGNATURE, handler: 0 };

/// Why the calling thread cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RseqError {
    /// The signature for this processor is unknown.
    #[error("restartable sequences are unknown for this processor")]
    Processor,
    /// The kernel refused to register the area.
    #[error("register for restartable sequences: {0}")]
    Refused(Errno),
    /// The kernel accepts the registration but does not clear the name as needed.
    #[error("restartable sequences do not work here: {0}")]
    NotAsNeeded(&'static str),
}

/// Watches the thread that created it. Meanwhile that thread may not enter any other restartable sequence.
#[derive(Debug)]
pub struct Watcher {
    /// The thread's `critical_section` field.
    name: NonNull<u64>,
    section: Box<Section>,
    /// An area that this module registered itself and must unregister.
    own: Option<Box<UnsafeCell<Area>>>,
    /// The area belongs to one thread.
    thread: PhantomData<*mut ()>,
}

impl Watcher {
    /// Watches the calling thread.
    ///
    /// # Errors
    /// If the C library has no area for this thread, and the kernel does not register one: kernels before 4.18, seccomp filters.
    pub fn of_this_thread() -> Result<Watcher, RseqError> {
        if SIGNATURE == 0 {
            return Err(RseqError::Processor);
        }
        let section = Box::new(Section {
            version: 0,
            flags: 0,
            start: (&raw const LANDING) as u64,
            length: 0,
            abort: (&raw const LANDING.handler) as u64,
        });
        if let Some(area) = area_of_libc() {
            // SAFETY: the C library's area is a live `struct rseq` of this thread and at least 20 bytes long. The field is within it.
            let name = unsafe { NonNull::new_unchecked(&raw mut (*area.as_ptr()).critical_section) };
            return Ok(Watcher { name, section, own: None, thread: PhantomData });
        }
        let own = Box::new(UnsafeCell::new(Area::default()));
        register(&own, 0).map_err(RseqError::Refused)?;
        // SAFETY: nothing moves out of the box while the watcher lives, and the field is within it.
        let name = unsafe { NonNull::new_unchecked(&raw mut (*own.get()).critical_section) };
        Ok(Watcher { name, section, own: Some(own), thread: PhantomData })
    }

    /// Makes [`Watcher::intact`] notice preemptions from now on.
    #[inline(always)]
    pub fn arm(&self) {
        // SAFETY: the field belongs to this thread. Only this thread and the kernel access it, and the kernel does so while this thread is not running.
        // The write is volatile because the compiler does not know about the kernel. The section lives as long as this value.
        unsafe { ptr::write_volatile(self.name.as_ptr(), &raw const *self.section as u64) }
    }

    /// Whether this thread kept its CPU since [`Watcher::arm`], as far as the kernel knows.
    #[inline(always)]
    pub fn intact(&self) -> bool {
        // SAFETY: as in `arm`.
        unsafe { ptr::read_volatile(self.name.as_ptr()) != 0 }
    }

    /// Tests the watcher for at most 0.3 s: this thread shares its CPU with another thread that spins.
    /// The watcher must notice every time that the other thread runs, and almost nothing otherwise. Call it in the ordinary class.
    ///
    /// # Errors
    /// [`RseqError::NotAsNeeded`] with the reason.
    /// The test also fails if it proves nothing, because the kernel does not count switches or the other thread never ran.
    pub fn self_test(&self) -> Result<(), RseqError> {
        const LIMIT_NS: u64 = 200_000_000;
        const SPIN_NS: u64 = 300_000;
        const TURNS: u32 = 3;
        let not = RseqError::NotAsNeeded;
        let turns = RunDelay::of_this_thread()
            .map_err(|_| not("the kernel does not count how often this thread gets a CPU"))?;
        let count = || turns.read().map(|counted| counted.turns).map_err(|_| not("the kernel's count cannot be read"));
        let rival = Rival::on_our_cpu(LIMIT_NS)?;
        let until_ns = clock::monotonic_ns() + LIMIT_NS;
        let (mut seen, mut calm, mut unexplained) = (0, 0, 0);
        while clock::monotonic_ns() < until_ns && (seen < TURNS || calm < TURNS) {
            self.arm();
            let before = count()?;
            // A switch during the count may be before or after it, so it proves nothing.
            if !self.intact() {
                continue;
            }
            // Use the clock rather than a count: on some machines a pause is an exit to the hypervisor, and takes longer than a time slice.
            let until_ns = clock::monotonic_ns() + SPIN_NS;
            while clock::monotonic_ns() < until_ns {}
            let held = self.intact();
            let after = count()?;
            match (after > before, held, self.intact()) {
                (true, false, _) => seen += 1,
                (false, true, _) => calm += 1,
                (true, true, true) => return Err(not("a preemption by another thread was not noticed")),
                // The kernel also clears the name when its own work interrupts this thread while this thread leaves the kernel.
                // Rare cases are no error.
                (false, false, _) => unexplained += 1,
                (true, true, false) => {}
            }
        }
        drop(rival);
        if unexplained > 1 && unexplained * 4 > seen + calm {
            return Err(not("preemptions were reported where there were none"));
        }
        if seen > 0 && calm > 0 { Ok(()) } else { Err(not("the second thread of the test did not run within 0.2 s")) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // SAFETY: as in `arm`. The kernel must not find the name of a section that no longer exists.
        unsafe { ptr::write_volatile(self.name.as_ptr(), 0) }
        if let Some(own) = &self.own {
            const UNREGISTER: i32 = 1;
            // Unregistering a registered area cannot fail. If it failed, the kernel would write to freed memory, so keep that memory.
            if register(own, UNREGISTER).is_err()
                && let Some(own) = self.own.take()
            {
                Box::leak(own);
            }
        }
    }
}

fn register(area: &UnsafeCell<Area>, flags: i32) -> Result<(), Errno> {
    // SAFETY: the area is 32 bytes, aligned to 32, and outlives the registration (see `Drop`).
    // The kernel writes whole numbers to the area, and every bit pattern is valid.
    let done = unsafe { libc::syscall(libc::SYS_rseq, area.get(), size_of::<Area>() as u32, flags, SIGNATURE) };
    if done == 0 { Ok(()) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
}

/// The area that glibc has registered for the calling thread. `None` if glibc has registered no area.
fn area_of_libc() -> Option<NonNull<Area>> {
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: the name ends in a zero. Looking up a symbol in the loaded objects requires nothing else.
        NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
    };
    let (offset, size) = (symbol(c"__rseq_offset")?, symbol(c"__rseq_size")?);
    // SAFETY: glibc declares these symbols `const ptrdiff_t` and `const unsigned int`. Both are set before any of our code runs.
    let (offset, size) = unsafe { (*offset.as_ptr().cast::<isize>(), *size.as_ptr().cast::<u32>()) };
    // The size is 0 if the kernel refused, or with GLIBC_TUNABLES=glibc.pthread.rseq=0. Glibc 2.35 to 2.39 reports 32.
    // Later versions report the part in use: 20 or more.
    if size < 16 {
        return None;
    }
    NonNull::new(thread_pointer().wrapping_offset(offset).cast::<Area>())
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: the first word at fs is the thread pointer itself (the x86-64 ABI's TLS, variant II). Reading it changes nothing.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: reading the thread pointer's register changes nothing.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> *mut u8 {
    ptr::null_mut()
}

/// A thread that spins on our CPU, so that the scheduler switches to it.
struct Rival {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// The caller's affinity, which this value restores when it is dropped.
    before: crate::CpuSet,
}

impl Rival {
    fn on_our_cpu(limit_ns: u64) -> Result<Rival, RseqError> {
        use std::sync::atomic::{AtomicBool, Ordering};
        let not = RseqError::NotAsNeeded;
        let before = thread::affinity().map_err(|_| not("the kernel does not say where this thread may run"))?;
        let cpu = before.first().ok_or(not("this thread may run nowhere"))?;
        let only: crate::CpuSet = [cpu].into_iter().collect();
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let spin = {
            let only = only.clone();
            move || {
                // Short slices make the test short, if the kernel supports them.
                let _ = (thread::set_affinity(&only), sched::set_ordinary(Some(1_000_000)));
                let _ = ready.send(());
                let until_ns = clock::monotonic_ns() + limit_ns;
                while !stopped.load(Ordering::Relaxed) && clock::monotonic_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
        };
        let thread = std::thread::Builder::new().name("evenkeel-rival".into()).spawn(spin);
        let thread = Some(thread.map_err(|_| not("the second thread of the test could not be started"))?);
        let rival = Rival { stop, thread, before };
        thread::set_affinity(&only).map_err(|_| not("this thread could not be kept on one CPU"))?;
        // On a busy machine a new thread takes a while to start.
        let begun = is_ready.recv_timeout(std::time::Duration::from_millis(100));
        begun.map_err(|_| not("the second thread of the test did not start within 0.1 s"))?;
        Ok(rival)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = thread::set_affinity(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_we_write() {
        assert_eq!((size_of::<Area>(), std::mem::offset_of!(Area, critical_section)), (32, 8));
        assert_eq!((size_of::<Section>(), std::mem::offset_of!(Section, abort)), (32, 24));
        // The signature is directly in front of the handler's address.
        assert_eq!(std::mem::offset_of!(Landing, handler), 4);
    }

    /// Runs the test in a separate thread, because the test harness may use this thread's area differently.
    fn in_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    #[test]
    fn another_threads_turn_clears_the_name() {
        let said = in_a_thread(|| {
            let before = thread::affinity().unwrap();
            let said = Watcher::of_this_thread().and_then(|watcher| {
                watcher.arm();
                watcher.self_test()
            });
            assert_eq!(thread::affinity().unwrap(), before, "its affinity is restored");
            said
        });
        match said {
            Ok(()) => {}
            Err(RseqError::NotAsNeeded(why)) if why.starts_with("the second thread of the test did not") => {
                evenkeel_testkit::skipped(format_args!("{why}"))
            }
            Err(RseqError::Refused(errno)) => evenkeel_testkit::skipped(format_args!("the kernel has none: {errno}")),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn an_area_of_our_own_is_given_back() {
        // If the C library has registered an area, a second registration fails, and the kernel reports that.
        // Otherwise this test registers and removes its own area.
        in_a_thread(|| {
            let own = UnsafeCell::new(Area::default());
            match register(&own, 0) {
                Ok(()) => assert_eq!(register(&own, 1), Ok(())),
                Err(errno) => assert!(area_of_libc().is_some() || errno == Errno::NOSYS, "{errno}"),
            }
        });
    }
}
