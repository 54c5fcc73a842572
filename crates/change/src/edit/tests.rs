//! Tests the guarantees of editing: removing our content restores the text byte by byte,
//! all other words keep their places, and adding twice equals adding once.

use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

/// The number of cases for each property: `EVENKEEL_CASES`, as `make lab` sets it, otherwise 4,096.
pub(crate) fn cases() -> Config {
    let cases = std::env::var("EVENKEEL_CASES").ok().and_then(|text| text.parse().ok());
    Config { cases: cases.unwrap_or(4096), failure_persistence: None, ..Config::default() }
}

fn file(text: &str) -> Entry {
    Entry::File { text: text.to_owned(), mode: 0o600 }
}

fn arguments(words: &[&str]) -> Content {
    Content::KernelArguments { arguments: words.iter().map(|word| (*word).to_owned()).collect() }
}

fn text(entry: &Entry) -> String {
    match entry {
        Entry::File { text, mode: 0o600 } => text.clone(),
        other => format!("{other:?}"),
    }
}

const RHEL: &str = r#"title Red Hat Enterprise Linux (5.14.0-362.el9.x86_64) 9.3 (Plow)
version 5.14.0-362.el9.x86_64
linux /vmlinuz-5.14.0-362.el9.x86_64
initrd /initramfs-5.14.0-362.el9.x86_64.img $tuned_initrd
options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M rd.lvm.lv=rhel/root rd.lvm.lv=rhel/swap $tuned_params
grub_users $grub_users
grub_arg --unrestricted
grub_class rhel
"#;

