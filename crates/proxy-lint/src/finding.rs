//! The kinds of findings, with their severities and texts.

use document::finding_kinds;

/// A finding about the configuration.
pub type Finding = document::Finding<Kind>;

finding_kinds! {
    /// A comment accepts no finding, or has no reason.
    Acceptance = Note "acceptance", "remove it, or add the reason";
    /// A client can turn a connection into HTTP/2, whose further requests nobody decides about.
    AnyUpgrade = Unsafe "any-upgrade",
        "`proxy_set_header Upgrade websocket`, only where that is asked for";
    /// The answer to one caller is given to another.
    CachedDecision = Unsafe "cached-decision", "`proxy_cache off`: rolegate answers within microseconds";
    /// The application gets another path than was authorized.
    ChangedPath = Unsafe "changed-path",
        "pass the path on as it came: `proxy_pass http://app;` without a path behind the host; no `rewrite`, `handle_path` and `uri` behind the authorization";
    /// The application gets an identity header as the client sent it.
    ClientHeader = Unsafe "client-header",
        "set or remove it for the application: `proxy_set_header X-User $user`, `request_header -X-User`";
    /// The client can choose the method, host, path or address that rolegate decides about.
    ForgedRequest = Unsafe "forged-request",
        "overwrite each header of the profile, as in `deploy/`; trust no proxies that clients can be";
    /// `auth_request` names a location that is not there: the answer of another one decides.
    MissingCheck = Unsafe "missing-check", "define it, as in `deploy/`";
    /// rolegate gets no credentials: each caller is anonymous.
    MissingCredentials = Broken "missing-credentials", "remove `proxy_pass_request_headers off`";
    /// Clients can call the location that asks rolegate.
    PublicCheck = Unsafe "public-check", "`internal;`";
    /// A body is announced to rolegate, and does not come: such requests wait until a timeout.
    SentBody = Broken "sent-body", "`proxy_pass_request_body off;` and `proxy_set_header Content-Length \"\";`";
    /// A request that is denied is served nevertheless.
    ServedDenial = Unsafe "served-denial", "remove it, or answer with a redirect or an error there";
    /// A request passes that another rule allows, such as one about addresses.
    SatisfyAny = Unsafe "satisfy-any", "`satisfy all;`";
    /// The location that asks rolegate gives the answer itself, or takes that of something else.
    UncheckedAnswer = Unsafe "unchecked-answer", "`proxy_pass` to rolegate, and nothing else";
    /// An application takes `x_user` for `x-user`.
    UnderscoreHeaders = Unsafe "underscore-headers", "remove `underscores_in_headers on`";
    /// `//admin` reaches a location without authorization, where an application may serve `/admin`.
    UnmergedSlashes = Unsafe "unmerged-slashes",
        "remove `merge_slashes off`, or open single paths only: `location = /status`";
    /// A location, route or handler leads to an application without authorization.
    Unprotected = Unsafe "unprotected", "`auth_request`, or `forward_auth` before it";
    /// An included file is missing, so it is not checked.
    UnseenInclude = Note "unseen-include", "lint where the file is";
}

#[cfg(test)]
mod tests {
    use document::FindingKind as _;

    use super::Kind;

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
