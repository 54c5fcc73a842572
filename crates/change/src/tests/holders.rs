//! Tests several journals that change one host. They revert in any order, and a kill may interrupt any of them.
//! In the end all values are restored, or the report names each value that is not.

use std::fs::File;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::{Entry, Root};
use evenkeel_sys::Errno;
use proptest::prelude::*;
use tempfile::TempDir;

use super::crash::Fuse;
use super::{HOST, Quick, SWAPPINESS, Stage, THP, in_memory, lasting, names, plan, step};
use crate::claims::register_name;
use crate::outside::Outside;
use crate::register::{Change, Register};
use crate::{ApplyError, PersistedOutcome, RevertReport, Session, State, Undo, Which, apply, revert};

/// A machine on which several journals change settings. Their locks and registers are in this folder.
struct Shared(PathBuf);

impl Outside for Shared {
    fn sync(&mut self, file: &File) -> Result<(), Errno> {
        Quick.sync(file)
    }

    fn claims_dir(&self, _: &Root) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

/// A host, and the journals on it.
struct Host {
    stage: Stage,
    folder: TempDir,
}

impl Host {
    fn new(text: &str) -> Host {
        Host { stage: Stage::on(text), folder: in_memory() }
    }

    fn claims(&self) -> PathBuf {
        self.folder.path().join("claims")
    }

    fn dir(&self, journal: usize) -> PathBuf {
        self.folder.path().join(format!("journal-{journal}"))
    }

    fn state(&self, journal: usize) -> State {
        State::open_on(&self.dir(journal), Box::new(Shared(self.claims()))).unwrap()
    }

    fn apply(&self, journal: usize, settings: &[&str]) {
        apply(&self.stage.root, &self.stage.writer, &mut self.state(journal), &plan(settings), "t").unwrap();
    }

    fn revert_on(&self, state: &mut State, which: Which) -> RevertReport {
        revert(&self.stage.root, &self.stage.writer, state, which).unwrap()
    }

    fn revert(&self, journal: usize) -> RevertReport {
        self.revert_on(&mut self.state(journal), Which::All)
    }

    /// The registers that are left.
    fn registers(&self) -> Vec<String> {
        names(&self.claims()).into_iter().filter(|name| name.contains(".holders")).collect()
    }

    fn undo(&self, report: &RevertReport, path: &str) -> Undo {
        let files = report.transactions.iter().flat_map(|back| &back.files);
        files.filter(|file| file.path == path).map(|file| file.undo.clone()).next().unwrap()
    }
}

/// Pseudo-random numbers. The same seed gives the same numbers (method of Marsaglia).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            all.swap(at, self.below(at + 1));
        }
        all
    }
}

/// Regression: when the oldest journal was reverted first,
/// the machine ended with a value that it had never had before, and each journal reported a complete undo.
#[test]
fn twenty_journals_leave_in_any_order_and_the_last_restores_what_the_first_found() {
    const COUNT: usize = 20;
    let mut orders = vec![(0..COUNT).collect(), (0..COUNT).rev().collect()];
    orders.extend((1..=4).map(|seed| Numbers(seed * 7919).shuffled(COUNT)));
    for order in orders {
        let host = Host::new(HOST);
        let before = host.stage.root.capture();
        for journal in 0..COUNT {
            host.apply(journal, &[&format!("vm.swappiness={}", 10 + journal)]);
        }
        for (left, journal) in (1..=COUNT).rev().zip(&order) {
            let in_force = host.stage.text(SWAPPINESS);
            let report = host.revert(*journal);
            assert!(report.all_undone, "{order:?}: {report:?}");
            match host.undo(&report, SWAPPINESS) {
                Undo::Restored { found } => assert_eq!(found, in_force),
                Undo::PassedOn { found, to } => {
                    assert!(left > 1 && to.contains("/journal-"), "{order:?}: {to}");
                    assert_eq!((found.as_str(), host.stage.text(SWAPPINESS)), (in_force.as_str(), found.clone()));
                }
                other => panic!("{order:?}: {other:?}"),
            }
        }
        assert!(host.stage.is_as(&before), "{order:?}: {}", host.stage.text(SWAPPINESS));
        assert_eq!(host.registers(), [""; 0], "{order:?}");
    }
}

