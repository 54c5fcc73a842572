//! Trials over boots on a simulated machine.
//! The machine has a captured root that can be written,
//! a real journal with real transactions, and a boot loader that reads the written files.
//! The tests kill and reboot the machine at every step.

mod boots;
mod engaged;
mod guards;
mod kills;
mod text;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use evenkeel_change::{Log, State, Status, Which, history, revert};
use evenkeel_host::Setting;
use evenkeel_hostfs::{Capture, Root};
use evenkeel_stats::Direction;
use evenkeel_workload::{Metric, Sample};
use tempfile::TempDir;

use super::*;
use crate::arm::ArmName;
use crate::design::Guard;

const ARGUMENT: &str = "processor.max_cstate=1";
const SETTING: &str = "cmdline.processor.max_cstate=1";
const GRUB: &str = "/etc/default/grub.d/90-evenkeel.cfg";
const UNIT: &str = "/etc/systemd/system/evenkeel-boots.service";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants/evenkeel-boots.service";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const CMDLINE: &str = "/proc/cmdline";

/// A capture of a Debian host with systemd and GRUB.
const HOST: &str = "evenkeel-capture 1
/etc/default/grub ->! EINVAL
/etc/default/grub.d/ : 50-cloudimg-settings.cfg
/etc/default/grub.d/90-evenkeel.cfg ! ENOENT
/etc/systemd/system/ : multi-user.target.wants
/etc/systemd/system/evenkeel-boots.service ! ENOENT
/etc/systemd/system/multi-user.target.wants/ : ssh.service
/etc/systemd/system/multi-user.target.wants/evenkeel-boots.service ! ENOENT
/proc/cmdline = BOOT_IMAGE=/vmlinuz quiet
/proc/sys/kernel/osrelease = 6.1.0-13-cloud-amd64
/proc/sys/kernel/random/boot_id = boot-0
/run/systemd/system ->! EINVAL
/sys/devices/system/cpu/online = 0-1
/usr/sbin/grubby ->! ENOENT
/usr/sbin/update-grub ->! EINVAL
end
";

/// The panic payload that stands for a kill of the process.
struct Killed;

/// The simulated machine.
struct Sim {
    root: Root,
    before: Capture,
    dir: TempDir,
    id: String,
    boots: u32,
    /// The number of steps until the process is killed. With None, it is never killed.
    fuse: Cell<Option<u32>>,
    /// Whether the boot loader ignores the written files.
    is_deaf: bool,
    /// Whether the disk is full.
    is_full: bool,
    now_s: u64,
    /// Each boot in which windows were measured, with the arm that was active.
    measured: Vec<(u32, ArmName)>,
    /// The power fails when a boot is next prepared: before the preparation is done (true), or after it (false).
    goes_down: Option<bool>,
    is_stopped: bool,
    /// The counters in boots of A, and of B.
    counted: [Option<BootCounters>; 2],
    /// The guard `tail_us` as a multiple of the metric, in boots of A and of B.
    tails: [f64; 2],
}

fn design(seed: u64) -> BootsDesign {
    BootsDesign {
        settings: vec![SETTING.to_owned()],
        metric: Metric::new("x_us", "x", "us", Direction::Lower),
        guards: Vec::new(),
        smallest_effect_ratio: 0.05,
        boots: 4,
        windows: 5,
        window_ms: 1000,
        settle_ms: 0,
        seed,
        reboots: true,
        limit_s: 1000,
    }
}

/// A wait that must never happen, because nobody else uses the simulated machine.
fn never(why: &str, _: std::time::Duration) -> bool {
    panic!("{why}");
}

