//! The Kubernetes cluster that commands work on, where the program has its client.

#[cfg(feature = "kubernetes")]
use std::path::Path;

use crate::exit;
use crate::failure::Failure;

/// What this program cannot do, because its client for Kubernetes was left out.
#[cfg(not(feature = "kubernetes"))]
pub(crate) fn without_kubernetes(tried: &str) -> Failure {
    let cause = "this program was built without Kubernetes, whose client would make it a third larger";
    Failure::text(exit::NOT_POSSIBLE, tried, cause)
        .hint("use the container image, or build it: cargo build --release -p evenkeel --features kubernetes")
}

/// The cluster of a file of credentials, of this pod, or of `$KUBECONFIG`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn connect(file: Option<&Path>) -> Result<evenkeel_fleet::kubernetes::Client, Failure> {
    let client = evenkeel_fleet::kubernetes::connect(file).await;
    client.map_err(|error| {
        Failure::text(exit::WRONG_USE, "find the cluster", evenkeel_fleet::kubernetes::why(&error))
            .hint("name its file with --kubeconfig, or set KUBECONFIG")
    })
}
