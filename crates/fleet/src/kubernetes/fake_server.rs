//! An API server for tests, on loopback. It stores goals, states and nodes, and compares the versions of objects as the real one does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use kube::{Client, Config};
use serde_json::{Value, json};

pub(super) const GOALS: &str = "/apis/evenkeel.dev/v1alpha1/hostgoals";
pub(super) const STATES: &str = "/apis/evenkeel.dev/v1alpha1/hoststates";
pub(super) const NODES: &str = "/api/v1/nodes";
/// The kind of the objects at each path.
const KINDS: [(&str, &str, &str); 3] = [
    (GOALS, "evenkeel.dev/v1alpha1", "HostGoal"),
    (STATES, "evenkeel.dev/v1alpha1", "HostState"),
    (NODES, "v1", "Node"),
];

/// Called before a request changes something, with the method and the path: another program writes first.
type BeforeWrite = Box<dyn FnMut(&mut Store, &str, &str) + Send>;

#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    before_write: Option<BeforeWrite>,
    /// Each request, as its method and path.
    pub(super) requests: Vec<String>,
    /// Whether every request is refused for now.
    pub(super) is_busy: bool,
    /// Answers to `GET` of other paths.
    pub(super) pages: BTreeMap<String, Value>,
}

/// A running server. It ends with the test's process.
#[derive(Clone)]
pub(super) struct FakeServer {
    address: SocketAddr,
    store: Arc<Mutex<Store>>,
}

impl FakeServer {
    pub(super) fn start() -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = FakeServer { address: listener.local_addr().unwrap(), store: Arc::default() };
        let store = Arc::clone(&server.store);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = Arc::clone(&store);
                std::thread::spawn(move || serve(stream, &store));
            }
        });
        server
    }

    /// Runs this on a client of the server.
    pub(super) fn run<T>(&self, asks: impl AsyncFnOnce(Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { asks(Client::try_from(self.config()).unwrap()).await })
    }

    pub(super) fn config(&self) -> Config {
        Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        change(&mut self.store.lock().unwrap())
    }

    /// Before the next write to `path`, calls this once.
    pub(super) fn before_write(&self, path: &'static str, change: impl Fn(&mut Store) + Send + 'static) {
        let mut change = Some(change);
        self.with(|store| {
            store.before_write = Some(Box::new(move |store, _, written| {
                if written == path
                    && let Some(change) = change.take()
                {
                    change(store);
                }
            }));
        });
    }

    /// Before every write to `path`, calls this.
    pub(super) fn before_each_write(&self, path: &'static str, change: impl Fn(&mut Store) + Send + 'static) {
        self.with(|store| {
            store.before_write = Some(Box::new(move |store, _, written| {
                if written == path {
                    change(store);
                }
            }));
        });
    }
}

impl Store {
    /// Stores an object under a new version.
    pub(super) fn put(&mut self, collection: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.insert(format!("{collection}/{name}"), object);
    }

    /// Changes an object, as another program does.
    pub(super) fn merge(&mut self, path: &str, patch: &Value) {
        merge(self.objects.get_mut(path).unwrap(), patch);
        let object = self.objects[path].clone();
        self.put(path.rsplit_once('/').unwrap().0, object);
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.objects.remove(path);
    }

    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.objects.get(path)
    }

    fn answer(&mut self, method: &str, target: &str, body: &Value, is_apply: bool) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.requests.push(format!("{method} {path}"));
        if self.is_busy {
            return failure(429, "TooManyRequests");
        }
        if method != "GET"
            && let Some(mut before) = self.before_write.take()
        {
            before(self, method, path);
            self.before_write = Some(before);
        }
        match method {
            "GET" => self.read(path, query),
            "POST" => self.create(path, body),
            "PATCH" => self.patch(path, body, is_apply),
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    fn read(&self, path: &str, query: &str) -> (u16, Value) {
        if let Some(object) = self.objects.get(path).or_else(|| self.pages.get(path)) {
            return (200, object.clone());
        }
        let Some((_, version, kind)) = KINDS.iter().find(|(collection, ..)| *collection == path) else {
            return failure(404, "NotFound");
        };
        let only = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
        let prefix = format!("{path}/");
        let items = self.objects.iter().filter_map(|(path, object)| Some((path.strip_prefix(&prefix)?, object)));
        let items: Vec<&Value> =
            items.filter(|(name, _)| only.is_none_or(|only| only == *name)).map(|(_, object)| object).collect();
        let number = |name: &str| {
            let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.map(|value| value.parse::<usize>().unwrap())
        };
        let (begin, end) = (number("continue").unwrap_or(0), items.len());
        let end = number("limit").map_or(end, |limit| end.min(begin + limit));
        let next = if end < items.len() { end.to_string() } else { String::new() };
        let items = &items[begin..end];
        let metadata = json!({ "resourceVersion": self.version.to_string(), "continue": next });
        (200, json!({ "apiVersion": version, "kind": format!("{kind}List"), "metadata": metadata, "items": items }))
    }

    fn create(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let there = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
        if self.objects.contains_key(&there) {
            return failure(409, "AlreadyExists");
        }
        self.put(path, body.clone());
        (201, self.objects[&there].clone())
    }

    fn patch(&mut self, path: &str, body: &Value, is_apply: bool) -> (u16, Value) {
        let (path, is_status) = path.strip_suffix("/status").map_or((path, false), |path| (path, true));
        let Some(object) = self.objects.get(path) else { return failure(404, "NotFound") };
        let asked = &body["metadata"]["resourceVersion"];
        if !asked.is_null() && *asked != object["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        let mut after = object.clone();
        match (is_status, is_apply) {
            // One program manages the whole status.
            (true, true) => after["status"] = body["status"].clone(),
            (true, false) => merge(&mut after, &json!({ "status": body["status"] })),
            (false, _) => merge(&mut after, body),
        }
        if after != *object {
            self.put(path.rsplit_once('/').unwrap().0, after);
        }
        (200, self.objects[path].clone())
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let message = format!("the fake server: {reason}");
    (
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code }),
    )
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *object, patch) else {
        *object = patch.clone();
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert_with(|| json!({})), change);
        }
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, store: &Mutex<Store>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut length, mut is_apply) = (String::new(), 0, false);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            is_apply |= line.starts_with("content-type:") && line.contains("apply-patch");
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let words: Vec<&str> = first.split(' ').collect();
        let (code, answer) = store.lock().unwrap().answer(words[0], words[1], &body, is_apply);
        let answer = answer.to_string();
        let head =
            format!("HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        if writer.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}
