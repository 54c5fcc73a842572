//! Writes `HostState` objects and the releases in them; no other code does. Rollouts, trials and agents share these objects, and each writes
//! only its own part.

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;

use super::rollout::NodeInfo;
use super::state::{HostState, HostStateSpec, Release};

/// The states of all nodes.
pub(super) struct Releases(Api<HostState>);

impl Releases {
    pub(super) fn new(client: Client) -> Releases {
        Releases(Api::all(client))
    }

    pub(super) async fn list(&self) -> Result<Vec<HostState>, Error> {
        Ok(self.0.list(&ListParams::default()).await?.items)
    }

    /// Creates the state of a node that has none; it is deleted with the node. If it exists by now, it stays as it is.
    pub(super) async fn create(&self, node: &NodeInfo, released: Vec<Release>) -> Result<(), Error> {
        let mut state = HostState::new(&node.name, HostStateSpec { released });
        state.metadata.owner_references = node.owner.clone().map(|owner| vec![owner]);
        match self.0.create(&PostParams::default(), &state).await {
            Err(Error::Api(error)) if error.is_already_exists() => Ok(()),
            created => created.map(|_| ()),
        }
    }

    /// Replaces the releases of a node. If somebody changed its state since it was read, nothing is written, and the next pass sees the change.
    pub(super) async fn write(&self, state: &HostState, released: &[Release]) -> Result<(), Error> {
        let version = state.resource_version();
        let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "released": released } });
        match self.0.patch(&state.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Err(Error::Api(error)) if error.is_conflict() || error.is_not_found() => Ok(()),
            patched => patched.map(|_| ()),
        }
    }
}
