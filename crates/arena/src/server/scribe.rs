//! Writes the record of a match to a file. A separate thread writes whole pieces, so that the tick never waits for a disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::game::sim::SimConfig;
use crate::record::Recorder;
use crate::room::{Act, Room};
use crate::server::config::ServerError;

const PIECE_BYTES: usize = 64 * 1024;
/// The maximum number of pieces on their way to the disk: seconds of a match with 64 players.
const PIECES: usize = 16;

/// The recorder of a running match, and its way to the file.
#[derive(Debug)]
pub(super) struct Scribe {
    path: PathBuf,
    recorder: Recorder,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    is_behind: bool,
}

impl Scribe {
    pub(super) fn begin(path: &Path, config: SimConfig) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Record { path: path.to_owned(), source };
        let mut file = File::create(path).map_err(failed)?;
        let (full, written) = sync_channel::<Vec<u8>>(PIECES);
        let (back, empty) = sync_channel(PIECES);
        for _ in 0..PIECES {
            let _ = back.try_send(Vec::with_capacity(2 * PIECE_BYTES));
        }
        let body = move || {
            for piece in written {
                file.write_all(&piece)?;
                // At the end no thread takes empty pieces any more.
                let _ = back.try_send(piece);
            }
            file.flush()
        };
        let thread = thread::Builder::new().name("record".into()).spawn(body).map_err(failed)?;
        Ok(Self { path: path.to_owned(), recorder: Recorder::new(config), full, empty, thread, is_behind: false })
    }

    /// Records an act that is about to happen. Returns false if the act cannot be recorded. Then the act must not happen.
    pub(super) fn act(&mut self, act: &Act) -> bool {
        self.is_behind || self.recorder.act(act)
    }

    /// Ends the tick.
    /// If the disk is so far behind that the server would have to wait, the record ends here, and the final error reports that it is incomplete.
    pub(super) fn tick(&mut self, room: &Room, due_us: u32) {
        if self.is_behind {
            return;
        }
        self.recorder.tick(room, due_us);
        if self.recorder.held() >= PIECE_BYTES {
            match self.empty.try_recv() {
                Ok(mut piece) => {
                    self.recorder.take(&mut piece);
                    self.is_behind = self.full.try_send(piece).is_err();
                }
                Err(_) => self.is_behind = true,
            }
        }
    }

    /// Writes the rest, and waits until it is written.
    pub(super) fn end(mut self) -> Result<(), ServerError> {
        let failed = |source| ServerError::Record { path: self.path.clone(), source };
        let mut rest = Vec::new();
        self.recorder.take(&mut rest);
        // Waiting for space is allowed now, because no tick waits for this any more.
        let sent = self.full.send(rest);
        drop(self.full);
        let written = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes panicked")));
        written.map_err(failed)?;
        match (self.is_behind, sent) {
            (false, Ok(())) => Ok(()),
            _ => Err(failed(io::Error::other("the disk could not keep up; the record ends early"))),
        }
    }
}