/// The values change each other, each journal has several transactions, and journals revert in between.
#[test]
fn journals_restore_the_host_in_any_order() {
    const JOURNALS: usize = 5;
    const SETTINGS: [&str; 11] = [
        "vm.swappiness=10",
        "vm.swappiness=20",
        "vm.swappiness=60",
        "thp.enabled=never",
        "thp.enabled=always",
        "vm.min_free_kbytes=80000",
        "vm.min_free_kbytes=90000",
        "/proc/sys/vm/dirty_ratio=5",
        "/proc/sys/vm/dirty_bytes=65536",
        "irq.affinity=1",
        "irq.affinity=0",
    ];
    let dirty = "/proc/sys/vm/dirty_bytes = 0\n/proc/sys/vm/dirty_ratio = 20\n/proc/sys/vm/min_free_kbytes";
    let text = HOST.replace("/proc/sys/vm/min_free_kbytes", dirty);
    for seed in 1..=300 {
        let mut numbers = Numbers(seed * 7919);
        let host = Host::new(&text);
        let before = host.stage.root.capture();
        let mut done = Vec::new();
        for _ in 0..12 {
            let journal = numbers.below(JOURNALS);
            if numbers.below(4) == 0 {
                done.push(format!("{journal}: revert"));
                assert!(host.revert(journal).all_undone, "seed {seed}: {done:?}");
            } else {
                let settings: Vec<&str> =
                    (0..=numbers.below(2)).map(|_| SETTINGS[numbers.below(SETTINGS.len())]).collect();
                done.push(format!("{journal}: {}", settings.join(" ")));
                host.apply(journal, &settings);
            }
        }
        for journal in numbers.shuffled(JOURNALS) {
            done.push(format!("{journal}: revert"));
            let report = host.revert(journal);
            assert!(report.all_undone, "seed {seed}: {done:?}: {report:?}");
        }
        assert!(host.stage.is_as(&before), "seed {seed}: {done:?}: {}", host.stage.root.capture());
        assert_eq!(host.registers(), [""; 0], "seed {seed}: {done:?}");
    }
}

/// Runs `act` once for each boundary in `act`, and kills it at that boundary. Then all journals revert, in each order.
fn kill_everywhere(name: &str, prepare: impl Fn(&Host), actor: usize, act: impl Fn(&Host, &mut State)) {
    const ORDERS: [[usize; 3]; 4] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]];
    let mut died = 0;
    for order in ORDERS {
        for dies_at in 0.. {
            let host = Host::new(HOST);
            let before = host.stage.root.capture();
            prepare(&host);
            let fuse = Fuse::new(dies_at).claiming(&host.claims());
            act(&host, &mut State::open_on(&host.dir(actor), Box::new(fuse.clone())).unwrap());
            if !fuse.has_died() {
                break;
            }
            died += 1;
            for journal in order {
                let report = host.revert(journal);
                assert!(report.all_undone, "{name} killed at {dies_at}, {order:?}: {report:?}");
            }
            let now = host.stage.root.capture();
            assert!(host.stage.is_as(&before), "{name} killed at {dies_at}, {order:?}: {now}");
            let left = host.registers();
            assert!(left.iter().all(|name| name.ends_with(".new")), "{name} killed at {dies_at}, {order:?}: {left:?}");
        }
    }
    println!("{name}: killed at each of {died} points, all put back");
    assert!(died > 80, "{name} has more boundaries than {died}");
}

