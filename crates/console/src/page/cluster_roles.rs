//! The roles of the search cluster, and who has them.

use authorizer::Authorizer;
use explain::{ClusterPermission, ClusterRoleQuery, ClusterRoles, Explainer, MappedRole};
use maud::{Markup, html};

use super::{list, table};
use crate::question::RuleFields;

/// The maximum number of permissions that are listed for a role.
const MAX_PERMISSIONS: usize = 20;

/// Nothing, if the policy has no search cluster.
pub(super) fn section(authorizer: &Authorizer, fields: &RuleFields, max: usize) -> Markup {
    let query = ClusterRoleQuery {
        of_user: &fields.of_user,
        name_has: &fields.of_role,
        on_index: index(&fields.on_path),
    };
    let listed = Explainer::new(authorizer).cluster_roles(query, max);
    let Some(ClusterRoles { roles, count, notes }) = listed else { return html! {} };
    let heads = ["role", "on", "actions", "who has the role"];
    let hosts = authorizer.loaded().policy.search.as_ref().map(|search| search.hosts.as_slice());
    html! {
        h3 { "Roles of the search cluster" }
        @for note in &notes { p.trouble.warning { strong { "! Note: " } (note) } }
        p.hint role="status" {
            (super::counted(count, "role"))
            @if count > roles.len() { "; the first " (roles.len()) " are shown: narrow the search" }
            ". They decide, instead of the rules, on requests to "
            @match hosts {
                Some(hosts) if !hosts.is_empty() => code { (list(hosts)) },
                Some(_) | None => "all hosts",
            }
            ". Built-in roles that nobody has are left out."
            @if !fields.of_user.is_empty() {
                " Roles that a user has only by its address or its token are not counted."
            }
        }
        @if !roles.is_empty() {
            (table("Roles of the search cluster", None, heads, &html! {
                @for role in &roles { (rows(role)) }
            }))
        }
    }
}

/// The name of an index, also from the path of a request: `/logs-1/_search`.
fn index(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// The rows of a role: first its cluster permissions, then a row per index permission.
fn rows(MappedRole { role, mapped_from, is_missing }: &MappedRole) -> Markup {
    let cluster = &role.cluster_permissions;
    let mut rows: Vec<Markup> = Vec::new();
    if *is_missing {
        rows.push(html! { td colspan="2" { "✗ nothing: it is mapped, and no file defines it" } });
    }
    if !cluster.is_empty() {
        rows.push(html! { td { "the cluster itself" } td.request { code { (list(cluster)) } } });
    }
    rows.extend(role.index_permissions.iter().take(MAX_PERMISSIONS).map(permission));
    let left_out = role.index_permissions.len().saturating_sub(MAX_PERMISSIONS);
    if left_out > 0 {
        rows.push(html! { td colspan="2" { "and " (left_out) " more permissions" } });
    }
    if rows.is_empty() {
        rows.push(html! { td colspan="2" { "nothing" } });
    }
    let height = rows.len();
    html! {
        tbody {
            @for (index, row) in rows.iter().enumerate() {
                tr {
                    @if index == 0 { th scope="rowgroup" rowspan=(height) { (role.role) } }
                    (row)
                    @if index == 0 {
                        td rowspan=(height) {
                            @if mapped_from.is_empty() { "nobody" } @else { (list(mapped_from)) }
                        }
                    }
                }
            }
        }
    }
}

fn permission(permission: &ClusterPermission) -> Markup {
    let ClusterPermission { index_patterns, allowed_actions, is_restricted } = permission;
    html! {
        td.request {
            code { (list(index_patterns)) }
            @if *is_restricted { br; "only some documents or fields" }
        }
        td.request { code { (list(allowed_actions)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::index;

    #[test]
    fn the_index_of_a_path_is_its_first_segment() {
        assert_eq!(
            ["", "/", "logs-1", "/logs-1", "/logs-1/_search"].map(index),
            ["", "", "logs-1", "logs-1", "logs-1"]
        );
    }
}
