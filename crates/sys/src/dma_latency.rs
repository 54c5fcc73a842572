//! `DmaLatency`: limits how long CPUs may take to leave an idle state. The limit lasts as long as a process holds it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use crate::errno::Errno;

/// The device that limits the idle exit latency while a process holds the device open.
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// A limit on idle exit latency. The limit ends when this value is dropped.
#[derive(Debug)]
pub struct DmaLatency {
    device: File,
}

impl DmaLatency {
    /// Holds a limit of `us` microseconds.
    ///
    /// # Errors
    /// The kernel's error: it needs root and an idle driver.
    pub fn hold_us(us: i32) -> Result<DmaLatency, Errno> {
        let mut device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| Errno::from(&error))?;
        device.write_all(&us.to_ne_bytes()).map_err(|error| Errno::from(&error))?;
        Ok(DmaLatency { device })
    }

    /// The active limit, in microseconds. It is the smallest limit that any process holds.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn in_force_us(&mut self) -> Result<i32, Errno> {
        let mut bytes = [0; 4];
        self.device.read_exact(&mut bytes).map_err(|error| Errno::from(&error))?;
        Ok(i32::from_ne_bytes(bytes))
    }
}
