//! Tests `evenkeel image` with the real program, on images that consist of plain files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// All files of a tree: the path and the content of each.
fn tree_of_all(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                folders.push(path);
                found.push((name, "folder".to_owned()));
            } else if meta.is_symlink() {
                found.push((name, fs::read_link(&path).unwrap().display().to_string()));
            } else {
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The tree without the journal. The journal records all changes and is never removed.
fn tree(dir: &Path) -> Vec<(String, String)> {
    let mut found = tree_of_all(dir);
    found.retain(|(name, _)| !name.starts_with("var"));
    found
}

fn image() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["etc/sysctl.d", "etc/default", "usr/lib", "var/lib"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    fs::write(dir.path().join("etc/os-release"), "ID=debian\nVERSION_ID=\"12\"\n").unwrap();
    dir
}

fn image_run(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("image").arg(dir).args(line.split(' ')).env_clear().stdin(Stdio::null()).output().unwrap()
}

#[test]
fn an_image_gets_what_outlives_a_boot_and_gives_it_back() {
    let dir = image();
    let before = tree(dir.path());
    let done = image_run(dir.path(), "vm.swappiness=10 net.core.busy_poll=50");
    assert_eq!(code(&done), 0, "{}", text(&done));
    let written = fs::read_to_string(dir.path().join("etc/sysctl.d/90-evenkeel.conf")).unwrap();
    assert!(written.contains("vm/swappiness = 10\n") && written.contains("net/core/busy_poll = 50\n"), "{written}");
    // A second call writes another setting, and keeps the files of the first call.
    image_run(dir.path(), "vm.stat_interval=10");
    let written = fs::read_to_string(dir.path().join("etc/sysctl.d/90-evenkeel.conf")).unwrap();
    assert!(written.contains("vm/swappiness = 10\n") && written.contains("vm/stat_interval = 10\n"), "{written}");
    let undone = image_run(dir.path(), "--undo");
    assert_eq!(code(&undone), 0, "{}", text(&undone));
    assert_eq!(tree(dir.path()), before);
    assert!(!dir.path().join("var/lib/evenkeel").exists(), "a machine made from the image begins without a journal");
    let again = image_run(dir.path(), "--undo");
    assert!(code(&again) == 0 && !dir.path().join("var/lib/evenkeel").exists(), "{}", text(&again));
}

#[test]
fn no_link_leads_out_of_an_image() {
    let outside = tempfile::tempdir().unwrap();
    for link in ["etc/sysctl.d", "etc", "var/lib", "var", "var/lib/evenkeel"] {
        let dir = image();
        let place = dir.path().join(link);
        let _ = fs::remove_dir_all(&place);
        symlink(outside.path(), &place).unwrap();
        let refused = image_run(dir.path(), "vm.swappiness=10");
        assert_ne!(code(&refused), 0, "{link}: {}", text(&refused));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{link}");
    }
}

/// An image like Red Hat's. In its only boot entry, this text follows the kernel line.
fn image_with_entry(options: &str) -> tempfile::TempDir {
    let dir = image();
    for file in ["etc/default/grub", "usr/sbin/grubby"] {
        fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
        fs::write(dir.path().join(file), "").unwrap();
    }
    fs::create_dir_all(dir.path().join("boot/loader/entries")).unwrap();
    fs::write(dir.path().join(ENTRY), format!("title a\nlinux /vmlinuz\n{options}")).unwrap();
    dir
}

/// An image like Debian's, with this text in `/etc/default/grub`.
fn image_with_defaults(defaults: &str) -> tempfile::TempDir {
    let dir = image();
    fs::create_dir_all(dir.path().join("usr/sbin")).unwrap();
    fs::write(dir.path().join("usr/sbin/update-grub"), "").unwrap();
    fs::write(dir.path().join("etc/default/grub"), defaults).unwrap();
    dir
}

const ENTRY: &str = "boot/loader/entries/a.conf";

#[test]
fn kernel_arguments_go_before_those_of_init() {
    let dir = image_with_entry("options root=/dev/sda1 ro -- splash\n");
    let before = tree(dir.path());
    let done = image_run(dir.path(), "cmdline.isolcpus=3");
    assert_eq!(code(&done), 0, "{}", text(&done));
    let entry = fs::read_to_string(dir.path().join(ENTRY)).unwrap();
    assert_eq!(entry, "title a\nlinux /vmlinuz\noptions root=/dev/sda1 ro  isolcpus=3 -- splash\n");
    assert_eq!(code(&image_run(dir.path(), "--undo")), 0);
    assert_eq!(tree(dir.path()), before);
}

/// In these images, an argument of the image would override ours, or ours would prevent the boot.
#[test]
fn an_image_in_which_an_argument_would_not_be_in_force_is_refused() {
    let later = image_with_defaults("GRUB_CMDLINE_LINUX=\"\"\n");
    fs::create_dir_all(later.path().join("etc/default/grub.d")).unwrap();
    fs::write(later.path().join("etc/default/grub.d/99-x.cfg"), "GRUB_CMDLINE_LINUX=\"quiet\"\n").unwrap();
    let table = [
        (image_with_entry(""), "no `options` line"),
        (
            image_with_entry("options root=/dev/sda1 mitigations=auto\n"),
            "(line 3) of the image gives the kernel mitigations=auto",
        ),
        (
            image_with_defaults("GRUB_CMDLINE_LINUX=\"mitigations=auto\"\n"),
            "grub (line 1) of the image gives the kernel mitigations=auto",
        ),
        (image_with_defaults("\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet mitigations=auto\"\n"), "(line 2)"),
        (image_with_defaults("GRUB_CMDLINE_LINUX=\"quiet -- splash\"\n"), "passes all words after it to init"),
        (later, "which drops mitigations=off"),
    ];
    for (dir, why) in table {
        let before = tree(dir.path());
        let refused = image_run(dir.path(), "cmdline.mitigations=off");
        assert_eq!(code(&refused), 4, "{why}: {}", text(&refused));
        assert!(text(&refused).contains(why), "{why}: {}", text(&refused));
        assert_eq!(tree(dir.path()), before, "{why}");
    }
}

/// While the program runs, another process keeps replacing the image's `/var` by a link.
/// The program must succeed or refuse, and never write outside of the image.
#[test]
fn a_link_that_appears_in_the_middle_leads_nowhere() {
    let dir = image();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(outside.path().join("lib/evenkeel")).unwrap();
    let [var, link] = ["var", "link"].map(|name| dir.path().join(name));
    symlink(outside.path(), &link).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &var, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..20 {
            for line in ["vm.swappiness=10", "--undo"] {
                let done = image_run(dir.path(), line);
                assert!(matches!(code(&done), 0 | 1 | 4), "{line}: {}", text(&done));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        tree_of_all(outside.path()),
        [("lib".to_owned(), "folder".to_owned()), ("lib/evenkeel".to_owned(), "folder".to_owned())]
    );
}