/// A temporary folder, in memory if possible. Each record is synced to disk, which is slow.
/// The tests need no sync, because power cuts are only simulated.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Sim {
    /// A machine on which a trial has begun: its unit exists, and no boot has followed yet.
    fn begun(seed: u64) -> Sim {
        Sim::begun_with(design(seed))
    }

    fn begun_with(design: BootsDesign) -> Sim {
        let root = Root::captured(Capture::parse(HOST).unwrap());
        let state = BootsState::begin(design, 1_700_000_000, "boot-0");
        let sim = Sim {
            before: root.capture(),
            root,
            dir: folder(),
            id: state.id.clone(),
            boots: 0,
            fuse: Cell::new(None),
            is_deaf: false,
            is_full: false,
            now_s: 1_700_000_010,
            measured: Vec::new(),
            goes_down: None,
            is_stopped: false,
            counted: [None, None],
            tails: [2.0, 2.0],
        };
        write(&sim.file(), &state).unwrap();
        sim.hands().begin("/usr/bin/evenkeel", &sim.file(), &mut never).unwrap();
        sim
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("boots")
    }

    fn hands(&self) -> BootTransactions<'_> {
        let settings = vec![Setting::parse(SETTING).unwrap()];
        BootTransactions::new(&self.root, self.dir.path(), &self.id, settings).unwrap()
    }

    fn state(&self) -> BootsState {
        read(&self.file()).unwrap().unwrap()
    }

    /// One step of the program. A kill can happen at its beginning.
    fn step(&self) {
        if let Some(left) = self.fuse.get() {
            if left == 0 {
                self.fuse.set(None);
                std::panic::resume_unwind(Box::new(Killed));
            }
            self.fuse.set(Some(left - 1));
        }
    }

    fn is_there(&self, path: &str) -> bool {
        self.root.tree().unwrap().look(path).unwrap() != evenkeel_hostfs::Entry::Absent
    }

    fn reboot(&mut self) {
        self.boots += 1;
        let gives = self.is_there(GRUB) && !self.is_deaf;
        let mut capture = self.root.capture();
        let line = if gives {
            format!("BOOT_IMAGE=/vmlinuz quiet {ARGUMENT}\n")
        } else {
            "BOOT_IMAGE=/vmlinuz quiet\n".into()
        };
        capture.saw_text(CMDLINE, Ok(line));
        capture.saw_text(BOOT_ID, Ok(format!("boot-{}\n", self.boots)));
        self.root = Root::captured(capture);
        self.now_s += 60;
    }

    /// Starts the unit if it exists, as systemd does after a boot, or as a user does. None if it was killed.
    fn start(&mut self) -> Option<Result<Ending, BootsError>> {
        if !self.is_there(WANTS) || !self.file().exists() {
            return Some(Err(BootsError::PutBackMeanwhile));
        }
        let mut state = self.state();
        catch_unwind(AssertUnwindSafe(|| go_on(&mut state, self))).ok()
    }

    /// Runs the trial to its end, with every requested reboot, and returns how it ended.
    fn play_out(&mut self) -> BootsEnded {
        for _ in 0..40 {
            match self.start() {
                None => {}
                Some(Ok(Ending::Reboot)) => self.reboot(),
                Some(Ok(Ending::Ended { ended, reboot_left })) => {
                    if reboot_left {
                        self.reboot();
                    }
                    return ended;
                }
                // The unit is gone, so the state is final.
                Some(Err(BootsError::PutBackMeanwhile)) => return self.state().ended.unwrap(),
                Some(other) => panic!("{other:?}"),
            }
        }
        panic!("it does not end: {:?}", self.state());
    }

    /// Boots the machine once more. Returns whether it is as before the trial.
    fn is_as_before(&mut self) -> bool {
        self.reboot();
        let mut now = self.root.capture();
        now.saw_text(BOOT_ID, Ok("boot-0\n".into()));
        let mut before = self.before.clone();
        before.saw_text(BOOT_ID, Ok("boot-0\n".into()));
        before.saw_text(CMDLINE, Ok("BOOT_IMAGE=/vmlinuz quiet\n".into()));
        now == before
    }

    fn open_transactions(&self) -> usize {
        let log = Log::read(self.dir.path()).unwrap();
        let open = |status| matches!(status, Status::InForce | Status::Interrupted);
        history(&self.root, &log).iter().filter(|done| open(done.status)).count()
    }

    fn revert_all(&self) {
        let mut state = State::open(self.dir.path()).unwrap();
        let report = revert(&self.root, &self.root.writer().unwrap(), &mut state, Which::All).unwrap();
        assert!(report.all_undone, "{report:?}");
    }

    /// Checks what must be true after every sequence of events.
    fn check_end(&mut self) {
        assert_eq!(self.open_transactions(), 0);
        assert!(self.is_as_before(), "{}", self.root.capture());
        let state = self.state();
        assert!(state.seen.len() <= state.boots_max());
        let once: std::collections::BTreeSet<u32> =
            state.measured().map(|(boot, _)| boot.boot_id.trim_start_matches("boot-").parse().unwrap()).collect();
        assert_eq!(once.len(), state.measured().count(), "no boot counts twice");
        for (boot, values) in state.measured() {
            // The arm that the machine really had, which the state may report differently.
            let nth: u32 = boot.boot_id.trim_start_matches("boot-").parse().unwrap();
            let truth = self.measured.iter().find(|(at, _)| *at == nth).unwrap().1;
            assert_eq!(boot.arm, truth);
            assert_eq!(values.len(), 5);
        }
    }
}

