//! What is compared: the application alone, behind Envoy, and behind Envoy that asks one of several servers.

use crate::Address;

/// One way through the whole: what is asked, and what stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in the report.
    pub name: String,
    /// What is asked.
    pub door: Door,
    /// Whether it belongs to the main comparison, or is one of the variants, which get fewer and shorter rounds.
    pub main: bool,
}

/// Which address the requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The application itself.
    App,
    /// Envoy, which asks nobody.
    Envoy,
    /// Envoy, which asks this server.
    Check {
        /// Its number in the list of servers.
        server: usize,
        /// How it is reached.
        transport: Transport,
        /// By which client.
        client: Client,
    },
}

/// How Envoy reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A Unix socket.
    Unix,
    /// TCP on the loopback interface.
    Tcp,
}

/// Which of Envoy's two clients of gRPC asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Its own (`envoy_grpc`).
    Envoy,
    /// Google's C++ library (`google_grpc`).
    Google,
}

/// A server that Envoy asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name in the report.
    pub name: String,
    /// What it is.
    pub role: Role,
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// rolegate, with a policy under which anyone may do anything.
    Nop,
    /// rolegate, with the policy of the people and verified passwords.
    Basic,
    /// rolegate, with the policy of the people and tokens.
    Jwt,
    /// The yardstick: a tonic server that allows everything.
    AlwaysAllow,
    /// A server that somebody else has started.
    Peer {
        /// Where it listens.
        address: Address,
        /// Its process, if it is known: its processor time and memory are then reported.
        process: Option<u32>,
        /// Whether it is sent headers as a map, as it does not know of raw ones.
        header_map: bool,
    },
}

impl Server {
    /// The servers that are always compared, then the peers.
    #[must_use]
    pub fn all(peers: &[Self]) -> Vec<Self> {
        let ours = [
            ("authz NOP", Role::Nop),
            ("authz RBAC (Basic)", Role::Basic),
            ("authz RBAC (JWT)", Role::Jwt),
            ("always-allow tonic", Role::AlwaysAllow),
        ];
        let ours = ours.into_iter().map(|(name, role)| Self { name: name.to_owned(), role });
        ours.chain(peers.iter().cloned()).collect()
    }

    /// Whether it is a rolegate of ours, which tells how long it took.
    #[must_use]
    pub fn is_rolegate(&self) -> bool {
        matches!(self.role, Role::Nop | Role::Basic | Role::Jwt)
    }

    /// Whether Envoy sends it header lines one by one and byte for byte.
    #[must_use]
    pub fn takes_raw_headers(&self) -> bool {
        !matches!(self.role, Role::Peer { header_map: true, .. })
    }

    /// How it can be reached: one started elsewhere only where it listens.
    fn transports(&self) -> Vec<Transport> {
        match &self.role {
            Role::Peer { address: Address::Tcp(..), .. } => vec![Transport::Tcp],
            Role::Peer { address: Address::Unix(_), .. } => vec![Transport::Unix],
            _ => vec![Transport::Unix, Transport::Tcp],
        }
    }
}

impl std::str::FromStr for Server {
    type Err = String;

    /// A peer: `NAME=ADDR`, then `,pid=NUMBER` and `,headers=map` if they apply.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a peer: write NAME=ADDR, such as `opa=127.0.0.1:9191`");
        let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let mut parts = rest.split(',');
        let address = parts.next().unwrap_or_default().parse()?;
        let (mut process, mut header_map) = (None, false);
        for part in parts {
            match part.split_once('=') {
                Some(("pid", number)) => process = Some(number.parse().map_err(|_| wrong())?),
                Some(("headers", "map")) => header_map = true,
                _ => return Err(wrong()),
            }
        }
        Ok(Self { name: name.to_owned(), role: Role::Peer { address, process, header_map } })
    }
}

impl Scenario {
    /// Every scenario for these servers. The main ones use what ships, a Unix socket and Envoy's own client; a peer is
    /// reached where it listens.
    #[must_use]
    pub fn all(servers: &[Server], variants: bool) -> Vec<Self> {
        let mut all = vec![
            Self { name: "app".to_owned(), door: Door::App, main: true },
            Self { name: "app + Envoy".to_owned(), door: Door::Envoy, main: true },
        ];
        for (number, server) in servers.iter().enumerate() {
            for (at, transport) in server.transports().into_iter().enumerate() {
                for client in [Client::Envoy, Client::Google] {
                    let main = at == 0 && client == Client::Envoy;
                    if main || variants {
                        let door = Door::Check { server: number, transport, client };
                        all.push(Self { name: name(server, transport, client, main), door, main });
                    }
                }
            }
        }
        all
    }

    /// The number of the server that is asked.
    #[must_use]
    pub fn server(&self) -> Option<usize> {
        match self.door {
            Door::Check { server, .. } => Some(server),
            Door::App | Door::Envoy => None,
        }
    }
}

fn name(server: &Server, transport: Transport, client: Client, main: bool) -> String {
    if main {
        return format!("+ {}", server.name);
    }
    let transport = match transport {
        Transport::Unix => "Unix socket",
        Transport::Tcp => "TCP",
    };
    let client = match client {
        Client::Envoy => "Envoy's client",
        Client::Google => "Google's client",
    };
    format!("+ {}, {transport}, {client}", server.name)
}