#[test]
fn arguments_go_to_the_end_of_the_first_line_of_arguments_and_before_those_of_init() {
    let texts = [
        ("Red Hat's entry", RHEL),
        ("two lines of options", "title a\noptions root=/dev/sda1\noptions console=tty0 console=ttyS0\nlinux /v\n"),
        ("no options", "title a\nlinux /v\n"),
        ("no options, no last newline", "title a\nlinux /v"),
        ("empty options", "title a\noptions\n"),
        ("a word for init", "title a\noptions root=/dev/sda1 -- splash\nlinux /v\n"),
        ("words for init on the first of two lines", "title a\noptions root=/dev/sda1  -- x\noptions quiet\n"),
        ("init's mark in quotes", "root=/dev/sda1 x=\"a -- b\" ro -- 5\n"),
        ("init's mark at the end", "root=/dev/sda1 --"),
        ("init's words alone", "-- splash\n"),
        ("init's words alone, behind a space", " -- splash\n"),
        ("ours behind init's mark", "root=/dev/sda1 --  isolcpus=2-3 idle=poll\n"),
        ("odd spacing", "title a\n  options\troot=/dev/sda1   quiet \n"),
        ("another system's newlines", "title a\r\noptions root=/dev/sda1\r\n"),
        ("quotes", "root=/dev/sda1 dyndbg=\"file x +p\" a==b\n"),
        ("no last newline", "root=/dev/sda1 ro"),
        ("comments", "# made by hand\nroot=/dev/sda1\n# not this\n\n"),
        ("it is there already", "root=/dev/sda1 isolcpus=2-3 ro\n"),
        ("it is there at the end", "root=/dev/sda1 isolcpus=2-3\n"),
        ("an open quote", "root=/dev/sda1 dyndbg=\"file x\n"),
        ("comments alone", "# root=/dev/sda1\n"),
        ("nothing", ""),
    ];
    let content = arguments(&["isolcpus=2-3", "idle=poll"]);
    let as_text: String = texts
        .iter()
        .map(|(label, before)| match with(&file(before), &content) {
            Ok(after) => {
                assert_eq!(without(&after, &content), file(before), "{label}");
                assert_eq!(with(&after, &content), Ok(after.clone()), "{label}");
                format!("-- {label}\n{}", text(&after).replace('\r', "␍").replace("\n", "⏎\n"))
            }
            Err(why) => format!("-- {label}\nrefused: {why}\n"),
        })
        .collect();
    expect![[r#"
        -- Red Hat's entry
        title Red Hat Enterprise Linux (5.14.0-362.el9.x86_64) 9.3 (Plow)⏎
        version 5.14.0-362.el9.x86_64⏎
        linux /vmlinuz-5.14.0-362.el9.x86_64⏎
        initrd /initramfs-5.14.0-362.el9.x86_64.img $tuned_initrd⏎
        options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M rd.lvm.lv=rhel/root rd.lvm.lv=rhel/swap $tuned_params  isolcpus=2-3 idle=poll⏎
        grub_users $grub_users⏎
        grub_arg --unrestricted⏎
        grub_class rhel⏎
        -- two lines of options
        title a⏎
        options root=/dev/sda1  isolcpus=2-3 idle=poll⏎
        options console=tty0 console=ttyS0⏎
        linux /v⏎
        -- no options
        refused: it has no `options` line with arguments: the boot loader gives such an entry its own default arguments, root= among them, and a line with ours alone would replace those
        -- no options, no last newline
        refused: it has no `options` line with arguments: the boot loader gives such an entry its own default arguments, root= among them, and a line with ours alone would replace those
        -- empty options
        refused: it has no `options` line with arguments: the boot loader gives such an entry its own default arguments, root= among them, and a line with ours alone would replace those
        -- a word for init
        title a⏎
        options root=/dev/sda1  isolcpus=2-3 idle=poll -- splash⏎
        linux /v⏎
        -- words for init on the first of two lines
        title a⏎
        options root=/dev/sda1   isolcpus=2-3 idle=poll -- x⏎
        options quiet⏎
        -- init's mark in quotes
        root=/dev/sda1 x="a -- b" ro  isolcpus=2-3 idle=poll -- 5⏎
        -- init's mark at the end
        root=/dev/sda1  isolcpus=2-3 idle=poll ---- init's words alone
        refused: it holds no kernel arguments, and ours alone would be a kernel without its root
        -- init's words alone, behind a space
        refused: it holds no kernel arguments, and ours alone would be a kernel without its root
        -- ours behind init's mark
        root=/dev/sda1  isolcpus=2-3 idle=poll --  isolcpus=2-3 idle=poll⏎
        -- odd spacing
        title a⏎
          options	root=/dev/sda1   quiet   isolcpus=2-3 idle=poll⏎
        -- another system's newlines
        title a␍⏎
        options root=/dev/sda1  isolcpus=2-3 idle=poll␍⏎
        -- quotes
        root=/dev/sda1 dyndbg="file x +p" a==b  isolcpus=2-3 idle=poll⏎
        -- no last newline
        root=/dev/sda1 ro  isolcpus=2-3 idle=poll-- comments
        # made by hand⏎
        root=/dev/sda1  isolcpus=2-3 idle=poll⏎
        # not this⏎
        ⏎
        -- it is there already
        root=/dev/sda1 isolcpus=2-3 ro  isolcpus=2-3 idle=poll⏎
        -- it is there at the end
        root=/dev/sda1 isolcpus=2-3  isolcpus=2-3 idle=poll⏎
        -- an open quote
        refused: a quote is open at the end of its kernel arguments, and ours would become part of it; close it
        -- comments alone
        refused: it holds no kernel arguments, and ours alone would be a kernel without its root
        -- nothing
        refused: it holds no kernel arguments, and ours alone would be a kernel without its root
    "#]].assert_eq(&as_text);
}

#[test]
fn later_changes_of_people_stay() {
    let content = arguments(&["isolcpus=2-3", "idle=poll"]);
    let texts = [
        ("words after ours", "root=/dev/sda1  isolcpus=2-3 idle=poll quiet\n"),
        ("one of our spaces is gone", "isolcpus=2-3 root=/dev/sda1 isolcpus=2-3 quiet idle=poll\n"),
        ("one is gone", "root=/dev/sda1 idle=poll\n"),
        ("in quotes", "root=/dev/sda1 x=\"y idle=poll z\"\n"),
        ("a part of a word", "root=/dev/sda1 xidle=poll idle=polls isolcpus=2-3,5\n"),
        ("ours alone", "isolcpus=2-3 idle=poll\n"),
        ("without our arguments", "root=/dev/sda1\n"),
        ("nothing", ""),
    ];
    let as_text: String =
        texts.iter().map(|(label, now)| format!("{label}: {:?}\n", text(&without(&file(now), &content)))).collect();
    expect![[r#"
        words after ours: "root=/dev/sda1 quiet\n"
        one of our spaces is gone: "isolcpus=2-3 root=/dev/sda1 quiet\n"
        one is gone: "root=/dev/sda1\n"
        in quotes: "root=/dev/sda1 x=\"y idle=poll z\"\n"
        a part of a word: "root=/dev/sda1 xidle=poll idle=polls isolcpus=2-3,5\n"
        ours alone: "\n"
        without our arguments: "root=/dev/sda1\n"
        nothing: ""
    "#]]
    .assert_eq(&as_text);
}

#[test]
fn content_of_an_earlier_version_elsewhere_is_removed() {
    let content = arguments(&["isolcpus=2-3", "idle=poll"]);
    let ours = "  isolcpus=2-3 idle=poll";
    let texts = [
        ("title a\nlinux /v\n", format!("title a\nlinux /v\noptions{ours}\n")),
        ("title a\nlinux /v", format!("title a\nlinux /v\noptions{ours}")),
        ("title a\noptions\n", format!("title a\noptions\noptions{ours}\n")),
        ("title a\noptions a\noptions b\nlinux /v\n", format!("title a\noptions a\noptions b{ours}\nlinux /v\n")),
        ("options a -- b\n", format!("options a -- b{ours}\n")),
        ("a -- b", format!("a -- b{ours}")),
    ];
    for (before, then) in texts {
        assert_eq!(without(&file(&then), &content), file(before), "{then:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_not_made_for_arguments() {
    expect!["it does not exist, and evenkeel only adds kernel arguments to an existing file"]
        .assert_eq(&with(&Entry::Absent, &arguments(&["a=b"])).unwrap_err());
    let link = Entry::Link { target: "/elsewhere".to_owned() };
    expect!["it is a symbolic link to /elsewhere; evenkeel edits only regular files"]
        .assert_eq(&with(&link, &arguments(&["a=b"])).unwrap_err());
}

#[test]
fn a_block_goes_to_the_end_and_away_again() {
    let content = Content::Block { lines: "A=1\n".to_owned() };
    let as_text: String = ["", "X=1\n", "X=1"]
        .iter()
        .map(|before| {
            let after = with(&file(before), &content).unwrap();
            assert_eq!(without(&after, &content), file(before));
            format!("{before:?}: {:?}\n", text(&after))
        })
        .collect();
    expect![[r##"
        "": "# evenkeel begin: `evenkeel revert` removes these lines\nA=1\n# evenkeel end\n"
        "X=1\n": "X=1\n# evenkeel begin: `evenkeel revert` removes these lines\nA=1\n# evenkeel end\n"
        "X=1": "X=1\n# evenkeel begin: `evenkeel revert` removes these lines, and the newline before them\nA=1\n# evenkeel end\n"
    "##]].assert_eq(&as_text);
    let cut = "X=1\n# evenkeel begin: `evenkeel revert` removes these lines\nA=1\nB=2\n";
    assert_eq!(without(&file(cut), &content), file(cut), "nobody knows where ours ends");
}

/// Words of kernel lines, the awkward ones first.
fn word() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "console=tty0",
        "console=ttyS0,115200n8",
        "rd.lvm.lv=rhel/root",
        "rd.lvm.lv=rhel/swap",
        "dyndbg=\"file x +p\"",
        "\"quoted whole=1 2\"",
        "root=UUID=1f0e-5ec7",
        "a==b=c",
        "$kernelopts",
        "$tuned_params",
        "${x}",
        "quiet",
        "ro",
        "--",
        "isolcpus=2-3",
        "isolcpus=2-3,5",
        "xisolcpus=2-3",
        "idle=poll",
        "nohz_full=",
        "ä=ö",
        "\\",
        "'",
        "#",
        "options",
    ];
    prop_oneof![8 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 2 => "[a-z._]{1,8}(=[!-~&&[^\"]]{0,12})?"]
}

/// Words with any white space between and around them.
fn words() -> impl Strategy<Value = String> {
    let space = || prop_oneof![6 => Just(" ".to_owned()), 1 => "[ \t]{2,4}", 1 => Just("\t".to_owned())];
    let end = prop_oneof![4 => Just(String::new()), 1 => "[ \t]{1,3}"];
    (word(), proptest::collection::vec((space(), word()), 0..12), end).prop_map(|(first, more, end)| {
        let more: String = more.into_iter().map(|(space, word)| space + &word).collect();
        format!("{first}{more}{end}")
    })
}

fn entry() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => words().prop_map(|words| format!("options {words}")),
        1 => words().prop_map(|words| format!("options\t{words}")),
        1 => Just("options".to_owned()),
        1 => Just("options ".to_owned()),
        2 => words().prop_map(|words| format!("title {words}")),
        2 => words().prop_map(|words| format!("# {words}")),
        1 => Just(String::new()),
        1 => Just("grub_users $grub_users".to_owned()),
    ];
    proptest::collection::vec(line, 0..8).prop_map(|lines| format!("linux /vmlinuz\n{}", lines.join("\n")))
}

fn kernel_file() -> impl Strategy<Value = String> {
    let newline = prop_oneof![3 => Just("\n"), 1 => Just(""), 1 => Just("\r\n")];
    let comment = prop_oneof![3 => Just(""), 1 => Just("# by hand\n"), 1 => Just("\n")];
    let cmdline = (comment, words()).prop_map(|(comment, words)| format!("{comment}{words}"));
    (prop_oneof![entry(), cmdline], newline).prop_map(|(text, newline)| format!("{text}{newline}"))
}

fn ours() -> impl Strategy<Value = Vec<String>> {
    const KNOWN: &[&str] = &["isolcpus=2-3", "idle=poll", "intel_idle.max_cstate=1", "tsc=nowatchdog"];
    proptest::sample::subsequence(KNOWN, 1..4).prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

/// The words that the kernel itself reads:
/// this splits a line as its `parse_args` and `next_arg` do (`kernel/params.c`, `lib/cmdline.c`).
fn read_by_kernel(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let mut is_quoted = false;
        let end = rest.find(|letter: char| {
            is_quoted ^= letter == '"';
            letter.is_whitespace() && !is_quoted
        });
        let (word, left) = rest.split_at(end.unwrap_or(rest.len()));
        if word == "--" {
            break;
        }
        words.push(word.to_owned());
        rest = left.trim_start();
    }
    words
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn arguments_come_and_go_and_leave_every_other_byte(before in kernel_file(), ours in ours()) {
        let joined = ours.join(" ");
        prop_assume!(!before.contains(&format!("  {joined}")));
        let content = Content::KernelArguments { arguments: ours };
        let Ok(after) = with(&file(&before), &content) else {
            // Only a text without kernel arguments, or with an open quote, is refused.
            let holds = |line: &&str| match line.split_whitespace().next() {
                None | Some("title" | "linux" | "grub_users") => false,
                Some("options") => line.trim() != "options",
                Some(first) => !first.starts_with('#') && !before.starts_with("linux"),
            };
            let first = before.lines().find(holds).unwrap_or_default();
            prop_assert!(first.matches('"').count() % 2 == 1 || read_by_kernel(first).is_empty(), "{before:?}");
            return Ok(());
        };
        prop_assert_eq!(without(&after, &content), file(&before));
        prop_assert_eq!(with(&after, &content), Ok(after.clone()));
        // Our part is contiguous, and without it the rest is unchanged, so every other word kept its place.
        let (after, piece) = (text(&after), format!("  {joined}"));
        let at = after.rfind(&piece).unwrap();
        prop_assert_eq!(format!("{}{}", &after[..at], &after[at + piece.len()..]), before);
        let line = after.lines().find(|line| line.contains(&piece)).unwrap();
        let read = read_by_kernel(line).join(" ");
        prop_assert!(read.contains(&joined), "{line:?}: the kernel reads {read:?}");
    }

    #[test]
    fn a_block_leaves_every_other_byte(before in "(?s).{0,200}", lines in "([A-Z_]{1,20}=[ -~]{0,20}\n){1,3}") {
        let content = Content::Block { lines };
        let after = with(&file(&before), &content).unwrap();
        prop_assert_eq!(without(&after, &content), file(&before));
        prop_assert_eq!(with(&after, &content), Ok(after.clone()));
        prop_assert!(text(&after).starts_with(&before));
    }

    #[test]
    fn no_text_makes_editing_panic(text in "(?s).{0,200}", words in proptest::collection::vec("[ -~]{0,20}", 0..3)) {
        for content in [Content::KernelArguments { arguments: words }, Content::Block { lines: "A=1\n".to_owned() }] {
            let _ = with(&file(&text), &content);
            let _ = without(&file(&text), &content);
        }
    }
}
