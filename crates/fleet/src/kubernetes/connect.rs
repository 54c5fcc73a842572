//! Makes a client from credentials.

use std::path::Path;
use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};

/// How long it may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the API server may be silent in a watch. It ends a watch after 290 s.
const WATCH_SILENCE_MAX: Duration = Duration::from_secs(330);
/// How long the API server may be silent before it answers a request about many objects. By default, it gives up after 60 s.
const LIST_SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long the API server may be silent before it answers a request about one object.
const SINGLE_SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a client is for. Without a limit, a request waits for ever for an answer that the network has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Watches.
    Watches,
    /// Requests about many objects.
    Lists,
    /// Requests about one object, each of which is tried once. The client of Kubernetes would repeat a request that the server refuses for now for
    /// up to three minutes, and an agent looks after its host only between its requests.
    Single,
}

/// The cluster in a file of credentials; without a file, the cluster of this pod or of `$KUBECONFIG`.
///
/// # Errors
/// If there are no credentials, or they cannot be read. Only the first request shows whether the server answers.
pub async fn connect(file: Option<&Path>, requests: Requests) -> Result<Client, Error> {
    let config = match file {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|error| Error::Service(Box::new(error)))?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.map_err(|error| Error::Service(Box::new(error)))?
        }
        None => Config::infer().await.map_err(Error::InferConfig)?,
    };
    Client::try_from(limited(config, requests))
}

fn limited(mut config: Config, requests: Requests) -> Config {
    let silence_max = match requests {
        Requests::Watches => WATCH_SILENCE_MAX,
        Requests::Lists => LIST_SILENCE_MAX,
        Requests::Single => SINGLE_SILENCE_MAX,
    };
    config.connect_timeout = Some(CONNECT_MAX);
    config.read_timeout = Some(silence_max);
    config.write_timeout = Some(silence_max);
    // The time counts from the request, and not from the last answer on the same connection.
    config.reset_reader_on_write = true;
    config.default_retry = requests != Requests::Single;
    config
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use kube::api::ListParams;

    use super::super::fake_server::FakeServer;
    use super::*;

    fn list(config: Config) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listed = runtime.block_on(async {
            let nodes = Api::<Node>::all(Client::try_from(config).unwrap());
            // The bound only catches a hang.
            tokio::time::timeout(Duration::from_secs(60), nodes.list(&ListParams::default())).await
        });
        listed.expect("the request hangs").map(drop)
    }

    #[test]
    fn a_request_that_gets_no_answer_ends() {
        // The kernel accepts the connection, and nobody answers: as if the network had lost it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config::new(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap());
        for requests in [Requests::Watches, Requests::Lists, Requests::Single] {
            assert!(limited(config.clone(), requests).read_timeout.is_some());
        }
        let mut limited = limited(config, Requests::Single);
        limited.read_timeout = Some(Duration::from_millis(100));
        let error = list(limited).unwrap_err();
        assert!(!matches!(error, Error::Api(_)), "{error}");
    }

    #[test]
    fn an_eviction_that_a_disruption_budget_refuses_for_now_is_asked_for_once_a_pass() {
        let server = FakeServer::start();
        server.with(|store| store.is_busy = true);
        let error = list(limited(server.config(), Requests::Single)).unwrap_err();
        assert!(matches!(&error, Error::Api(status) if status.code == 429), "{error}");
        assert_eq!(server.with(|store| store.requests.len()), 1);
    }
}
