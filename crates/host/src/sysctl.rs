//! Sysctls for which no knob exists. Each gets a generic knob when it is first named.
//! The kernel checks the value, and evenkeel reads it back and restores it.
//! Some sysctls are never written, even if the user or a guide names them.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::{Finding, State, shown};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::never;
use crate::reading::Reading;
use crate::value::SettingError;

/// The beginning of the id of a sysctl for which no knob exists: `sysctl:net.ipv4.tcp_fin_timeout`.
pub const PREFIX: &str = "sysctl:";

/// The folder of sysctls.
pub(crate) const FOLDER: &str = "/proc/sys/";

/// The maximum number of generic knobs in one process, because they are never freed.
const KNOBS_MAX: usize = 4096;
/// The longest path under /proc/sys.
const PATH_BYTES_MAX: usize = 120;

static KNOBS: LazyLock<Mutex<BTreeMap<String, &'static Knob>>> = LazyLock::new(Mutex::default);

/// A sysctl's path below /proc/sys, from a key with dots or slashes, as `sysctl(8)` reads it. `None` if the key is not a valid path.
pub(crate) fn path(key: &str) -> Option<String> {
    let key = key.trim();
    let key = key.strip_prefix(FOLDER).or_else(|| key.strip_prefix("/proc/sys.")).unwrap_or(key);
    let dots_first = key.find(['.', '/']).is_some_and(|at| key.as_bytes().get(at) == Some(&b'.'));
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = if dots_first { key.chars().map(swap).collect() } else { key.to_owned() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*:".contains(&byte);
    let parts = || path.split('/');
    let is_path = parts().count() >= 2
        && path.len() <= PATH_BYTES_MAX
        && parts().all(|part| !part.is_empty() && part != ".." && part != "." && part.bytes().all(plain));
    is_path.then_some(path)
}

/// The folders below /proc/sys.
const ROOTS: [&str; 10] = ["abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"];

/// The path of a key that begins like a sysctl.
pub(crate) fn known_path(key: &str) -> Option<String> {
    path(key).filter(|path| path.split('/').next().is_some_and(|first| ROOTS.contains(&first)))
}

/// The key with dots. The key keeps its slashes if a part of the path contains a dot.
pub(crate) fn dotted(path: &str) -> String {
    if path.contains('.') { path.to_owned() } else { path.replace('/', ".") }
}

/// The id of the generic knob for a path.
pub(crate) fn id(path: &str) -> String {
    format!("{PREFIX}{}", dotted(path))
}

/// The generic knob of a sysctl. `key` is the part of the id after [`PREFIX`].
///
/// # Errors
/// If the key is not a sysctl, or if evenkeel never writes it.
pub(crate) fn find(key: &str) -> Result<&'static Knob, SettingError> {
    let unknown = || SettingError::UnknownKnob { id: shown(&format!("{PREFIX}{key}")), nearest: None };
    let path = known_path(key).filter(|path| !path.contains('*')).ok_or_else(unknown)?;
    if let Some(why) = never::reason(&path) {
        return Err(SettingError::Never { id: shown(key), why: why.why().to_owned() });
    }
    let mut knobs = KNOBS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(knob) = knobs.get(&path) {
        return Ok(knob);
    }
    if knobs.len() >= KNOBS_MAX {
        return Err(unknown());
    }
    let knob: &'static Knob = Box::leak(Box::new(generic(&path)));
    knobs.insert(path, knob);
    Ok(knob)
}

/// Network sysctls that the kernel reads whenever it needs them (`net/ipv4/tcp*.c`, `net/core/dev.c`).
/// The kernel may copy others, such as the sizes of buffers, into a socket when it creates the socket.
const AT_ONCE: [&str; 9] = [
    "net/core/netdev_",
    "net/core/dev_weight",
    "net/ipv4/tcp_autocorking",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_limit_output_bytes",
    "net/ipv4/tcp_max_tw_buckets",
    "net/ipv4/tcp_pacing_",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_tw_reuse",
];

/// Makes a generic knob. Its texts are never freed, but there are at most `KNOBS_MAX` generic knobs.
fn generic(path: &str) -> Knob {
    let leaked = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let area = match path.split('/').next() {
        Some("net" | "sunrpc") => Area::Network,
        Some("vm") => Area::Memory,
        Some("fs") => Area::Disk,
        _ => Area::Cpu,
    };
    let takes_effect = match area {
        Area::Network if !AT_ONCE.iter().any(|begin| path.starts_with(begin)) => TakesEffect::NewSockets,
        _ => TakesEffect::AtOnce,
    };
    Knob {
        id: leaked(id(path)),
        title: "a sysctl that evenkeel has no knob for",
        area,
        place: Place::File { path: leaked(format!("{FOLDER}{path}")), reading: Reading::Plain },
        values: Values::Sysctl,
        default: "unknown to evenkeel",
        takes_effect,
        mechanism: "The documentation of the kernel describes it. evenkeel writes the value, reads it back and can restore it.",
        risk: "unknown to evenkeel: prove it before you keep it",
        shows_in: "its own file under /proc/sys",
        kernels: "those with the file",
        sources: &[Source { title: "Linux Documentation/admin-guide/sysctl", says: "the sysctls of the kernel" }],
        extras: Extras::NONE,
        advise,
    }
}

fn advise(_: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![Finding::new(State::Unknown, "sysctl", "evenkeel has no advice for this sysctl: prove it on your server")]
}
