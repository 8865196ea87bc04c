//! The scenarios: the application alone, behind Envoy, and behind Envoy with ext_authz by one of
//! several servers.

use load::Address;
use testbed::Failed;

/// One path of a request: where it is sent, and what is in front of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
    /// Whether it belongs to the main comparison. If not, it is a variant, which gets fewer and
    /// shorter rounds.
    pub(crate) main: bool,
}

/// Where requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    App,
    Envoy,
    /// To Envoy, with rolegate inside it and the policy of this server.
    Inside {
        server: usize,
    },
    /// To Envoy, with ext_authz by this server.
    Check {
        server: usize,
        /// The transport between Envoy and the server.
        transport: Transport,
        client: Client,
    },
}

/// The transport between Envoy and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Unix,
    Tcp,
}

/// One of Envoy's two gRPC clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Envoy's own (`envoy_grpc`).
    Envoy,
    /// Google's C++ library (`google_grpc`).
    Google,
}

/// An authorization service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// The kind of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// rolegate with a policy that allows everything to everyone.
    Nop,
    /// rolegate with the people policy and verified passwords.
    Basic,
    /// rolegate with the people policy and tokens.
    Jwt,
    /// A tonic server that allows everything.
    Baseline,
    /// A server that was started by the user.
    Peer {
        address: Address,
        /// Its process id, if known: processor time and memory are then reported.
        process: Option<u32>,
        /// Whether it gets headers as a map, because it does not support raw ones.
        header_map: bool,
    },
}

impl Server {
    /// The servers that are always compared, followed by the peers.
    pub(crate) fn all(peers: &[Self]) -> Vec<Self> {
        let ours = [
            ("rolegate, allows everything", Role::Nop),
            ("rolegate, Basic", Role::Basic),
            ("rolegate, JWT", Role::Jwt),
            ("baseline", Role::Baseline),
        ];
        let ours = ours.into_iter().map(|(name, role)| Self { name: name.to_owned(), role });
        ours.chain(peers.iter().cloned()).collect()
    }

    /// Whether Envoy sends it headers as separate, unmodified lines (`encode_raw_headers`).
    pub(crate) fn takes_raw_headers(&self) -> bool {
        !matches!(self.role, Role::Peer { header_map: true, .. })
    }

    /// Its transports; a peer has only the one on which it listens.
    fn transports(&self) -> Vec<Transport> {
        match &self.role {
            Role::Peer { address: Address::Tcp(..), .. } => vec![Transport::Tcp],
            Role::Peer { address: Address::Unix(_), .. } => vec![Transport::Unix],
            _ => vec![Transport::Unix, Transport::Tcp],
        }
    }
}

impl std::str::FromStr for Server {
    type Err = Failed;

    /// Parses a peer: `NAME=ADDR`, then optionally `,pid=NUMBER` and `,headers=map`.
    fn from_str(text: &str) -> Result<Self, Failed> {
        let wrong = || {
            let why = format!("`{text}` is not one: write NAME=ADDR, such as `opa=127.0.0.1:9191`");
            Failed::new("peer", why)
        };
        let (name, rest) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let mut parts = rest.split(',');
        let address = parts.next().unwrap_or_default().parse::<Address>()?;
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
    /// Every scenario for these servers. The main ones use the shipped settings, a Unix socket and
    /// Envoy's own client; a peer is reached where it listens.
    pub(crate) fn all(servers: &[Server], variants: bool, inside: bool) -> Vec<Self> {
        let mut all = vec![
            Self { name: "app".to_owned(), endpoint: Endpoint::App, main: true },
            Self { name: "Envoy, no ext_authz".to_owned(), endpoint: Endpoint::Envoy, main: true },
        ];
        for (number, server) in servers.iter().enumerate().filter(|_| inside) {
            let name = match server.role {
                Role::Basic => "rolegate inside Envoy, Basic",
                Role::Jwt => "rolegate inside Envoy, JWT",
                Role::Nop | Role::Baseline | Role::Peer { .. } => continue,
            };
            all.push(Self {
                name: name.to_owned(),
                endpoint: Endpoint::Inside { server: number },
                main: true,
            });
        }
        for (number, server) in servers.iter().enumerate() {
            for (at, transport) in server.transports().into_iter().enumerate() {
                for client in [Client::Envoy, Client::Google] {
                    let main = at == 0 && client == Client::Envoy;
                    if main || variants {
                        let endpoint = Endpoint::Check { server: number, transport, client };
                        all.push(Self {
                            name: name(server, transport, client, main),
                            endpoint,
                            main,
                        });
                    }
                }
            }
        }
        all
    }

    /// The index of the authorization service, if there is one.
    pub(crate) fn server(&self) -> Option<usize> {
        match self.endpoint {
            Endpoint::Check { server, .. } => Some(server),
            Endpoint::App | Endpoint::Envoy | Endpoint::Inside { .. } => None,
        }
    }

    /// The index of the server whose policy decides.
    pub(crate) fn policy_of(&self) -> Option<usize> {
        match self.endpoint {
            Endpoint::Check { server, .. } | Endpoint::Inside { server } => Some(server),
            Endpoint::App | Endpoint::Envoy => None,
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
