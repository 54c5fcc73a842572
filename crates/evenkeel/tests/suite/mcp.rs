//! Tests `evenkeel mcp` from a client's side: the real process, with messages on standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::schemas;
use crate::support::Scene;

/// The time limit that detects a hang. No result depends on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client with its server.
struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    last_id: u64,
}

impl Client {
    fn start(mut command: Command) -> Client {
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (to, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        let (send, from) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let message = serde_json::from_str(&line.unwrap()).expect("every line is a message");
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Client { server, to, from, last_id: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// The whole response to a request.
    fn response(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.from.recv_timeout(PATIENCE).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let response = self.response(method, params);
        response.get("result").unwrap_or_else(|| panic!("{method}: {response}")).clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn initialize(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let answer = self.request("initialize", &params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    fn tools(&mut self) -> Vec<Value> {
        self.request("tools/list", &json!({}))["tools"].as_array().unwrap().clone()
    }

    /// Closes standard input, and waits until the server has ended.
    fn close(mut self) -> (Option<i32>, String) {
        drop(self.to.take());
        assert_eq!(self.from.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "nothing is left to say");
        let output = self.server.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn session(scene: &Scene, line: &str) -> Client {
    let mut client = Client::start(scene.command(line));
    let server = client.initialize();
    assert_eq!(server["serverInfo"]["name"], "evenkeel", "{server}");
    assert!(server["capabilities"]["tools"].is_object(), "{server}");
    client
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_client_lists_the_tools_and_calls_them() {
    let scene = Scene::new();
    let mut client = session(&scene, "mcp --host host.txt --state state");
    let tools = client.tools();
    assert_eq!(names(&tools), ["inspect", "audit", "explain", "guide", "verify", "history", "report"]);
    for (name, arguments) in [
        ("inspect", json!({ "counters": true })),
        ("audit", json!({ "goal": "density" })),
        ("explain", json!({ "knob": "vm.swappiness" })),
        ("guide", json!({ "text": "vm.swappiness = 1\nnet.core.busy_poll = 50\n" })),
        ("guide", json!({ "name": "tuned:network-latency", "goal": "latency" })),
        ("verify", json!({})),
        ("history", json!({})),
    ] {
        let result = client.call(name, &arguments);
        assert_eq!(result["isError"], false, "{name}: {result}");
        let answer = &result["structuredContent"];
        schemas::check_as(name, answer);
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
        let of = |schema: &Value| -> Validator { jsonschema::validator_for(schema).unwrap() };
        assert!(of(&tool["outputSchema"]).is_valid(answer), "{name}: {answer}");
        assert!(of(&tool["inputSchema"]).is_valid(&arguments), "{name}");
        assert_eq!(serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(), *answer);
    }
    let command = scene.json("audit --goal density --host host.txt").1;
    assert_eq!(
        client.call("audit", &json!({ "goal": "density" }))["structuredContent"],
        command,
        "the command's answer"
    );
    assert_eq!(client.close(), (Some(0), String::new()));
}

#[test]
fn an_error_of_a_command_is_one_of_the_tool() {
    let scene = Scene::new();
    let mut client = session(&scene, "mcp --host host.txt --state state");
    let unknown = client.call("explain", &json!({ "knob": "vm.swapiness" }));
    assert_eq!((&unknown["isError"], &unknown["structuredContent"]["error"]["exit_code"]), (&true.into(), &2.into()));
    schemas::check_as("error", &unknown["structuredContent"]);
    let none = client.call("report", &json!({ "file": "no-such.jsonl" }));
    assert_eq!(none["isError"], true, "{none}");
    for (params, expected) in [
        (json!({ "name": "apply", "arguments": { "settings": ["vm.swappiness=1"] } }), "unknown tool \"apply\""),
        (json!({ "name": "measure", "arguments": { "meter": "gaps" } }), "unknown tool \"measure\""),
        (
            json!({ "name": "explain", "arguments": { "knob": "--help" } }),
            "explain: knob must not be empty or begin with `-`",
        ),
        (json!({ "name": "explain", "arguments": {} }), "explain: missing field `knob`"),
        (json!({ "name": "guide", "arguments": {} }), "guide: pass either text or name"),
        (json!({ "name": "audit", "arguments": { "goal": "speed" } }), "audit: unknown variant `speed`"),
        (json!({ "name": "inspect", "arguments": { "host": "/etc/shadow" } }), "inspect: unknown field `host`"),
    ] {
        let response = client.response("tools/call", &params);
        assert_eq!(response["error"]["code"], -32602, "{params}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().starts_with(expected), "{params}: {response}");
    }
    let response = client.response("no/such/method", &json!({}));
    assert_eq!(response["error"]["code"], -32601, "{response}");
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn garbage_and_messages_that_are_too_long_end_no_session() {
    let scene = Scene::new();
    let mut client = session(&scene, "mcp --host host.txt --state state");
    for garbage in
        [&b"\n"[..], b"{", b"\xff\xfe\0\n", b"[]\n", b"null\n", b"{\"jsonrpc\":\"2.0\"}\n", b"{\"id\":{}}\n", b"7\n"]
    {
        client.write(garbage);
    }
    client.write(b"\n");
    client.write(("[".repeat(200_000) + "\n").as_bytes());
    let too_long = json!({ "jsonrpc": "2.0", "id": 999, "method": "tools/call",
        "params": { "name": "explain", "arguments": { "knob": "x".repeat(3 << 20) } } });
    client.send(&too_long);
    let result = client.call("explain", &json!({ "knob": "vm.swappiness" }));
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn a_client_that_goes_away_ends_the_server() {
    let scene = Scene::new();
    for bytes in [&b""[..], b"{\"jsonrpc\"", b"garbage\n"] {
        let mut client = Client::start(scene.command("mcp --host host.txt"));
        client.write(bytes);
        assert_eq!(client.close(), (Some(0), String::new()), "{bytes:?}");
    }
    let client = session(&scene, "mcp --host host.txt");
    assert_eq!(client.close(), (Some(0), String::new()));
    let mut client = session(&scene, "mcp --host host.txt");
    client.send(
        &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "audit", "arguments": {} } }),
    );
    drop(client.to.take());
    assert_eq!(client.server.wait().unwrap().code(), Some(0), "also while a command runs");
}

#[test]
fn only_a_running_machine_is_measured_and_changed() {
    let scene = Scene::new();
    let mut client = session(&scene, "mcp --state state");
    assert_eq!(
        names(&client.tools()),
        ["inspect", "audit", "explain", "guide", "verify", "history", "report", "measure"]
    );
    let result = client.call("measure", &json!({ "meter": "rates", "seconds": 1 }));
    assert_eq!(result["isError"], false, "{result}");
    schemas::check_as("measure-rates", &result["structuredContent"]);
    assert_eq!(client.close().0, Some(0));
    let seen = scene.run("mcp --allow-changes --host host.txt");
    assert_eq!(seen.code, 2, "{seen}");
    let seen = scene.run("mcp --host no-such.txt");
    assert_eq!(seen.code, 2, "{seen}");
}

#[test]
fn a_change_is_applied_for_a_time_confirmed_and_reverted() {
    let Some(live) = crate::live_host::Live::take() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["mcp", "--allow-changes", "--state"]).arg(live.state());
    let mut client = Client::start(command);
    client.initialize();
    let tools = client.tools();
    assert_eq!(names(&tools)[8..], ["apply", "revert", "confirm"]);
    assert!(tools[8..].iter().all(|tool| tool["annotations"]["readOnlyHint"] == false));
    let setting = format!("vm.swappiness={}", live.other());
    let applied = client.call("apply", &json!({ "settings": [setting] }));
    assert_eq!(applied["isError"], false, "{applied}");
    let applied = &applied["structuredContent"];
    schemas::check_as("apply", applied);
    assert_eq!(applied["transaction"]["unconfirmed_seconds"], 60, "{applied}");
    assert_eq!(live.now().trim(), live.other());
    let confirmed = client.call("confirm", &json!({}));
    assert_eq!(confirmed["structuredContent"]["confirmed"], json!([applied["transaction"]["id"]]), "{confirmed}");
    let reverted = client.call("revert", &json!({}));
    assert_eq!(reverted["structuredContent"]["all_undone"], true, "{reverted}");
    assert_eq!(live.now(), live.before);
    assert_eq!(client.close().0, Some(0));
}
