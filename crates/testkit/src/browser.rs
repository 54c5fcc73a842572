//! A page in Chromium, driven by its DevTools protocol over pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::skip::skipped;
use crate::wait::wait_until;

/// The installed browser. Without a browser, the test is skipped visibly.
pub fn program() -> Option<PathBuf> {
    let found = std::env::var_os("PATH").and_then(|path| {
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        ["chromium", "chromium-browser", "google-chrome"]
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find(|program| program.exists())
    });
    if found.is_none() {
        skipped("Chromium is not installed (Debian: chromium)");
    }
    found
}

/// A browser with one page. Dropping this ends the browser.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    page: String,
    calls: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Panics
    /// If the browser does not start.
    pub fn open(program: &Path) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and answers on 4, which a shell can arrange without unsafe code.
        let line = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe \
                    --user-data-dir=\"$1\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", line])
            .arg(program)
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Browser { child, to, from, page: String::new(), calls: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.page);
        browser
    }

    /// Calls a method of the protocol for the page, and returns its result.
    ///
    /// # Panics
    /// If the browser reports an error, or ends.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.page.is_empty() {
            message["sessionId"] = self.page.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended");
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            // A message without the number of this call is an event.
            if answer["id"] == self.calls {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Panics
    /// If the expression stays false for a minute.
    pub fn wait_until(&mut self, expression: &str) {
        wait_until(expression, || self.evaluate(expression) == true);
    }

    /// Opens an address, in a window of this size, in light or dark colours.
    pub fn visit(&mut self, address: &str, width: u32, theme: &str) {
        let size = json!({"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call("Emulation.setEmulatedMedia", media);
        self.call("Page.navigate", json!({"url": address}));
    }

    /// Moves the pointer, or presses or releases its button.
    pub fn point(&mut self, kind: &str, x: f64, y: f64) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call("Input.dispatchMouseEvent", json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1}));
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\": 0, \"method\": \"Browser.close\"}\0");
        // Read what the browser still writes, so that it does not block on a full pipe.
        let mut rest = Vec::new();
        while self.from.read_until(0, &mut rest).is_ok_and(|read| read > 0) {
            rest.clear();
        }
        let _ = self.child.wait();
    }
}
