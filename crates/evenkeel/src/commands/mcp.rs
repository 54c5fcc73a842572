//! `evenkeel mcp`: a Model Context Protocol server on standard input and output.
//! Each tool call runs this program with `--json` and returns its answer.
//! So each tool can do exactly what its command can do.

mod child;
mod tools;

use std::io;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use tokio::sync::{Mutex, Semaphore};

use self::child::Program;
use self::tools::{ToolSpec, Wanted};
use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// The maximum length of a message. The server drops a longer message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of calls that wait for the running call.
const CALLS_MAX: usize = 16;

const INSTRUCTIONS: &str = "evenkeel shows what a Linux machine is, which kernel settings suit a latency-sensitive server on it and why, and \
    what it changed. Start with `inspect` and `audit`. `explain` has everything about one setting, and `guide` judges a tuning guide line \
    by line. `measure` shows what the machine does to a server. The result of each tool is the JSON answer of the command of the same name.";

/// Serve these commands to an AI client: Model Context Protocol, on standard input and output
///
/// The client starts this command and calls the tools inspect,
/// audit, explain, guide, verify, history, report and measure.
/// These tools change no setting. With --allow-changes, the client can also call apply, revert and confirm.
/// docs/mcp.md shows the configuration of a client.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel mcp
  evenkeel mcp --host host.txt
  sudo evenkeel mcp --allow-changes")]
pub(crate) struct Args {
    /// Also offer the tools that change settings of this machine: apply, revert and confirm
    #[arg(long, conflicts_with_all = ["host", "root"])]
    allow_changes: bool,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, _: &Out) -> Outcome {
    let failed = |tried: &str, error: &io::Error| Failure::io(exit::NOT_POSSIBLE, tried.to_owned(), error);
    // Report a wrong file at the start, not at every call.
    args.host.open()?;
    let program = Program::this(&args.host, &args.state).map_err(|error| failed("find this program", &error))?;
    let server = Server {
        tools: tools::offered(args.host.is_this_machine(), args.allow_changes),
        program,
        turn: Mutex::new(()),
        changing: Arc::new(Mutex::new(())),
        places: Semaphore::new(CALLS_MAX),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed("start the server", &error))?;
    let served = runtime.block_on(serve(server));
    // Standard input may still be open, and the program cannot cancel a read of it.
    runtime.shutdown_background();
    served.map(|()| exit::WELL)
}

/// Serves one client until it closes standard input.
async fn serve(server: Server) -> Result<(), Failure> {
    let changing = server.changing.clone();
    let (read, write) = rmcp::transport::io::stdio_pipes();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_BYTES_MAX);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(Failure::text(exit::WRONG_USE, "start the session with the client", error)),
    };
    let ended = running.waiting().await;
    // Wait for a running change, because it must not stop half-way. Commands that only read end with this program.
    drop(changing.lock().await);
    ended.map(drop).map_err(|error| Failure::text(exit::NOT_POSSIBLE, "serve the client", error))
}

struct Server {
    tools: Vec<&'static ToolSpec>,
    program: Program,
    /// Locked while a command runs, because two measurements at a time would disturb each other.
    turn: Mutex<()>,
    /// Locked while a command changes the machine.
    changing: Arc<Mutex<()>>,
    places: Semaphore,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("evenkeel", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|tool| tool.described()).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("unknown tool {:?}", request.name), None);
        let tool = self.tools.iter().find(|tool| tool.name == request.name).ok_or_else(unknown)?;
        let wanted: Wanted = (tool.line)(request.arguments.unwrap_or_default())
            .map_err(|why| ErrorData::invalid_params(format!("{}: {why}", tool.name), None))?;
        let busy = |_| ErrorData::internal_error(format!("{CALLS_MAX} calls wait already; try again later"), None);
        let _place = self.places.try_acquire().map_err(busy)?;
        let result = match tool.changes {
            // A change ends by itself, so a cancelled call does not stop it half-way.
            true => {
                let _turn = self.turn.lock().await;
                let _changing = self.changing.lock().await;
                self.program.change(&wanted).await
            }
            false => {
                let run = async {
                    let _turn = self.turn.lock().await;
                    self.program.read(&wanted).await
                };
                let cancelled = || ErrorData::internal_error("the client cancelled the call", None);
                context.ct.run_until_cancelled(run).await.ok_or_else(cancelled)?
            }
        };
        Ok(result.into())
    }
}
