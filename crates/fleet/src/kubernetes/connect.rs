//! Makes a client from credentials.

use std::path::Path;
use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};

/// How long the API server may take to answer a request that is not a watch.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The cluster in a file of credentials; without a file, the cluster of this pod or of `$KUBECONFIG`.
///
/// # Errors
/// If there are no credentials, or they cannot be read. Only the first request shows whether the server answers.
pub async fn connect(file: Option<&Path>) -> Result<Client, Error> {
    let mut config = match file {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|error| Error::Service(Box::new(error)))?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.map_err(|error| Error::Service(Box::new(error)))?
        }
        None => Config::infer().await.map_err(Error::InferConfig)?,
    };
    config.connect_timeout = Some(CONNECT_MAX);
    Client::try_from(config)
}
