// SPDX-License-Identifier: Apache-2.0
//! `aurae version`: of this client and of the node.

use api::node::v0::GetRequest;
use serde_json::json;

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Format, OutputArgs, note, print_line};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae version
  aurae version --client
  aurae version -o json";

/// `aurae version`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VersionArgs {
    /// Only this client's
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints both; without a node, ours and why there is no other.
pub(crate) async fn run(global: &Global, args: &VersionArgs) -> Result<u8, Failure> {
    let client = env!("CARGO_PKG_VERSION");
    let node = match args.client {
        true => None,
        false => Some(node_version(global).await),
    };
    let of_node = match &node {
        Some(Ok(version)) => Some(version.as_str()),
        _ => None,
    };
    match args.output.output {
        Format::Json => print_line(&json!({"client": client, "node": of_node}).to_string())?,
        Format::Yaml => print_line(&format!(
            "client: {client}\nnode: {}",
            of_node.unwrap_or("null")
        ))?,
        Format::Table | Format::Wide | Format::Name => {
            print_line(&format!("client  {client}"))?;
            if let Some(version) = of_node {
                print_line(&format!("node    {version}"))?;
            }
        }
    }
    match node {
        Some(Err(failure)) => Err(failure),
        Some(Ok(version)) if version != client => {
            note("client and node are of different versions; what one lacks fails by name");
            Ok(0)
        }
        _ => Ok(0),
    }
}

async fn node_version(global: &Global) -> Result<String, Failure> {
    let session = Session::open(global).await?;
    let get = async |node: &client::Node| node.node().get(node.unary(GetRequest {})).await;
    Ok(session.ask(get).await?.version)
}
