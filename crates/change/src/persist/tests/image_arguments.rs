//! Tests arguments of other owners in an image.
//! If such an argument conflicts with ours or comes later on the kernel's line,
//! evenkeel finds it as on a running machine.

use super::grub::{Files, evaluate, grub_files};
use super::*;
use crate::arguments;
use crate::persist::grub_defaults;
use proptest::prelude::*;

const OURS: &str = "/etc/default/grub.d/90-evenkeel.cfg";

/// The plan's text about a setting, for an image of this distribution with these files.
fn said(name: &str, files: &[(&str, &str)], setting: &str, own: &[&str]) -> String {
    let facts = host_with(name, "/proc/cmdline ! ENOENT\n/run/systemd/system ->! ENOENT\n");
    let boot_files: Vec<BootFile> = files.iter().map(|(path, text)| boot_file(path, text)).collect();
    let own_arguments: Vec<String> = own.iter().map(|text| (*text).to_owned()).collect();
    let context =
        PersistContext { is_image: true, boot_files: &boot_files, own_arguments: &own_arguments, ..context(&facts) };
    let plan = plan(&context, &settings(&[setting]));
    match plan.cannot.as_slice() {
        [] => format!("taken: {}\n", plan.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(" ")),
        cannot => cannot.iter().map(|cannot| format!("{}\n   -> {}\n", cannot.why, cannot.todo)).collect(),
    }
}

