//! The text for an error of the API server: the server's own sentence, which the client's errors wrap in their fields.

use std::error::Error;
use std::iter;

use kube::config::KubeconfigError;

/// Why a request failed. The server's message names what is missing, such as a right. Without such a message, the innermost error is used.
pub fn why(error: &(dyn Error + 'static)) -> String {
    let chain = || iter::successors(Some(error), |error| (*error).source());
    let of_server = chain().find_map(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => Some(status.message.clone()),
        _ => None,
    });
    let of_file = || {
        chain().find_map(|error| match error.downcast_ref() {
            // The parser's message includes a drawing of the place in the file.
            Some(KubeconfigError::Parse(error)) => {
                let what = error.to_string();
                let what = what.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                Some(format!("it is not a file of a cluster (kubeconfig): {what}"))
            }
            _ => None,
        })
    };
    of_server.or_else(of_file).unwrap_or_else(|| {
        let innermost = chain().last().unwrap_or(error);
        // The standard library adds the number of the kernel's error.
        let text = innermost.to_string();
        match innermost.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            Some(number) => text.trim_end_matches(&format!(" (os error {number})")).to_lowercase(),
            None => text,
        }
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher;

    use super::*;

    #[test]
    fn the_servers_sentence_is_what_is_said() {
        let message = "nodes \"a\" is forbidden: cannot patch resource \"nodes\"";
        let forbidden = || kube::Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
        assert_eq!(why(&forbidden()), message);
        assert_eq!(why(&watcher::Error::WatchStartFailed(forbidden())), message);
        let refused = kube::Error::Service(Box::new(std::io::Error::other("connection refused")));
        assert_eq!(why(&refused), "connection refused");
        let missing = kube::Error::Service(Box::new(std::io::Error::from_raw_os_error(2)));
        assert_eq!(why(&missing), "no such file or directory");
    }
}