const FIRST: &[&str] = &["vm.swappiness=10", "thp.enabled=never"];
const SECOND: &[&str] = &["vm.swappiness=20", "vm.min_free_kbytes=90000"];
const THIRD: &[&str] = &["thp.enabled=always", "vm.swappiness=30"];

#[test]
fn an_apply_over_that_of_another_journal_killed_anywhere_is_put_back() {
    for (settings, actor) in [(SECOND, 1), (THIRD, 2)] {
        kill_everywhere(
            "apply",
            |host| (0..actor).for_each(|journal| host.apply(journal, [FIRST, SECOND][journal])),
            actor,
            |host, state| {
                let _ = apply(&host.stage.root, &host.stage.writer, state, &plan(settings), "t");
            },
        );
    }
}

#[test]
fn a_revert_below_between_and_above_others_killed_anywhere_is_finished_by_the_next() {
    for actor in 0..3 {
        kill_everywhere(
            "revert",
            |host| (0..3).for_each(|journal| host.apply(journal, [FIRST, SECOND, THIRD][journal])),
            actor,
            |host, state| {
                let _ = revert(&host.stage.root, &host.stage.writer, state, Which::All);
            },
        );
    }
}

#[test]
fn a_trial_over_another_journal_killed_anywhere_is_put_back() {
    kill_everywhere(
        "trial",
        |host| host.apply(0, FIRST),
        1,
        |host, state| {
            let targets = [step("thp.enabled=always"), step("vm.swappiness=20")];
            let begun = Session::begin(&host.stage.root, &host.stage.writer, state, "t", &targets);
            let Ok(mut session) = begun else { return };
            for (thp, swappiness) in [("always", "20"), ("never", "10"), ("madvise", "0")] {
                let _ = session.set(0, thp);
                let _ = session.set(1, swappiness);
            }
            session.end();
        },
    );
}

/// The process is killed after its journal has recorded the undo, but before the register has.
/// The journal must no longer count as a holder.
#[test]
fn a_removed_journal_holds_nothing() {
    let host = Host::new(HOST);
    let before = host.stage.root.capture();
    for (journal, value) in ["10", "20", "30"].into_iter().enumerate() {
        host.apply(journal, &[&format!("vm.swappiness={value}")]);
    }
    // Remove a journal in the middle. The next journal must restore the original value of the removed one.
    std::fs::remove_dir_all(host.dir(1)).unwrap();
    assert!(host.revert(2).all_undone);
    assert_eq!(host.stage.text(SWAPPINESS), "10");
    let report = host.revert(0);
    assert_eq!(host.undo(&report, SWAPPINESS), Undo::Restored { found: "10".into() });
    assert!(host.stage.is_as(&before));

    // Remove the last journal.
    // No journal holds the value in force, so the report names that value, and evenkeel restores it.
    host.apply(0, &["vm.swappiness=10"]);
    host.apply(3, &["vm.swappiness=20"]);
    std::fs::remove_dir_all(host.dir(3)).unwrap();
    let report = host.revert(0);
    assert_eq!(host.undo(&report, SWAPPINESS), Undo::Foreign { found: "20".into() });
    assert!(report.all_undone && host.stage.is_as(&before));
}

fn register(host: &Host) -> PathBuf {
    host.claims().join(register_name(SWAPPINESS))
}