#[test]
fn an_argument_of_somebody_else_in_grubs_defaults_is_seen() {
    const GRUB: &str = "/etc/default/grub";
    let table: &[(&str, &[(&str, &str)])] = &[
        ("nothing", &[]),
        ("next to ours", &[(GRUB, "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=\"quiet isolcpus=1\"\n")]),
        ("the same", &[(GRUB, "GRUB_CMDLINE_LINUX=\"quiet isolcpus=2-3\"\n")]),
        ("behind ours", &[(GRUB, "GRUB_CMDLINE_LINUX=\"\"\nGRUB_CMDLINE_LINUX_DEFAULT='quiet isolcpus=1'\n")]),
        (
            "of a later file",
            &[(GRUB, ""), ("/etc/default/grub.d/99-x.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus=1\"\n")],
        ),
        (
            "replaced since",
            &[
                (GRUB, "GRUB_CMDLINE_LINUX=isolcpus=1\n"),
                ("/etc/default/grub.d/50-x.cfg", "GRUB_CMDLINE_LINUX=\"quiet\"\n"),
            ],
        ),
        (
            "in a branch",
            &[(GRUB, "if [ -f /x ]; then\n  GRUB_CMDLINE_LINUX=\"isolcpus=1\"\nfi\nGRUB_CMDLINE_LINUX=\n")],
        ),
        ("by a variable", &[(GRUB, "X=isolcpus=1\nGRUB_CMDLINE_LINUX=\"${X} quiet\"\n")]),
        ("by a command", &[(GRUB, "GRUB_CMDLINE_LINUX=\"$(echo \"isolcpus=1\") quiet\"\n")]),
        ("by what is not understood", &[(GRUB, ": \"${GRUB_CMDLINE_LINUX:=isolcpus=1}\"\n")]),
        ("over lines", &[(GRUB, "GRUB_CMDLINE_LINUX=\"quiet \\\n  isolcpus=1\"\n")]),
        ("in a comment", &[(GRUB, "# GRUB_CMDLINE_LINUX=\"isolcpus=1\"\nGRUB_CMDLINE_LINUX=\"quiet\" # isolcpus=1\n")]),
        ("ours from before", &[(GRUB, ""), (OURS, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus=1\"\n")]),
        ("for init, behind ours", &[(GRUB, "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet -- isolcpus=1\"\n")]),
        ("init's words before ours", &[(GRUB, "GRUB_CMDLINE_LINUX=\"quiet -- splash\"\n")]),
        ("ours is dropped", &[(GRUB, ""), ("/etc/default/grub.d/99-x.cfg", "\nGRUB_CMDLINE_LINUX=\"quiet\"\n")]),
        ("a file before ours", &[(GRUB, ""), ("/etc/default/grub.d/50-x.cfg", "GRUB_CMDLINE_LINUX=\"quiet\"\n")]),
    ];
    let all: String = table
        .iter()
        .map(|(label, files)| {
            format!("{label}: {}", said("debian-12", files, "cmdline.isolcpus=2-3", &["isolcpus=1"][..0]))
        })
        .collect();
    expect![[r#"
        nothing: taken: /etc/default/grub.d/90-evenkeel.cfg
        next to ours: /etc/default/grub (line 2) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        the same: taken: /etc/default/grub.d/90-evenkeel.cfg
        behind ours: /etc/default/grub (line 2) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        of a later file: /etc/default/grub.d/99-x.cfg (line 1) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub.d/99-x.cfg; then run this again
        replaced since: taken: /etc/default/grub.d/90-evenkeel.cfg
        in a branch: /etc/default/grub (line 2) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        by a variable: /etc/default/grub (line 1) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        by a command: /etc/default/grub (line 1) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        by what is not understood: /etc/default/grub (line 1) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        over lines: /etc/default/grub (line 1) of the image gives the kernel isolcpus=1, which evenkeel did not add
           -> remove isolcpus=1 from /etc/default/grub; then run this again
        in a comment: taken: /etc/default/grub.d/90-evenkeel.cfg
        ours from before: taken: /etc/default/grub.d/90-evenkeel.cfg
        for init, behind ours: taken: /etc/default/grub.d/90-evenkeel.cfg
        init's words before ours: /etc/default/grub (line 1) of the image has the word `--` before evenkeel's argument: the kernel passes all words after it to init
           -> remove `--` from /etc/default/grub, or move it behind the kernel arguments; then run this again
        ours is dropped: /etc/default/grub.d/99-x.cfg (line 2) of the image sets GRUB_CMDLINE_LINUX again after /etc/default/grub.d/90-evenkeel.cfg, which drops isolcpus=2-3
           -> start its value with $GRUB_CMDLINE_LINUX and a space, or rename the file so that it is read before /etc/default/grub.d/90-evenkeel.cfg; then run this again
        a file before ours: taken: /etc/default/grub.d/90-evenkeel.cfg
    "#]].assert_eq(&all);
}

#[test]
fn an_argument_of_somebody_else_in_an_entry_is_seen() {
    const ENTRY: &str = "/boot/loader/entries/a.conf";
    let entry = |options: &str| format!("title a\nlinux /v\n{options}");
    let with = |options: &str| vec![(ENTRY, entry(options))];
    let table = [
        ("plain", with("options root=/dev/sda1 ro\n")),
        ("no options", with("")),
        (
            "no kernel",
            vec![(ENTRY, "title memtest\nefi /memtest.efi\n".to_owned()), ("/etc/kernel/cmdline", "ro".to_owned())],
        ),
        ("next to ours", with("options root=/dev/sda1 mitigations=auto\n")),
        ("the same", with("options root=/dev/sda1 mitigations=off\n")),
        ("for init", with("options root=/dev/sda1 -- mitigations=auto\n")),
        ("on another line", with("options root=/dev/sda1\noptions mitigations=auto\n")),
        ("for new kernels", vec![("/etc/kernel/cmdline", "root=/dev/sda1 mitigations=auto\n".to_owned())]),
        ("by a variable", {
            let environment = "# GRUB Environment Block\nkernelopts=root=/dev/sda1 mitigations=auto\n#####";
            [with("options $kernelopts\n"), vec![("/boot/grub2/grubenv", environment.to_owned())]].concat()
        }),
        ("by a variable of grub.cfg", {
            let grub = "if [ -z \"${kernelopts}\" ]; then\n  set kernelopts=\"ro mitigations=auto\"\nfi\n";
            [with("options ${kernelopts} x\n"), vec![("/boot/grub2/grub.cfg", grub.to_owned())]].concat()
        }),
        ("init's words in a variable", {
            let environment = "kernelopts=root=/dev/sda1 -- splash\n";
            [with("options $kernelopts\n"), vec![("/boot/grub2/grubenv", environment.to_owned())]].concat()
        }),
        ("a variable that nobody names", {
            [with("options ro\n"), vec![("/boot/grub2/grubenv", "kernelopts=mitigations=auto\n".to_owned())]].concat()
        }),
    ];
    let all: String = table
        .iter()
        .map(|(label, files)| {
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            format!("{label}: {}", said("rhel-9", &files, "cmdline.mitigations=off", &[]))
        })
        .collect();
    expect![[r#"
        plain: taken: /boot/loader/entries/a.conf
        no options: evenkeel cannot add an argument to /boot/loader/entries/a.conf of the image: it has no `options` line with arguments: the boot loader gives such an entry its own default arguments, root= among them, and a line with ours alone would replace those
           -> correct /boot/loader/entries/a.conf, or remove it if nothing boots with it; then run this again
        no kernel: taken: /etc/kernel/cmdline
        next to ours: /boot/loader/entries/a.conf (line 3) of the image gives the kernel mitigations=auto, which evenkeel did not add
           -> remove mitigations=auto from /boot/loader/entries/a.conf; then run this again
        the same: taken: /boot/loader/entries/a.conf
        for init: taken: /boot/loader/entries/a.conf
        on another line: /boot/loader/entries/a.conf (line 4) of the image gives the kernel mitigations=auto, which evenkeel did not add
           -> remove mitigations=auto from /boot/loader/entries/a.conf; then run this again
        for new kernels: /etc/kernel/cmdline (line 1) of the image gives the kernel mitigations=auto, which evenkeel did not add
           -> remove mitigations=auto from /etc/kernel/cmdline; then run this again
        by a variable: /boot/grub2/grubenv (line 2) of the image gives the kernel mitigations=auto, which evenkeel did not add
           -> remove mitigations=auto from /boot/grub2/grubenv; then run this again
        by a variable of grub.cfg: /boot/grub2/grub.cfg (line 2) of the image gives the kernel mitigations=auto, which evenkeel did not add
           -> remove mitigations=auto from /boot/grub2/grub.cfg; then run this again
        init's words in a variable: /boot/grub2/grubenv (line 1) of the image has the word `--` before evenkeel's argument: the kernel passes all words after it to init
           -> remove `--` from /boot/grub2/grubenv, or move it behind the kernel arguments; then run this again
        a variable that nobody names: taken: /boot/loader/entries/a.conf
    "#]].assert_eq(&all);
    let ours = [(ENTRY, "title a\nlinux /v\noptions root=/dev/sda1  mitigations=auto\n")];
    assert!(said("rhel-9", &ours, "cmdline.mitigations=off", &["mitigations=auto"]).starts_with("taken"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let facts = host_with("debian-12", "/proc/cmdline ! ENOENT\n/run/systemd/system ->! ENOENT\n");
    let boot_files =
        [BootFile { path: "/etc/default/grub".to_owned(), text: Err("permission denied (EACCES)".to_owned()) }];
    let context = PersistContext { is_image: true, boot_files: &boot_files, ..context(&facts) };
    let plan = plan(&context, &settings(&["cmdline.isolcpus=2-3"]));
    assert!(plan.files.is_empty());
    expect!["evenkeel cannot add an argument to /etc/default/grub of the image: evenkeel cannot read it: permission denied (EACCES)"]
        .assert_eq(&plan.cannot[0].why);
}

#[test]
fn the_files_of_an_image_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for path in
        ["etc/default/grub", "etc/default/grub.d/b.cfg", "etc/default/grub.d/a.cfg", "etc/default/grub.d/README"]
    {
        write(path, path);
    }
    write("boot/loader/entries/x.conf", "linux /v\n");
    write("boot/grub2/grubenv", &"#".repeat(evenkeel_hostfs::MAX_FILE_BYTES + 1));
    std::fs::create_dir_all(dir.path().join("etc/kernel/cmdline")).unwrap();
    let found: String = boot_files(&Root::mounted(dir.path()).unwrap())
        .iter()
        .map(|file| format!("{}: {:?}\n", file.path, file.text))
        .collect();
    expect![[r#"
        /boot/loader/entries/x.conf: Ok("linux /v\n")
        /etc/kernel/cmdline: Err("is a directory (EISDIR)")
        /etc/default/grub: Ok("etc/default/grub")
        /etc/default/grub.d/a.cfg: Ok("etc/default/grub.d/a.cfg")
        /etc/default/grub.d/b.cfg: Ok("etc/default/grub.d/b.cfg")
        /boot/grub2/grubenv: Err("it has more than 262144 bytes, so it is not a configuration file")
    "#]]
    .assert_eq(&found);
}

/// Files that exhaust the memory of a shell do not exhaust our memory.
#[test]
fn values_are_bounded() {
    let doubled = format!("A=\"{}\"\n{}GRUB_CMDLINE_LINUX=\"$A\"\n", "x ".repeat(20_000), "A=\"$A$A\"\n".repeat(200));
    let line = grub_defaults::line(&[("/etc/default/grub", &doubled)], OURS);
    assert!(line.before.len() <= 64 << 10, "{}", line.before.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the words with the result of the evaluator, which a real shell checks.
    #[test]
    fn the_words_are_those_that_a_shell_makes(files in grub_files()) {
        let shell = evaluate(&files).unwrap();
        let of = |name: &str| shell.get(name).cloned().unwrap_or_default();
        let all = format!("{} {}", of("GRUB_CMDLINE_LINUX"), of("GRUB_CMDLINE_LINUX_DEFAULT"));
        let wanted: Vec<&str> = arguments::words(&all).into_iter().map(|(_, word)| word).collect();
        let line = line_of(&files);
        let words = |words: &[grub_defaults::Word<'_>]| words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
        prop_assert_eq!([words(&line.0), words(&line.1)].concat(), wanted);
    }

    #[test]
    fn no_text_makes_reading_panic(text in "(?s).{0,300}", shell in "[A-Z_=\"'$(){};&|\\\\` \n#a-z]{0,200}") {
        for text in [text, format!("GRUB_CMDLINE_LINUX={shell}")] {
            let line = grub_defaults::line(&[("/etc/default/grub", &text), ("/etc/default/grub.d/z.cfg", &text)], OURS);
            for word in line.before.iter().chain(&line.after).chain(&line.maybe) {
                prop_assert!(word.origin.line <= text.matches('\n').count() + 1);
            }
        }
    }
}

type Words<'a> = Vec<grub_defaults::Word<'a>>;

fn line_of(files: &Files) -> (Words<'_>, Words<'_>) {
    let (first, drop_ins): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| *name == "grub");
    let paths: Vec<(String, &String)> = first
        .into_iter()
        .chain(drop_ins)
        .map(|(name, text)| {
            let path =
                if name == "grub" { "/etc/default/grub".to_owned() } else { format!("/etc/default/grub.d/{name}") };
            (path, text)
        })
        .collect();
    let texts: Vec<(&str, &str)> = paths.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let line = grub_defaults::line(&texts, OURS);
    let own = |words: Vec<grub_defaults::Word<'_>>| -> Words<'static> {
        let origin = grub_defaults::Origin { path: "", line: 0 };
        words.into_iter().map(|word| grub_defaults::Word { text: word.text, origin }).collect()
    };
    (own(line.before), own(line.after))
}
