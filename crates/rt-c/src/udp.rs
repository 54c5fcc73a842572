//! A server's socket: many packets a call.

use std::ffi::{c_char, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_rt::udp::{BufferNeed, Choice, NotQueued, Stamps, Traffic, Udp, UdpError, UdpSettings, Undelivered, Way};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};
use crate::text;

/// A server's socket.
#[derive(Debug)]
pub struct EvenkeelUdp(());

handles! { 12: EvenkeelUdp, 256 of Mutex<Udp>; }

/// A number that the kernel does not tell.
pub const EVENKEEL_UNKNOWN: u64 = 0x7fff_ffff_ffff_ffff;

/// How packets go between the server and the kernel: EvenkeelUdpSettings.receive and send, and EvenkeelUdpReport.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelWay {
    /// The one that was never behind where it was measured.
    Usual = 0,
    /// The one that takes the least CPU time a packet here and now: tried for up to 0.1 s on loopback.
    Measured = 1,
    /// A call for each packet.
    One = 2,
    /// Up to 64 packets a call.
    Batched = 3,
    /// As batched, and several packets of one peer as one (UDP_GRO, UDP_SEGMENT).
    Offloaded = 4,
    /// Receiving by one standing request of io_uring, where the library was built with it.
    Uring = 5,
}

/// What a server asks of its socket. All zero (EVENKEEL_INIT): any port of every interface, and what suits 64 players.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpSettings {
    /// Of this struct, in bytes.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The address to receive on, such as `0.0.0.0:7777` or `[::]:7777`. Null: any port of every interface, version 4.
    pub address: *const c_char,
    /// The way to receive: one of EvenkeelWay. One that is refused gives way to the next plainer one.
    pub receive: u32,
    /// The way to send: one of EvenkeelWay.
    pub send: u32,
    /// The longest datagram, in bytes, up to 65,527. 0: 1,500.
    pub bytes_max: u32,
    /// The most packets that wait to be sent, up to 65,536. 0: 512.
    pub queue_packets: u32,
    /// What the receive buffer has to hold: players, or whoever else sends. 0: leave it as the system has it.
    pub players: u32,
    /// Packets a second of each of them. Needed beside players.
    pub packets_a_second: u32,
    /// Bytes of each packet. Needed beside players.
    pub packet_bytes: u32,
    /// The longest time between two calls that receive, in milliseconds: the tick, and what it may be late. Needed beside players.
    pub drain_interval_ms: u32,
    /// Not 0: the kernel tells how long each packet waited.
    pub stamps: u32,
    /// Not 0: packets that the network did not deliver are counted.
    pub hears_undelivered: u32,
    /// How long a call that finds nothing asks the device for packets, in microseconds. 0: do not ask for it.
    pub busy_poll_us: u32,
    /// 0.
    pub reserved: u32,
}

/// Where a packet comes from or goes to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelAddress {
    /// Of this struct, in bytes.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// In the order of the network; of version 4 the first four bytes.
    pub ip: [u8; 16],
    /// 1 to 65,535.
    pub port: u32,
    /// 1: version 6; 0: version 4.
    pub is_ipv6: u32,
    /// Of version 6, for link-local addresses: the interface's number.
    pub scope_id: u32,
    /// 0.
    pub reserved: u32,
}

/// A packet that was received; what it points to stays until the function that it was given to comes back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelPacket {
    /// Of this struct, in bytes.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Who says to have sent it.
    pub from: EvenkeelAddress,
    /// What it says.
    pub bytes: *const u8,
    /// How many bytes.
    pub bytes_count: usize,
    /// How long it waited in the kernel, in nanoseconds; EVENKEEL_UNKNOWN unless the settings ask for stamps.
    pub waited_ns: u64,
    /// 1: it was longer than bytes_max, and the rest is cut off.
    pub is_truncated: u32,
    /// 0.
    pub reserved: u32,
}

/// Gets each packet that was received. It must come back: no exception and no longjmp may leave it. The socket is in a call meanwhile, so
/// answers are sent afterwards.
pub type EvenkeelOnPacket = Option<unsafe extern "C" fn(packet: *const EvenkeelPacket, context: *mut c_void)>;

