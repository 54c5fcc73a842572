//! Live checks of the arena: a planted effect in its windows, 64 bots for long, and a flood. They measure, and need a quiet machine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests: a panic is how a test says that it can't go on"
)]

mod attacker;
mod flood;
mod long;
mod planted;
#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "shared with the suite, which needs more of it")]
mod program;

use std::net::SocketAddr;

use evenkeel_arena::control::{ServerEvent, ServerWindow};
use program::Program;

const WINDOW: &str = r#"{"cmd":"window"}"#;

fn server(arguments: &[&str]) -> (Program, SocketAddr) {
    let server = Program::start(env!("CARGO_BIN_EXE_evenkeel-arena"), arguments);
    let ServerEvent::Ready { addr, .. } = server.next_line();
    (server, addr)
}

fn bots(addr: SocketAddr, arguments: &[&str]) -> Program {
    let connect = addr.to_string();
    let arguments = [&["--connect", &connect], arguments].concat();
    Program::start(env!("CARGO_BIN_EXE_evenkeel-bots"), &arguments)
}

fn window(server: &mut Program) -> ServerWindow {
    server.ask(WINDOW)
}