/// The error of `apply` and of `revert` names the register, and nothing is changed.
#[test]
fn a_register_that_can_not_be_read_is_an_error() {
    let host = Host::new(HOST);
    host.apply(0, &["vm.swappiness=10"]);
    let whole = std::fs::read_to_string(register(&host)).unwrap();
    assert!(whole.contains("\"format\":1") && whole.contains("\"before\":\"60\""), "{whole}");
    let long = format!("{whole}{}", " ".repeat(1 << 20));
    let hostile = [
        "",
        "{}",
        "[[[[",
        "\0",
        &whole[..whole.len() / 2],
        &whole.replace("\"format\":1", "\"format\":2"),
        &whole.replace("swappiness", "dirty_ratio"),
        &whole.replace("\"txn\":1", "\"txn\":-1"),
        &whole.replace("\"txn\":1", "\"txn\":1e99"),
        &long,
        &"[".repeat(100_000),
    ];
    for text in hostile {
        std::fs::write(register(&host), text).unwrap();
        let shown: String = text.chars().take(80).collect();
        let mut state = host.state(1);
        let error =
            apply(&host.stage.root, &host.stage.writer, &mut state, &plan(&["vm.swappiness=20"]), "t").unwrap_err();
        drop(state);
        let ApplyError::HalfWay(half_way) = &error else { panic!("{shown}: {error}") };
        assert!(half_way.put_back.changed_nothing() && error.to_string().contains(".holders: "), "{shown}: {error}");
        let report = host.revert(0);
        let Undo::Failed { why } = host.undo(&report, SWAPPINESS) else { panic!("{shown}: {report:?}") };
        assert!(!report.all_undone && why.contains(".holders: ") && why.contains("remove it"), "{shown}: {why}");
        assert_eq!(host.stage.text(SWAPPINESS), "10", "{shown}");
    }
    std::fs::remove_file(register(&host)).unwrap();
    std::fs::create_dir(register(&host)).unwrap();
    assert!(!host.revert(0).all_undone);
    std::fs::remove_dir(register(&host)).unwrap();
    assert!(host.revert(0).all_undone, "without a register, and with the value that we had set");
    assert_eq!(host.stage.text(SWAPPINESS), "60");
}

/// Without the registers, evenkeel cannot know which journal set the value.
/// If that is unclear, evenkeel writes nothing and reports it.
#[test]
fn a_register_that_is_lost_leaves_no_wrong_value_unsaid() {
    let host = Host::new(HOST);
    host.apply(0, &["vm.swappiness=10"]);
    host.apply(1, &["vm.swappiness=20"]);
    std::fs::remove_file(register(&host)).unwrap();
    let report = host.revert(0);
    let Undo::Failed { why } = host.undo(&report, SWAPPINESS) else { panic!("{report:?}") };
    assert!(why.contains("\"60\" in /proc/sys/vm/swappiness: it is \"20\", which this journal did not set"), "{why}");
    assert_eq!(host.stage.text(SWAPPINESS), "20");
    // The journal whose value is in force restores the value that it found.
    // Then the other journal can restore its value too.
    assert!(host.revert(1).all_undone && host.revert(0).all_undone);
    assert_eq!(host.stage.text(SWAPPINESS), "60");

    // If the register contains a later journal again, the value that this journal found shows which journal it follows.
    host.apply(0, &["vm.swappiness=10"]);
    std::fs::remove_file(register(&host)).unwrap();
    host.apply(1, &["vm.swappiness=20"]);
    let report = host.revert(0);
    assert!(
        matches!(host.undo(&report, SWAPPINESS), Undo::PassedOn { to, .. } if to.ends_with("journal-1")),
        "{report:?}"
    );
    assert!(host.revert(1).all_undone);
    assert_eq!(host.stage.text(SWAPPINESS), "60");
}

/// evenkeel ignores registers of an earlier boot, because the kernel has lost their values.
#[test]
fn a_register_of_another_boot_is_empty() {
    let host = Host::new(HOST);
    host.apply(0, &["vm.swappiness=10"]);
    let text = HOST.replace("boot_id = aaaa", "boot_id = bbbb").replace("swappiness = 60", "swappiness = 55");
    let host = Host { stage: Stage::on(&text), folder: host.folder };
    host.apply(1, &["vm.swappiness=20"]);
    assert!(host.revert(0).all_undone);
    assert_eq!(host.stage.text(SWAPPINESS), "20");
    assert!(host.revert(1).all_undone);
    assert_eq!(host.stage.text(SWAPPINESS), "55");
}