/// What one call has received.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelReceived {
    /// Of this struct, in bytes; after a call, as many as were filled.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Packets.
    pub packets: u64,
    /// Their bytes, without headers.
    pub bytes: u64,
    /// How many of them were cut off.
    pub truncated: u64,
    /// Errors of the network or the kernel that came between them.
    pub errors: u32,
    /// 1: the bound was reached, and more may wait.
    pub is_bound_reached: u32,
}

/// What became of the packets that were queued.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelFlushed {
    /// Of this struct, in bytes; after a call, as many as were filled.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The kernel took so many.
    pub sent: u64,
    /// It refused so many, which are gone.
    pub refused: u64,
    /// It had no room for so many, which stay queued.
    pub waiting: u64,
}

/// What a socket is, and what went over it since the start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpReport {
    /// Of this struct, in bytes; after a call, as many as were filled.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The port that it receives on.
    pub port: u32,
    /// The way that packets come: One, Batched, Offloaded or Uring of EvenkeelWay.
    pub receive_way: u32,
    /// The way that packets go.
    pub send_way: u32,
    /// 0.
    pub reserved: u32,
    /// What the receive buffer needs for the players that were told, in bytes; EVENKEEL_UNKNOWN where none were.
    pub buffer_needed_bytes: u64,
    /// What it has, in bytes; EVENKEEL_UNKNOWN where that could not be read, or no players were told.
    pub buffer_got_bytes: u64,
    /// Packets that came.
    pub packets_in: u64,
    /// Packets that the kernel took.
    pub packets_out: u64,
    /// Packets that the socket had no room for; EVENKEEL_UNKNOWN where the kernel does not tell.
    pub dropped: u64,
    /// Packets that the kernel refused to send.
    pub refused: u64,
}

structs! {
    EvenkeelUdpSettings {
        address: *const c_char, receive: u32, send: u32, bytes_max: u32, queue_packets: u32, players: u32, packets_a_second: u32,
        packet_bytes: u32, drain_interval_ms: u32, stamps: u32, hears_undelivered: u32, busy_poll_us: u32, reserved: u32,
    }
    EvenkeelAddress { ip: [u8; 16], port: u32, is_ipv6: u32, scope_id: u32, reserved: u32 }
    EvenkeelPacket {
        from: EvenkeelAddress, bytes: *const u8, bytes_count: usize, waited_ns: u64, is_truncated: u32, reserved: u32,
    }
    EvenkeelReceived { packets: u64, bytes: u64, truncated: u64, errors: u32, is_bound_reached: u32 }
    EvenkeelFlushed { sent: u64, refused: u64, waiting: u64 }
    EvenkeelUdpReport {
        port: u32, receive_way: u32, send_way: u32, reserved: u32, buffer_needed_bytes: u64, buffer_got_bytes: u64,
        packets_in: u64, packets_out: u64, dropped: u64, refused: u64,
    }
}

impl From<UdpError> for Failure {
    fn from(error: UdpError) -> Failure {
        Failure::new(EvenkeelStatus::Refused, error)
    }
}

impl From<NotQueued> for Failure {
    fn from(error: NotQueued) -> Failure {
        let status = match error {
            NotQueued::TooLong => EvenkeelStatus::OutOfRange,
            NotQueued::Full => EvenkeelStatus::NoRoom,
        };
        Failure::new(status, error)
    }
}

fn choice(way: u32) -> Result<Choice, Failure> {
    Ok(match way {
        0 => Choice::Usual,
        1 => Choice::Measured,
        2 => Choice::Is(Way::One),
        3 => Choice::Is(Way::Batched),
        4 => Choice::Is(Way::Offloaded),
        5 => Choice::Is(Way::Uring),
        other => return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("no EvenkeelWay: {other}"))),
    })
}

fn way(way: Way) -> u32 {
    match way {
        Way::One => EvenkeelWay::One as u32,
        Way::Batched => EvenkeelWay::Batched as u32,
        Way::Offloaded => EvenkeelWay::Offloaded as u32,
        Way::Uring => EvenkeelWay::Uring as u32,
    }
}

