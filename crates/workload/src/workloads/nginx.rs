//! nginx under evenkeel's own load: small files over persistent connections, with one worker and without logs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::entry::{Entry, number};
use crate::kit::serving::{METRICS, Preset, Serving};
use crate::load::{COMMON, Dataset, Http, Settings, Sizes};

const INSTALL: &str = "apt-get install --no-install-recommends nginx-light";
/// The maximum number of files. All files are written to a temporary folder.
const FILES_MAX: u32 = 10_000;

/// The registry entry of nginx.
pub(super) const ENTRY: Entry = Entry {
    name: "nginx",
    title: "nginx on loopback, small files over HTTP/1.1, with a load of its own in an open or a closed loop",
    install: Some(INSTALL),
    settings: &[
        COMMON[0],
        COMMON[1],
        COMMON[4],
        ("files=100", "files, 1 to 10000"),
        ("file-bytes=600", "length of a file: a number, a range such as 100-10000, or etc; 0 to 524288"),
    ],
    metrics: &[METRICS],
    start: |options| {
        let mut load = Settings { get_percent: 100, value_sizes: Sizes::Fixed(600), ..Settings::usual(options)? };
        let mut files = 100;
        load.take_all(&ENTRY, options, &mut |name, value| {
            (name == "files").then(|| number(name, value, 1..=FILES_MAX).map(|wanted| files = wanted))
        })?;
        load.keys = files;
        let data = load.dataset()?;
        let content = format!("{files} files of {} ({})", load.value_sizes, load.popularity);
        let contents = Arc::clone(&data);
        Ok(Box::new(Serving::start(Preset {
            name: "nginx",
            program: "nginx",
            version: "-v",
            install: INSTALL,
            arguments: Box::new(move |folder, address| arguments(folder, address, &contents)),
            protocol: Arc::new(Http { data }),
            load,
            content,
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};

fn arguments(folder: &Path, address: SocketAddr, files: &Dataset) -> std::io::Result<Vec<String>> {
    let site = folder.join("site");
    std::fs::create_dir(&site)?;
    for file in 0..files.keys() {
        let mut name = Vec::new();
        files.push_key(file, &mut name);
        std::fs::write(site.join(String::from_utf8_lossy(&name).as_ref()), files.value(file))?;
    }
    let path = folder.display();
    // Use a single process, which ends on request and together with this process. A worker would outlive a master that is killed.
    let config = format!(
        "daemon off;
master_process off;
worker_processes 1;
pid {path}/pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {path}/body;
  proxy_temp_path {path}/proxy;
  fastcgi_temp_path {path}/fastcgi;
  uwsgi_temp_path {path}/uwsgi;
  scgi_temp_path {path}/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 1d;
  sendfile on;
  tcp_nodelay on;
  default_type application/octet-stream;
  open_file_cache max={FILES_MAX} inactive=1d;
  open_file_cache_valid 1d;
  server {{
    listen {address};
    root {path}/site;
  }}
}}
"
    );
    let config_path = folder.join("nginx.conf");
    std::fs::write(&config_path, config)?;
    let arguments =
        ["-e", "stderr", "-p", &path.to_string(), "-c", &config_path.display().to_string()].map(String::from);
    Ok(arguments.to_vec())
}