/// One of our writes also changes a value of another journal.
/// After our restore, the other journal's value is in force again.
#[test]
fn our_side_effects_spare_values_of_other_journals() {
    let host = Host::new(HOST);
    let before = host.stage.root.capture();
    host.apply(0, &["thp.enabled=never"]);
    host.apply(1, &["vm.min_free_kbytes=90000"]);
    let report = host.revert(0);
    assert!(report.all_undone, "{report:?}");
    assert_eq!(
        (host.stage.text(THP), host.stage.text(super::MIN_FREE)),
        ("always [madvise] never".into(), "90000".into())
    );
    assert!(host.revert(1).all_undone && host.stage.is_as(&before));
}

/// Regression: the earlier journal removed the file that the later journal had written.
/// The later journal then restored the earlier journal's file permanently.
#[test]
fn a_file_that_another_journal_has_written_anew_is_not_taken_from_it() {
    let host = Host::new(&lasting::host());
    let before = host.stage.root.capture();
    for (journal, value) in ["10", "20"].into_iter().enumerate() {
        lasting::keep_it(&host.stage, &mut host.state(journal), value).unwrap();
    }
    let file = |host: &Host| host.stage.text(lasting::SYSCTL);
    let report = host.revert(0);
    assert!(!report.all_undone);
    let kept = report.transactions[0].persisted.iter().find(|kept| kept.what == lasting::SYSCTL).unwrap();
    let PersistedOutcome::Failed { why } = &kept.undo else { panic!("{kept:?}") };
    let command = format!("`evenkeel revert --state {}`", real(&host.dir(1)).display());
    assert!(why.contains("changed /etc/sysctl.d/90-evenkeel.conf after this one") && why.contains(&command), "{why}");
    assert_eq!((file(&host), host.stage.text(SWAPPINESS)), ("vm.swappiness = 20".into(), "20".into()));
    assert!(host.revert(1).all_undone);
    assert_eq!(file(&host), "vm.swappiness = 10");
    assert!(host.revert(0).all_undone && host.stage.is_as(&before), "{}", host.stage.root.capture());
    assert_eq!(host.registers(), [""; 0]);
    assert_eq!(host.stage.root.tree().unwrap().look(lasting::SYSCTL), Ok(Entry::Absent));
}

fn real(dir: &Path) -> PathBuf {
    std::fs::canonicalize(dir).unwrap()
}

/// The register of three journals, with each kind of holder.
fn long_register() -> String {
    let mut register = Register::new(Some("aaaa".to_owned()), SWAPPINESS);
    let change = |journal: &'static str| Change { journal: Path::new(journal), txn: 1, step: 0 };
    register.add(change("/a"), "60");
    register.add(change("/b"), "10");
    register.add(change("/c"), "20");
    register.set_idle(change("/b"));
    register.leave(change("/a"), "60");
    register.to_text().unwrap()
}

proptest! {
    /// No text in a register causes a panic. Writing a parsed register gives the same text again.
    #[test]
    fn no_text_makes_a_register_panic(at in 0_usize..400, cut in 0_usize..40, with in ".{0,12}") {
        let whole = long_register();
        let (start, end) = (at % whole.len(), (at % whole.len() + cut).min(whole.len()));
        let text = format!("{}{with}{}", &whole[..start], &whole[end..]);
        let Ok(mut register) = Register::from_bytes(text.as_bytes(), Some("aaaa".to_owned()), SWAPPINESS) else { return Ok(()) };
        let again = Register::from_bytes(register.to_text().unwrap().as_bytes(), Some("aaaa".to_owned()), SWAPPINESS);
        prop_assert_eq!(again.as_ref(), Ok(&register));
        for journal in ["/a", "/b", "/c", "/d"] {
            let change = Change { journal: Path::new(journal), txn: 1, step: 0 };
            register.add(change, "30");
            register.leave(change, "20");
            register.leave_by_value("10", "60");
        }
        register.drop_gone(|holder| holder.txn % 2 == 0);
    }
}
