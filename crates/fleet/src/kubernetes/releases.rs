//! Writes `HostState` objects and the releases in them; no other code does.
//! Rollouts, trials and agents share these objects, and each writes only its own part.

use std::convert::identity;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;

use super::list::list;
use super::rollout::NodeInfo;
use super::state::{HostState, HostStateSpec, Release};

/// How often to retry a change while other programs change the same state.
const TRIES_MAX: usize = 5;

/// The states of all nodes.
pub(super) struct Releases(Api<HostState>);

impl Releases {
    pub(super) fn new(client: Client) -> Releases {
        Releases(Api::all(client))
    }

    pub(super) async fn list(&self) -> Result<Vec<HostState>, Error> {
        list(&self.0, identity).await
    }

    /// Creates the state of a node that has none. Kubernetes deletes the state together with the node.
    /// Returns whether it was created; a state that exists by now stays unchanged.
    pub(super) async fn create(&self, node: &NodeInfo, released: Vec<Release>) -> Result<bool, Error> {
        let mut state = HostState::new(&node.name, HostStateSpec { released });
        state.metadata.owner_references = node.owner.clone().map(|owner| vec![owner]);
        match self.0.create(&PostParams::default(), &state).await {
            Err(Error::Api(error)) if error.is_already_exists() => Ok(false),
            created => created.map(|_| true),
        }
    }

    /// Changes the releases of a node, and returns whether it wrote something.
    /// If the state changed since it was read, it is read again, because a lost release would be missing in its wave.
    /// If the state is gone or keeps changing, the next pass tries again.
    pub(super) async fn change(
        &self,
        state: &HostState,
        change: impl Fn(&[Release]) -> Vec<Release>,
    ) -> Result<bool, Error> {
        let mut state = state.clone();
        for _ in 0..TRIES_MAX {
            let released = change(&state.spec.released);
            if released == state.spec.released {
                return Ok(false);
            }
            let version = state.resource_version();
            let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "released": released } });
            match self.0.patch(&state.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
                Err(Error::Api(error)) if error.is_not_found() => return Ok(false),
                Err(Error::Api(error)) if error.is_conflict() => match self.read(&state.name_any()).await? {
                    Some(read) => state = read,
                    None => return Ok(false),
                },
                patched => return patched.map(|_| true),
            }
        }
        Ok(false)
    }

    /// Changes the releases of a node that had no state when it was read. Returns whether it wrote something.
    pub(super) async fn change_new(
        &self,
        node: &NodeInfo,
        change: impl Fn(&[Release]) -> Vec<Release>,
    ) -> Result<bool, Error> {
        if self.create(node, change(&[])).await? {
            return Ok(true);
        }
        // The node's agent has created the state since.
        match self.read(&node.name).await? {
            Some(state) => self.change(&state, change).await,
            None => Ok(false),
        }
    }

    /// The current state of a node. Lists this one object, because the agent's and the controller's roles may not `get` it.
    async fn read(&self, name: &str) -> Result<Option<HostState>, Error> {
        let listing = ListParams::default().fields(&format!("metadata.name={name}"));
        Ok(self.0.list(&listing).await?.items.pop())
    }
}
