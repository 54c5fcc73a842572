//! Lists the objects of a cluster page by page. A node is some 20 kB of JSON, so all nodes of a large cluster at once would need more memory than
//! the chart allows.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

/// The maximum number of objects in a page.
const PAGE_MAX: u32 = 500;

/// What `keep` keeps of each object. If objects change so much that the API server forgets where the next page begins, this is an error, and the
/// caller begins again with its next step.
pub(super) async fn list<K, T>(api: &Api<K>, keep: impl Fn(K) -> T) -> Result<Vec<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut kept = Vec::new();
    let mut page = ListParams::default().limit(PAGE_MAX);
    loop {
        let listed = api.list(&page).await?;
        kept.extend(listed.items.into_iter().map(&keep));
        match listed.metadata.continue_ {
            Some(next) if !next.is_empty() => page = page.continue_token(&next),
            _ => return Ok(kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::ResourceExt;
    use serde_json::json;

    use super::super::fake_server::{FakeServer, NODES};
    use super::*;

    #[test]
    fn all_pages_are_listed_and_only_what_is_kept_stays() {
        let server = FakeServer::start();
        let count = 2 * PAGE_MAX as usize + 1;
        server.with(|store| {
            for i in 0..count {
                store.put(NODES, json!({ "metadata": { "name": format!("vm-{i:04}") } }));
            }
        });
        let names = server.run(async |client| list(&Api::<Node>::all(client), |node| node.name_any()).await).unwrap();
        assert_eq!((names.len(), names[0].as_str(), names[count - 1].as_str()), (count, "vm-0000", "vm-1000"));
        assert_eq!(server.with(|store| store.requests.len()), 3, "a page has {PAGE_MAX}");
    }
}
