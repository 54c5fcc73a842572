//! The UDP sockets of a server, found by its open files, and the bytes in their receive buffers, read from the kernel's tables.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hostfs::proc::{SocketRow, parse_sockets};
use evenkeel_hostfs::{Refusal, Root};

use super::busiest::Busiest;
use super::read::refused;
use crate::sample::{Counted, FilesSample, SocketSample};

/// How often the open files of a process are read. A server usually opens its sockets when it starts.
const LOOK_EVERY_NS: u64 = 10_000_000_000;
/// The maximum number of open files of a process to examine.
const FILES_MAX: usize = 4096;
/// The maximum number of sockets to list for a server: those that dropped most.
const LISTED_MAX: usize = 64;

/// The sockets among the open files of a process.
#[derive(Debug, Default)]
pub(super) struct OpenSockets {
    looked: Option<(u64, Counted<BTreeSet<u64>>)>,
    files: FilesSample,
    busiest: Busiest<u64>,
}

/// The socket tables of the network namespaces. Each is read once per sample.
#[derive(Debug, Default)]
pub(super) struct Tables {
    rows: BTreeMap<String, Counted<Vec<SocketRow>>>,
}

impl OpenSockets {
    /// Reads the UDP sockets of the process.
    pub(super) fn read(
        &mut self,
        root: &Root,
        pid: u32,
        tables: &mut Tables,
        now_ns: u64,
    ) -> Counted<Vec<SocketSample>> {
        let is_fresh = |looked: &&(u64, _)| now_ns.saturating_sub(looked.0) < LOOK_EVERY_NS;
        if self.looked.as_ref().filter(is_fresh).is_none() {
            let (inodes, beyond) = match inodes(root, pid) {
                Ok((inodes, beyond)) => (Ok(inodes), beyond),
                Err(refusal) => (Err(refused(&refusal)), 0),
            };
            self.files = FilesSample { beyond, sockets_beyond: 0 };
            self.looked = Some((now_ns, inodes));
        }
        let Some((_, inodes)) = &self.looked else { return Ok(Vec::new()) };
        let inodes = inodes.clone()?;
        let rows = tables.rows(root, pid)?;
        let own = rows.iter().filter(|row| inodes.contains(&row.inode));
        let all: Vec<(u64, SocketSample)> = own.map(|row| (row.inode, socket(row))).collect();
        let counted = |socket: &SocketSample| [socket.drops, 0];
        let now = |socket: &SocketSample| [socket.drops, socket.receive_queue_bytes];
        let (listed, beyond) = self.busiest.choose(all, LISTED_MAX, counted, now);
        self.files.sockets_beyond = beyond;
        Ok(listed.into_iter().map(|(_, socket)| socket).collect())
    }

    /// The state of the search through the open files.
    pub(super) fn files(&self) -> FilesSample {
        self.files
    }
}

fn socket(row: &SocketRow) -> SocketSample {
    let (port, inode, receive_queue_bytes) = (row.port, row.inode, row.receive_queue_bytes);
    SocketSample { port, inode, receive_queue_bytes, drops: row.drops.unwrap_or(0) }
}

/// The inodes of the process's open sockets, and the number of files that were not examined.
fn inodes(root: &Root, pid: u32) -> Result<(BTreeSet<u64>, usize), Refusal> {
    let folder = format!("/proc/{pid}/fd");
    let files = root.entries(&folder)?;
    let inode = |link: &str| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    // If a file was closed meanwhile, it is skipped.
    let links = files.iter().take(FILES_MAX).filter_map(|file| root.link(&format!("{folder}/{file}")).ok());
    Ok((links.filter_map(|link| inode(&link)).collect(), files.len().saturating_sub(FILES_MAX)))
}

/// The state of a TCP socket that listens (`TCP_LISTEN`).
const LISTENS: u8 = 10;

/// Whether other programs can begin to send to the process: it has a UDP socket with a port, or a TCP socket that listens.
pub(super) fn is_served(root: &Root, pid: u32, tables: &mut Tables) -> bool {
    let Ok((inodes, _)) = inodes(root, pid) else { return false };
    if inodes.is_empty() {
        return false;
    }
    let has = |rows: &[SocketRow]| rows.iter().any(|row| inodes.contains(&row.inode));
    if tables.rows(root, pid).is_ok_and(|rows| has(&rows)) {
        return true;
    }
    let tcp = ["tcp", "tcp6"].map(|table| root.text(&format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    tcp.iter().any(|text| parse_sockets(text).any(|row| row.state == LISTENS && inodes.contains(&row.inode)))
}

impl Tables {
    fn rows(&mut self, root: &Root, pid: u32) -> Counted<Vec<SocketRow>> {
        // If the user may not read the namespace's number, the table is cached by process.
        let namespace = root.link(&format!("/proc/{pid}/ns/net")).unwrap_or_else(|_| pid.to_string());
        let read = || {
            let udp = root.text(&format!("/proc/{pid}/net/udp")).map_err(|refusal| refused(&refusal))?;
            // A kernel without IPv6 does not have this table.
            let udp6 = root.text(&format!("/proc/{pid}/net/udp6")).unwrap_or_default();
            Ok(parse_sockets(&udp).chain(parse_sockets(&udp6)).filter(|row| row.inode > 0).collect())
        };
        self.rows.entry(namespace).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_with_most_drops_are_listed_and_the_others_counted() {
        // Socket 4 dropped 900 datagrams before evenkeel saw it, and socket 70 drops some now.
        let host = |drops_now: u64| {
            let drops = |at: u64| {
                if at == 4 {
                    900
                } else if at == 70 {
                    drops_now
                } else {
                    0
                }
            };
            let row = |at: u64| {
                format!(" {at}: 0100007F:{at:04X} 00000000:0000 07 0:0 00:0 0 0 0 {} 2 0 {}\n", 100 + at, drops(at))
            };
            let udp = format!("head\n{}", (1..=70).map(row).collect::<String>());
            let mut capture = Root::from(BTreeMap::from([("/proc/7/net/udp".to_owned(), udp)])).capture();
            let names: Vec<String> = (1..=70).map(|at: u64| at.to_string()).collect();
            for name in &names {
                let inode = 100 + name.parse::<u64>().unwrap();
                capture.saw_link(&format!("/proc/7/fd/{name}"), Ok(format!("socket:[{inode}]")));
            }
            capture.saw_entries("/proc/7/fd", Ok(names));
            Root::captured(capture)
        };
        let mut open = OpenSockets::default();
        let mut inodes = |drops_now: u64| {
            let listed = open.read(&host(drops_now), 7, &mut Tables::default(), 0).unwrap();
            let inodes: Vec<u64> = listed.iter().map(|socket| socket.inode).collect();
            (inodes[0], inodes.len(), open.files().sockets_beyond)
        };
        assert_eq!(inodes(0), (104, LISTED_MAX, 6));
        assert_eq!(inodes(5), (170, LISTED_MAX, 6), "it drops now");
    }
}