fn settings(asked: EvenkeelUdpSettings, address: Option<SocketAddr>) -> Result<UdpSettings, Failure> {
    let within = |what: &str, number: u32, most: u32, default: usize| match number {
        0 => Ok(default),
        number if number <= most => Ok(number as usize),
        number => Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} {number}"))),
    };
    if asked.reserved != 0 {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    let defaults = UdpSettings::default();
    let needed = [asked.packets_a_second, asked.packet_bytes, asked.drain_interval_ms];
    let buffer = match asked.players {
        0 => None,
        _ if needed.contains(&0) => {
            let what = "players without packets_a_second, packet_bytes or drain_interval_ms";
            return Err(Failure::new(EvenkeelStatus::OutOfRange, what));
        }
        players => Some(BufferNeed {
            players,
            packets_a_second: asked.packets_a_second,
            bytes: asked.packet_bytes,
            drain_interval: Duration::from_millis(asked.drain_interval_ms.into()),
        }),
    };
    let short = |number: u32, default: u16| u16::try_from(number).ok().filter(|number| *number > 0).unwrap_or(default);
    let usual = Traffic::default();
    Ok(UdpSettings {
        address: address.unwrap_or(defaults.address),
        receive: choice(asked.receive)?,
        send: choice(asked.send)?,
        traffic: Traffic {
            peers: short(asked.players, usual.peers),
            bytes: short(asked.packet_bytes, usual.bytes),
            ..usual
        },
        bytes_max: within("bytes_max", asked.bytes_max, 65_527, defaults.bytes_max)?,
        queue_packets: within("queue_packets", asked.queue_packets, 65_536, defaults.queue_packets)?,
        buffer,
        stamps: if asked.stamps == 0 { Stamps::Off } else { Stamps::EachPacket },
        undelivered: if asked.hears_undelivered == 0 { Undelivered::Unheard } else { Undelivered::Told },
        busy_poll_us: (asked.busy_poll_us != 0).then_some(asked.busy_poll_us),
        ..defaults
    })
}

fn told(address: SocketAddr) -> EvenkeelAddress {
    let mut ip = [0; 16];
    let (is_ipv6, scope_id) = match address {
        SocketAddr::V4(v4) => {
            ip[..4].copy_from_slice(&v4.ip().octets());
            (0, 0)
        }
        SocketAddr::V6(v6) => {
            ip = v6.ip().octets();
            (1, v6.scope_id())
        }
    };
    let size = size_of::<EvenkeelAddress>() as u32;
    let version = crate::EVENKEEL_ABI_VERSION;
    EvenkeelAddress { size, version, ip, port: address.port().into(), is_ipv6, scope_id, reserved: 0 }
}

fn meant(address: EvenkeelAddress) -> Result<SocketAddr, Failure> {
    let wrong = |what: &str, number: u32| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} {number}"));
    let port = u16::try_from(address.port).ok().filter(|port| *port != 0).ok_or_else(|| wrong("port", address.port))?;
    let [a, b, c, d, ..] = address.ip;
    match address.is_ipv6 {
        0 => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)),
        1 => Ok(SocketAddrV6::new(Ipv6Addr::from(address.ip), port, 0, address.scope_id).into()),
        other => Err(wrong("is_ipv6", other)),
    }
}

/// Opens a socket. EVENKEEL_STATUS_REFUSED where the address can't be had.
///
/// Threads: any. Free it with evenkeel_udp_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init, whose text is null or ends with a zero; `udp` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_new(
    asked: *const EvenkeelUdpSettings,
    udp: *mut *mut EvenkeelUdp,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let asked = unsafe { structs::get(asked) }?;
        let address = if asked.address.is_null() {
            None
        } else {
            // SAFETY: the same.
            let text = unsafe { text::text(asked.address) }?;
            let address =
                text.parse().map_err(|_| Failure::new(EvenkeelStatus::BadText, format_args!("no address: {text}")))?;
            Some(address)
        };
        let settings = settings(asked, address)?;
        // SAFETY: the same.
        unsafe { handle::give(udp, || Ok(Mutex::new(Udp::open(settings)?))) }
    })
}

/// Works on the socket, alone.
fn on<R>(udp: *const EvenkeelUdp, work: impl FnOnce(&mut Udp) -> Result<R, Failure>) -> Result<R, Failure> {
    handle::alone(udp, |udp| work(udp.get_mut().unwrap_or_else(PoisonError::into_inner)))
}

