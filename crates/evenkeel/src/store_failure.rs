//! The failures of stores that can't be used.

use evenkeel_watch::store::StoreError;

use crate::exit;
use crate::failure::{Failure, MAY_READ};

/// The failure of a store that can't be used.
pub(crate) fn store_failure(error: StoreError) -> Failure {
    let (code, hint) = match &error {
        StoreError::Read { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
            (exit::NOT_ALLOWED, MAY_READ)
        }
        StoreError::Io { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
            (exit::NOT_ALLOWED, "name a folder that you may write to")
        }
        StoreError::Read { .. } => {
            (exit::WRONG_USE, "name the folder that `evenkeel watch --store DIR` wrote, or a dump of `--dumps DIR`")
        }
        StoreError::Io { .. } => {
            (exit::WRONG_USE, "`evenkeel watch --store DIR` makes DIR; the folder above it must exist")
        }
        StoreError::InUse { .. } => (exit::NOT_POSSIBLE, "end the other one, or name another folder"),
        StoreError::Empty { .. } => {
            (exit::WRONG_USE, "`evenkeel watch --store DIR` writes a store, and `--dumps DIR` dumps")
        }
        StoreError::TooLarge { .. } => (exit::NOT_POSSIBLE, "watch fewer servers"),
        StoreError::Format { .. } => (exit::WRONG_USE, "read it with the evenkeel that wrote it, or a newer one"),
    };
    Failure::text(code, "use the store", error).hint(hint)
}