/// The sentences of a report's caveats.
fn sentences(report: &BootsReport) -> Vec<String> {
    report.caveats.iter().map(ToString::to_string).collect()
}

impl Machine for Sim {
    fn status(&mut self) -> Result<BootStatus, BootsError> {
        self.step();
        Ok(BootStatus {
            boot_id: self.root.text(BOOT_ID).unwrap().trim().to_owned(),
            now_s: self.now_s,
            is_licensed: self.hands().is_licensed()?,
            machine: BootWords::default(),
        })
    }

    fn keep(&mut self, state: &BootsState) -> Result<(), BootsError> {
        self.step();
        if self.is_full {
            let why = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(BootsFileError::Io { doing: "keep", path: "it".to_owned(), why }.into());
        }
        write(&self.file(), state).unwrap();
        self.step();
        Ok(())
    }

    fn reads_back(&mut self, arm: ArmName) -> Result<(), BootsError> {
        self.hands().reads_back(arm)
    }

    fn measure(&mut self, design: &BootsDesign) -> Result<Option<Windows>, BootsError> {
        self.step();
        let is_b = self.root.text(CMDLINE).unwrap().contains(ARGUMENT);
        self.measured.push((self.boots, if is_b { ArmName::B } else { ArmName::A }));
        self.step();
        let level = if is_b { 80.0 } else { 100.0 };
        let sample = |window: usize| {
            let value = level + window as f64 * 0.1;
            let tail = value * self.tails[usize::from(is_b)];
            Sample::from([("x_us".to_owned(), value), ("tail_us".to_owned(), tail), ("other".to_owned(), 1.0)])
        };
        Ok(Some(Windows {
            samples: (0..design.windows).map(sample).collect(),
            dropped: 0,
            counted: self.counted[usize::from(is_b)].clone(),
        }))
    }

    fn arm(&mut self, arm: ArmName, anew: bool) -> Result<(), BootsError> {
        self.step();
        let goes_down = self.goes_down.take();
        self.is_stopped = goes_down.is_some();
        if goes_down != Some(false) {
            self.hands().arm(arm, anew, &mut never)?;
        }
        self.step();
        match self.is_stopped {
            true => Err(BootsError::NoUnit { why: "update-grub was ended by SIGTERM".to_owned() }),
            false => Ok(()),
        }
    }

    fn is_stopped(&mut self) -> bool {
        self.is_stopped
    }

    fn put_back(&mut self) -> Result<(), BootsError> {
        self.step();
        self.hands().put_back(&mut never)?;
        self.step();
        Ok(())
    }
}