/// Gives each packet that waits, up to `at_most`, to `each`. Never waits itself.
///
/// Threads: one at a time.
///
/// # Safety
/// `each` is null or a function that takes this context; `received` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_receive(
    udp: *mut EvenkeelUdp,
    at_most: usize,
    each: EvenkeelOnPacket,
    context: *mut c_void,
    received: *mut EvenkeelReceived,
) -> EvenkeelStatus {
    caught(|| {
        let each = each.ok_or(EvenkeelStatus::NullPointer)?;
        // SAFETY: as this function's caller promises. First, since packets can't be given back.
        unsafe { structs::fillable(received) }?;
        let counts = on(udp, |udp| {
            Ok(udp.receive_at_most(at_most, |packet| {
                let packet = EvenkeelPacket {
                    size: size_of::<EvenkeelPacket>() as u32,
                    version: crate::EVENKEEL_ABI_VERSION,
                    from: told(packet.from),
                    bytes: packet.bytes.as_ptr(),
                    bytes_count: packet.bytes.len(),
                    waited_ns: packet.waited_ns.unwrap_or(EVENKEEL_UNKNOWN),
                    is_truncated: packet.is_truncated.into(),
                    reserved: 0,
                };
                // SAFETY: as this function's caller promises; the packet stays until it comes back.
                unsafe { each(&raw const packet, context) };
            }))
        })?;
        let found = EvenkeelReceived {
            size: 0,
            version: 0,
            packets: counts.packets as u64,
            bytes: counts.bytes,
            truncated: counts.truncated as u64,
            errors: counts.errors,
            is_bound_reached: counts.is_bound_reached.into(),
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(received, found) }
    })
}

/// Queues a packet. EVENKEEL_STATUS_OUT_OF_RANGE where it is longer than bytes_max, EVENKEEL_STATUS_NO_ROOM where the queue is full and the
/// kernel takes no more now; it is then gone.
///
/// Threads: one at a time.
///
/// # Safety
/// `to` is null or points to a struct prepared by evenkeel_init; `bytes` is null or points to `bytes_count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_send(
    udp: *mut EvenkeelUdp,
    to: *const EvenkeelAddress,
    bytes: *const u8,
    bytes_count: usize,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let to = meant(unsafe { structs::get(to) }?)?;
        structs::puttable(bytes)?;
        if bytes_count > evenkeel_rt::udp::DATAGRAM_BYTES_MAX {
            return Err(NotQueued::TooLong.into());
        }
        // SAFETY: as this function's caller promises; it is not null.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, bytes_count) };
        on(udp, |udp| Ok(udp.send(to, bytes)?))
    })
}

/// Sends what is queued, as far as the kernel takes it. Never waits.
///
/// Threads: one at a time.
///
/// # Safety
/// `flushed` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_flush(udp: *mut EvenkeelUdp, flushed: *mut EvenkeelFlushed) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises. First, since packets can't be called back.
        unsafe { structs::fillable(flushed) }?;
        let done = on(udp, |udp| Ok(udp.flush()))?;
        let (sent, refused, waiting) = (done.sent as u64, done.refused as u64, done.waiting as u64);
        // SAFETY: the same.
        unsafe { structs::fill(flushed, EvenkeelFlushed { size: 0, version: 0, sent, refused, waiting }) }
    })
}

/// What the socket is, and what went over it.
///
/// Threads: one at a time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_report(udp: *mut EvenkeelUdp, report: *mut EvenkeelUdpReport) -> EvenkeelStatus {
    caught(|| {
        let found = on(udp, |udp| {
            let (received, sent) = (udp.received(), udp.sent());
            let known = udp.report();
            let buffer = known.buffer;
            Ok(EvenkeelUdpReport {
                size: 0,
                version: 0,
                port: udp.local_address().port().into(),
                receive_way: way(known.receive_way),
                send_way: way(known.send_way),
                reserved: 0,
                buffer_needed_bytes: buffer.map_or(EVENKEEL_UNKNOWN, |buffer| buffer.needed_bytes),
                buffer_got_bytes: buffer.and_then(|buffer| buffer.got_bytes).unwrap_or(EVENKEEL_UNKNOWN),
                packets_in: received.packets,
                packets_out: sent.packets,
                dropped: received.dropped.unwrap_or(EVENKEEL_UNKNOWN),
                refused: sent.refused,
            })
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, found) }
    })
}

/// Closes it.
///
/// Threads: any; EVENKEEL_STATUS_BUSY while another is in it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_udp_free(udp: *mut EvenkeelUdp) -> EvenkeelStatus {
    caught(|| handle::take(udp).map(drop))
}
