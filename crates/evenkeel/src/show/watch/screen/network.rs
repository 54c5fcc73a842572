//! The network tab: UDP, interfaces, queues of packets, and the sockets of servers.

use evenkeel_watch::Measured;
use ratatui::text::{Line, Span};

use super::parts::{known, row, title, why};
use super::view::View;
use crate::show::units::bytes;
use crate::show::watch::words::{number, per_s, sockets_left_out, value};

pub(super) fn lines(view: &View<'_>) -> Vec<Line<'static>> {
    let (host, palette) = (&view.model.host, view.palette);
    let rate = |label: &str, rate: &Measured<f64>| known(palette, label, rate, |rate| per_s(*rate));
    let mut lines = vec![
        title(palette, "UDP"),
        known(palette, "datagrams", &host.udp.in_per_s, |received| {
            format!("{} in, {} out", per_s(*received), value(&host.udp.out_per_s, |rate| per_s(*rate)))
        }),
        rate("full buffers", &host.udp.receive_buffer_errors_per_s),
        rate("errors", &host.udp.in_errors_per_s),
        rate("no port", &host.udp.no_ports_per_s),
        title(palette, "queues of packets"),
        rate("packets", &host.softnet.processed_per_s),
        rate("backlog drops", &host.softnet.dropped_per_s),
        rate("squeezes", &host.softnet.squeezed_per_s),
        title(palette, "interfaces"),
    ];
    match &host.interfaces {
        Measured::Unknown(unknown) => lines.push(row("", why(palette, unknown))),
        Measured::Known(interfaces) => {
            for one in interfaces {
                let of = |rate: &Measured<f64>| value(rate, |rate| number(*rate));
                let size = |rate: &Measured<f64>| value(rate, |rate| format!("{}/s", bytes(*rate as u64)));
                lines.push(known(palette, &one.name, &one.rx_packets_per_s, |received| {
                    format!(
                        "in {} {}, out {} {}, drops {}+{}",
                        per_s(*received),
                        size(&one.rx_bytes_per_s),
                        value(&one.tx_packets_per_s, |rate| per_s(*rate)),
                        size(&one.tx_bytes_per_s),
                        of(&one.rx_drops_per_s),
                        of(&one.tx_drops_per_s)
                    )
                }));
                for (name, rate) in &one.allowances_per_s {
                    lines.push(known(palette, "", rate, |rate| format!("{} {name}", per_s(*rate))));
                }
            }
            if host.interfaces_beyond > 0 {
                let text = format!("{} more, with fewer drops and packets", host.interfaces_beyond);
                lines.push(row("", Span::styled(text, palette.warn())));
            }
        }
    }
    lines.push(title(palette, "sockets of servers"));
    for server in &view.model.servers {
        lines.push(known(palette, &server.name, &server.udp, |udp| {
            let ports: Vec<String> = udp.ports.iter().take(8).map(u16::to_string).collect();
            let drops = value(&udp.drops_per_s, |rate| per_s(*rate));
            format!("ports {}: {} queued, {drops} dropped", ports.join(" "), bytes(udp.receive_queue_bytes))
        }));
        if let Some(left_out) = server.udp.known().and_then(sockets_left_out) {
            lines.push(row("", Span::styled(left_out, palette.warn())));
        }
    }
    lines
}
