//! mosquitto, an MQTT broker, under evenkeel's own load: each connection publishes to itself at QoS 0.
//! The latency is the time from sending a message until the broker has returned the message.

use std::sync::Arc;

use crate::entry::Entry;
use crate::kit::serving::{METRICS, Preset, Serving};
use crate::load::{COMMON, Mqtt, Settings};

const INSTALL: &str = "apt-get install --no-install-recommends mosquitto";

/// The registry entry of mosquitto.
pub(super) const ENTRY: Entry = Entry {
    name: "mosquitto",
    title: "mosquitto on loopback: MQTT messages at QoS 0 there and back, in an open or a closed loop",
    install: Some(INSTALL),
    settings: &[
        COMMON[0],
        COMMON[1],
        ("message-bytes=100", "length of a message: a number, a range such as 100-1000, or etc; 0 to 524288"),
    ],
    metrics: &[METRICS],
    start: |options| {
        // Use a thousand different messages, so that the load detects an answer with the wrong message.
        let mut load = Settings { get_percent: 100, keys: 1000, ..Settings::usual(options)? };
        load.take_all(&ENTRY, options, &mut |_, _| None)?;
        let data = load.dataset()?;
        let content = format!("messages of {} at QoS 0, each back to its sender", load.value_sizes);
        Ok(Box::new(Serving::start(Preset {
            name: "mosquitto",
            program: "mosquitto",
            version: "-h",
            install: INSTALL,
            arguments: Box::new(|folder, address| {
                let (ip, port) = (address.ip(), address.port());
                // The last line is for root. Without that line, mosquitto would switch to another user, which cannot read the folder.
                let config = format!(
                    "listener {port} {ip}\nallow_anonymous true\npersistence false\nsys_interval 0\nlog_dest stderr\nlog_type error\nuser root\n"
                );
                let path = folder.join("mosquitto.conf");
                std::fs::write(&path, config)?;
                Ok(vec!["-c".to_owned(), path.display().to_string()])
            }),
            protocol: Arc::new(Mqtt { data }),
            load,
            content,
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};
