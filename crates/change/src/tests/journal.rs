//! Tests journals that a crash tore, a disk damaged, a full disk truncated, or a newer evenkeel wrote.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_sys::Errno;
use proptest::prelude::*;

use super::{Quick, SWAPPINESS, Stage, names, plan};
use crate::outside::Outside;
use crate::{ApplyError, Failure, Log, Loss, State, StateError, Status, Which, apply, history, revert};

fn applied() -> Stage {
    let stage = Stage::new();
    apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["thp.enabled=never", "vm.swappiness=10"]), "t")
        .unwrap();
    stage
}

fn put(stage: &Stage, bytes: impl AsRef<[u8]>) {
    std::fs::write(stage.dir.path().join("journal"), bytes).unwrap();
}

fn sealed(json: &str) -> String {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

#[test]
fn a_torn_end_is_reported_and_saved() {
    for torn in ["0badc0de {\"form", "x", "\0\0\0\0", "00000000 {\"format\":1}\n"] {
        let stage = applied();
        let whole = stage.journal();
        put(&stage, whole.clone() + torn);
        assert_eq!(Log::read(stage.dir.path()).unwrap().torn_bytes(), Some(torn.len() as u64));

        let mut state = stage.state();
        assert_eq!(state.log().torn_bytes(), Some(torn.len() as u64));
        assert_eq!(stage.journal(), whole.clone() + torn, "to open it changes nothing");
        assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone);
        assert_eq!(state.log().torn_bytes(), None);
        assert!(stage.journal().starts_with(&whole) && stage.journal().len() > whole.len());
        assert_eq!(std::fs::read_to_string(stage.dir.path().join("journal.torn-1")).unwrap(), torn);
        assert!(Log::read(stage.dir.path()).is_ok());
    }
}

#[test]
fn an_earlier_torn_end_is_kept_too() {
    let stage = applied();
    for number in 1..=3 {
        put(&stage, stage.journal() + "torn");
        apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&[]), "t").unwrap();
        assert_eq!(names(stage.dir.path()).len(), 3 + number, "{:?}", names(stage.dir.path()));
    }
}

fn is_at(losses: &[Loss], at: u64) -> bool {
    matches!(losses.first(), Some(Loss::Unreadable { offset, .. }) if *offset == at)
}

#[test]
fn damage_before_the_end_says_where_and_what_to_do() {
    let stage = applied();
    let whole = stage.journal();
    let second = whole.find('\n').unwrap() + 1;
    put(&stage, whole.replacen("never", "nevex", 2));
    let error = State::open(stage.dir.path()).err().unwrap();
    assert!(matches!(&error, StateError::Damaged { losses, .. } if is_at(losses, 0)), "{error}");

    let mut bytes = whole.clone().into_bytes();
    bytes[second + 20] ^= 1;
    put(&stage, &bytes);
    let error = Log::read(stage.dir.path()).unwrap_err();
    assert!(matches!(&error, StateError::Damaged { losses, .. } if is_at(losses, second as u64)), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("journal: byte {second}: ")) && text.contains("\"undo\""), "{text}");
    assert_eq!(std::fs::read(stage.dir.path().join("journal")).unwrap(), bytes, "it is left as it is");
}

#[test]
fn records_that_do_not_fit_together_are_damage() {
    let reverted = sealed(r#"{"format":1,"at_ns":0,"record":"reverted","txn":7}"#);
    let begin = |txn: u64| {
        sealed(&format!(
            r#"{{"format":1,"at_ns":0,"record":"begin","txn":{txn},"kind":"apply","title":"","steps":[]}}"#
        ))
    };
    let long = format!("{}\n", "x".repeat((1 << 20) + 64));
    for (journal, what) in [
        (reverted, "begins it is missing"),
        (begin(1) + &begin(1), "a second time"),
        (begin(2) + &begin(1), "a second time"),
        (long, "longer than"),
        (sealed("{}"), "format number"),
    ] {
        let stage = Stage::new();
        put(&stage, journal);
        let error = Log::read(stage.dir.path()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let stage = Stage::new();
    put(&stage, begin(u64::MAX));
    let error = apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&[]), "t").unwrap_err();
    assert!(error.to_string().contains("no record numbers left"), "{error}");
}

#[test]
fn a_journal_that_is_full_says_so_and_still_reverts() {
    let stage = applied();
    let padding = sealed(&format!(r#"{{"format":1,"at_ns":0,"record":"padding","x":"{}"}}"#, "x".repeat(1 << 19)));
    let times = (64 << 20) / padding.len();
    put(&stage, stage.journal() + &padding.repeat(times - 1));
    let mut state = stage.state();
    let long = "x".repeat(1 << 19);
    let settings = plan(&["vm.swappiness=20"]);
    apply(&stage.root, &stage.writer, &mut state, &settings, &long).unwrap();
    let error = apply(&stage.root, &stage.writer, &mut state, &settings, &long).unwrap_err();
    assert!(matches!(error, ApplyError::Journal(StateError::Full { .. })), "{error}");
    assert!(error.to_string().contains("evenkeel revert"), "{error}");
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone);
    assert_eq!(stage.text(SWAPPINESS), "60");
}

#[test]
fn a_newer_evenkeels_journal_is_refused_or_passed_over() {
    let stage = applied();
    let first = stage.journal().lines().count() + 1;
    let newer = |seq| sealed(&format!(r#"{{"format":3,"seq":{seq},"at_ns":0,"record":"drop-in","txn":1}}"#));
    put(&stage, stage.journal() + &newer(first) + &newer(first + 1));
    let mut state = stage.state();
    assert_eq!(state.log().passed_over().get("drop-in"), Some(&2));
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone);
    assert_eq!(stage.journal().matches("drop-in").count(), 2, "they stay");
    drop(state);

    put(&stage, stage.journal() + &sealed(r#"{"format":4,"record":"begin"}"#));
    let error = Log::read(stage.dir.path()).unwrap_err();
    assert!(matches!(&error, StateError::UnknownFormat { format, .. } if format == "4"), "{error}");
}

/// A disk with this much free space. Another process may free more.
#[derive(Clone)]
struct SmallDisk(Arc<AtomicUsize>);

impl Outside for SmallDisk {
    fn append(&mut self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        let room = self.0.load(Ordering::Relaxed);
        let fits = bytes.len().min(room);
        Quick.append(file, &bytes[..fits])?;
        self.0.store(room - fits, Ordering::Relaxed);
        if fits < bytes.len() { Err(Errno::NOSPC) } else { Ok(()) }
    }

    fn sync(&mut self, _: &File) -> Result<(), Errno> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fills_up_stops_the_plan_and_not_the_way_back() {
    let settings = plan(&["thp.enabled=never", "vm.swappiness=10"]);
    let length = applied().journal().len();
    for room in (0..length).step_by(37) {
        let stage = Stage::new();
        let before = stage.root.capture();
        let mut state = stage.state_on(SmallDisk(Arc::new(AtomicUsize::new(room))));
        let error = apply(&stage.root, &stage.writer, &mut state, &settings, "t").unwrap_err();
        assert!(error.to_string().contains("no space left on device (ENOSPC)"), "{error}");
        if let ApplyError::HalfWay(half_way) = error {
            assert!(matches!(half_way.failure, Failure::Journal(_)) && half_way.put_back.all_undone);
        }
        assert!(stage.is_as(&before), "room for {room} bytes");
        drop(state);
        let mut state = stage.state();
        assert_eq!(state.log().torn_bytes(), None, "half a record was cut off again");
        assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone);
        assert!(stage.is_as(&before));
    }
}

#[test]
fn revert_works_on_a_full_disk_and_says_that_it_is_not_recorded() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let room = Arc::new(AtomicUsize::new(1 << 20));
    let mut state = stage.state_on(SmallDisk(Arc::clone(&room)));
    apply(&stage.root, &stage.writer, &mut state, &plan(&["vm.swappiness=10"]), "t").unwrap();
    room.store(10, Ordering::Relaxed);
    let report = revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap();
    assert!(report.all_undone && stage.is_as(&before));
    assert!(report.transactions[0].unrecorded.as_ref().is_some_and(|why| why.contains("ENOSPC")), "{report:?}");
    // The values are restored, and this process remembers the restore.
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().transactions.is_empty());
    drop(state);
    room.store(1 << 20, Ordering::Relaxed);
    let mut state = stage.state_on(SmallDisk(room));
    let report = revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap();
    assert_eq!(report.transactions[0].unrecorded, None);
    assert_eq!(history(&stage.root, state.log())[0].status, Status::Reverted);
}

/// `/dev/full` is a real device that is always full.
#[test]
fn a_real_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(crate::outside::Real.append(&full, b"x"), Err(Errno::NOSPC));
}

proptest! {
    #[test]
    fn a_journal_cut_anywhere_is_its_whole_records(at in 0_usize..10_000) {
        let whole = applied().journal();
        let at = at % (whole.len() + 1);
        let path = std::path::Path::new("journal");
        let scan = crate::scan::scan(path, &whole.as_bytes()[..at], None).unwrap();
        let records = whole[..at].rfind('\n').map_or(0, |end| end + 1);
        prop_assert_eq!((scan.end as usize, scan.torn as usize), (records, at - records));
        prop_assert_eq!(scan.last as usize, whole[..at].lines().count() - usize::from(at > records));
        prop_assert_eq!(scan.log.losses().is_empty(), at == 0 || records > 0);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = crate::scan::scan(std::path::Path::new("journal"), bytes.as_slice(), None);
    }
}
