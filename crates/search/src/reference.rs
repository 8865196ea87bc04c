//! The reference evaluator: slow, and written to be obviously right.
//!
//! For each action and each name it asks every permission of every role. The compiled evaluator is tested against it.

use std::collections::BTreeSet;
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::{
    Answer, EvaluationSettings, MAX_MISSING, MAX_NAMES, Missing, Part, Reason, Restrictions, Verdict,
    changes, denied_by_all, reaches_new,
};
use crate::builtin::KIBANA_USER;
use crate::config::{
    Dashboards, EvaluationType, IndexPattern, IndexPermission, Role, SecurityConfig, Variables,
};
use crate::filtering::{may_be_of_any, strictest};
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::{Names, Unknown, counts, hidden_beside, resolve_need};
use crate::subject::{Resolution, Subject};
use crate::tenants::TenantAccess;

use row::Row;

/// The privilege that system indices need, beside that for the action.
const SYSTEM_INDEX: &str = "system:admin/system_index";

/// What evaluation is based on.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'c> {
    /// The roles, and who has them.
    pub config: &'c SecurityConfig,
    /// Where roles come from.
    pub resolution: Resolution,
    /// How partly permitted requests are evaluated, and which indices are special.
    pub settings: &'c EvaluationSettings,
    /// What the cluster contains, if that is known.
    pub inventory: Option<&'c Inventory>,
}

/// A subject, with its roles.
struct Caller<'c> {
    names: BTreeSet<Arc<str>>,
    roles: Vec<&'c Role>,
    variables: Variables,
    is_service: bool,
    tenant: TenantAccess,
}

impl Reference<'_> {
    /// Whether the needs of a request are permitted.
    #[must_use]
    pub fn evaluate(&self, subject: &Subject, needs: &[Need<'_>]) -> Answer {
        let names = self.config.roles_of(subject, self.resolution);
        let caller = Caller {
            roles: names.iter().filter_map(|name| self.config.roles.get(name)).collect(),
            variables: subject.variables(&names, self.settings.evaluation),
            is_service: subject.is_service,
            tenant: self.tenant(subject, &names),
            names,
        };
        let mut answer = Answer { verdict: Verdict::Permitted, ..Answer::default() };
        let mut parts = Vec::new();
        let mut is_denied = false;
        let all = needs.iter().enumerate();
        for (number, need) in all.filter(|(_, need)| counts(self.settings.evaluation, need)) {
            let outcome = match resolve_need(self.inventory, self.settings.evaluation, need) {
                Some(names) => self.on_indices(&caller, need, &names, &mut answer),
                None if need.target == Target::Cluster => self.on_cluster(&caller, need, &mut answer),
                None => Ok(None),
            };
            let is_restricted = caller.permissions().any(|(_, one)| is_restricted(one));
            let outcome = match reaches_new(need).filter(|_| is_restricted && outcome.is_ok()) {
                Some(missing) => {
                    answer.missing.insert(missing);
                    Err(Denied)
                }
                None => outcome,
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(names)) => parts.push(Part { need: number, names }),
                Err(Denied) => is_denied = true,
            }
        }
        if is_denied {
            answer.verdict = Verdict::Denied;
            answer.filters.clear();
        } else if !parts.is_empty() {
            answer.verdict = Verdict::PermittedInPart(parts);
        }
        answer
    }

    /// What the roles of a subject permit in the global tenant. Dashboards itself may do everything there.
    fn tenant(&self, subject: &Subject, roles: &BTreeSet<Arc<str>>) -> TenantAccess {
        if self.settings.dashboards.as_ref().is_some_and(|one| *one.server == *subject.name) {
            return TenantAccess::Server;
        }
        let is_kibana_user = roles.contains(KIBANA_USER);
        let roles = roles.iter().filter_map(|name| self.config.roles.get(name));
        let all = roles.map(|role| TenantAccess::of(role, self.config));
        TenantAccess::of_roles(all, is_kibana_user, self.settings.evaluation)
    }

    fn on_cluster(&self, caller: &Caller<'_>, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        let mut outcome = Ok(None);
        for action in need.actions {
            let reason = if caller.is_service {
                Reason::ServiceAccount
            } else if caller
                .roles
                .iter()
                .any(|role| self.grants(&role.cluster_permissions, action.name(), true))
            {
                continue;
            } else {
                Reason::NotGranted
            };
            answer.missing.insert(Missing { action: *action, name: String::new(), reason });
            outcome = Err(Denied);
        }
        outcome
    }

    /// `Ok` with the names that a need must be reduced to, or without if it is permitted as it is.
    fn on_indices(
        &self,
        caller: &Caller<'_>,
        need: &Need<'_>,
        names: &Names<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        if self.settings.changes_all(need) {
            let (name, reason) = (need.target.text(), Reason::AllIndices);
            let missing = |action: &Action| Missing { action: *action, name: name.to_owned(), reason };
            answer.missing.extend(need.actions.iter().map(missing));
            return Err(Denied);
        }
        let rows = self.rows(names);
        if rows.is_empty() {
            self.on_no_index(caller, need, answer)?;
            return match names.is_emptied {
                false => Ok(None),
                true if self.settings.may_find_nothing(need) => Ok(Some(Vec::new())),
                true => {
                    let name = need.target.text();
                    let missing = need.actions.iter().map(|action| Missing {
                        action: *action,
                        name: name.to_owned(),
                        reason: Reason::NotGranted,
                    });
                    answer.missing.extend(missing);
                    Err(Denied)
                }
            };
        }
        self.in_tenant(caller, need, names, answer)?;
        let mut permitted: Vec<&Row> = rows.iter().collect();
        let mut is_special = false;
        for action in need.actions {
            let mut listed = 0;
            for row in &rows {
                if let Err(reason) = self.cell(caller, *action, row) {
                    permitted.retain(|other| other.name != row.name);
                    is_special |= matches!(reason, Reason::SystemIndex | Reason::SecurityIndex);
                    if listed < MAX_MISSING {
                        answer.missing.insert(Missing { action: *action, name: row.name.clone(), reason });
                        listed += 1;
                    }
                }
            }
        }
        let is_permitted = permitted.len() == rows.len();
        let dashboards = self.settings.dashboards.as_ref();
        let left_out = |one: &Dashboards| {
            one.left_out(self.inventory, self.settings.evaluation, need.actions, caller.tenant)
        };
        let left_out = dashboards.map(left_out).unwrap_or_default();
        let number = |row: &Row| self.inventory.and_then(|inventory| inventory.number(&row.name));
        let is_in = |row: &Row, all: &RoaringBitmap| number(row).is_some_and(|number| all.contains(number));
        let is_kept = |row: &Row| permitted.iter().any(|kept| kept.name == row.name);
        // The plugin may not ask about what is left out, and then it reduces nothing.
        let may_be_whole = rows.iter().all(|row| is_kept(row) || is_in(row, &names.left_out));
        let before = permitted.len();
        permitted.retain(|row| !is_in(row, &left_out));
        let reduced = if is_permitted && permitted.len() == before {
            None
        } else {
            let out = if is_permitted { &names.taken_out } else { &names.left_out };
            permitted.retain(|row| !is_in(row, out));
            if let Some(inventory) = self.inventory.filter(|_| may_be_whole) {
                let hidden = hidden_beside(inventory, &need.target);
                permitted.retain(|row| !is_in(row, &hidden));
            }
            if !is_permitted {
                self.may_reduce(caller, need, names, is_special, permitted.is_empty())?;
            }
            let names: Vec<String> = permitted.iter().map(|row| row.name.clone()).collect();
            let is_list = matches!(need.target, Target::Indices(_));
            Some(Some(names).filter(|names| is_list && names.len() <= MAX_NAMES).ok_or(Denied)?)
        };
        for row in &permitted {
            self.filter(caller, need, row, answer)?;
        }
        // An alias that the request reaches these by may have got further indices since.
        for alias in self.replaced(names).into_iter().filter(|_| reduced.is_none()) {
            let is_reached = permitted.iter().any(|row| alias.members.contains(&row.name));
            if is_reached && !permitted.iter().any(|row| row.name == alias.name) {
                self.filter_itself(caller, need, &alias, answer)?;
            }
        }
        Ok(reduced)
    }

    /// What is missing if the need is about the index of Dashboards.
    fn in_tenant(
        &self,
        caller: &Caller<'_>,
        need: &Need<'_>,
        names: &Names<'_>,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let Some(dashboards) = &self.settings.dashboards else { return Ok(()) };
        if caller.tenant == TenantAccess::Server {
            return Ok(());
        }
        let evaluation = self.settings.evaluation;
        let is_meant = dashboards.is_meant(self.inventory, evaluation, &need.target, names);
        let is_of_other = dashboards.is_of_other_tenant(self.inventory, evaluation, &need.target, names);
        let mut result = Ok(());
        for action in need.actions {
            let reason = match caller.tenant.permits_need(need, *action, evaluation) {
                false if is_meant => Reason::TenantNotGranted,
                _ if is_of_other => Reason::OtherTenant,
                _ => continue,
            };
            answer.missing.insert(Missing { action: *action, name: dashboards.index.to_string(), reason });
            result = Err(Denied);
        }
        result
    }

    /// A need that names no index: `legacy` permits it, `v4` if the action is permitted on any index.
    fn on_no_index(&self, caller: &Caller<'_>, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        if self.settings.evaluation == EvaluationType::Legacy || self.on_any_index(caller, need.actions) {
            return Ok(None);
        }
        for action in need.actions.iter().filter(|action| !self.on_any_index(caller, &[**action])) {
            answer.missing.insert(Missing {
                action: *action,
                name: String::new(),
                reason: Reason::NotGranted,
            });
        }
        Err(Denied)
    }

    fn on_any_index(&self, caller: &Caller<'_>, actions: &[Action]) -> bool {
        actions.iter().all(|action| {
            let mut permissions = caller.roles.iter().flat_map(|role| &role.index_permissions);
            permissions.any(|permission| {
                !permission.patterns.is_empty()
                    && self.grants(&permission.allowed_actions, action.name(), true)
            })
        })
    }

    /// Whether a need may be reduced to the names that are permitted. What an unexpanded pattern stands for is not known.
    fn may_reduce(
        &self,
        caller: &Caller<'_>,
        need: &Need<'_>,
        names: &Names<'_>,
        is_special: bool,
        is_empty: bool,
    ) -> Result<(), Denied> {
        let settings = self.settings;
        let is_known = !names.unknown.iter().any(|unknown| matches!(unknown, Unknown::Pattern(_)));
        let may = matches!(need.target, Target::Indices(_))
            && is_known
            && match settings.evaluation {
                EvaluationType::Legacy => {
                    settings.do_not_fail_on_forbidden
                        && need.actions.iter().all(|action| settings.reduces(*action))
                        && (!is_special || names.is_all)
                        && (!is_empty || settings.do_not_fail_on_forbidden_empty)
                }
                EvaluationType::V4 => {
                    settings.ignore_unauthorized_indices
                        && names.is_reducible
                        && (!is_empty || (names.may_be_empty && self.on_any_index(caller, need.actions)))
                }
            };
        if may { Ok(()) } else { Err(Denied) }
    }

    /// Whether an action is permitted on one name.
    fn cell(&self, caller: &Caller<'_>, action: Action, row: &Row) -> Result<(), Reason> {
        let special = row.names().filter_map(|name| match row.is_pattern {
            true => self.settings.special_pattern(name),
            false => self.settings.special(name),
        });
        // The worst reason: `SecurityIndex` is after `SystemIndex`.
        match special.max() {
            Some(Reason::SystemIndex) if self.permits(caller, SYSTEM_INDEX, row, false) => {}
            Some(reason) => return Err(reason),
            None if caller.is_service => return Err(Reason::ServiceAccount),
            None => {}
        }
        if changes(action)
            && row.names().any(|name| match row.is_pattern {
                true => self.settings.protected_indices.iter().any(|pattern| pattern.may_overlap(name)),
                false => self.settings.is_protected(name),
            })
            && !self.settings.may_change_protected(caller.names.iter().map(|name| &**name))
        {
            return Err(Reason::ProtectedIndex);
        }
        if self.permits(caller, action.name(), row, true) { Ok(()) } else { Err(Reason::NotGranted) }
    }

    /// Whether some permission grants an action on a name; with or without those that grant every action.
    fn permits(&self, caller: &Caller<'_>, action: &str, row: &Row, with_anything: bool) -> bool {
        let permissions = caller.roles.iter().flat_map(|role| &role.index_permissions);
        let mut granting =
            permissions.filter(|permission| self.grants(&permission.allowed_actions, action, with_anything));
        granting.any(|permission| {
            let patterns = patterns_of(permission, &caller.variables);
            let any = |name: &String| patterns.iter().any(|pattern| pattern.matches(name));
            if row.is_pattern {
                return patterns.iter().any(|pattern| pattern.covers(&row.name));
            }
            any(&row.name) || row.parents.iter().any(any)
        })
    }

    /// Whether a list of actions, patterns and groups has an action.
    fn grants(&self, allowed: &[Arc<str>], action: &str, with_anything: bool) -> bool {
        self.config.action_groups.resolve(allowed).into_iter().any(|text| {
            Pattern::parse(text)
                .is_ok_and(|pattern| pattern.matches(action) && (with_anything || !pattern.is_anything()))
        })
    }

    /// Adds the filters that a permitted name needs.
    fn filter(
        &self,
        caller: &Caller<'_>,
        need: &Need<'_>,
        row: &Row,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let Some((action, filtering)) = strictest(need) else { return Ok(()) };
        let is_of_all = |permission: &IndexPermission| {
            is_restricted(permission)
                && permission
                    .patterns
                    .iter()
                    .any(|pattern| matches!(pattern, IndexPattern::Static(pattern) if pattern.is_anything()))
        };
        // Whoever may not see all of every index changes nothing by what is read, even where another role shows all.
        let of_all = caller.permissions().map(|(_, permission)| permission).filter(|one| is_of_all(one));
        let reasons = of_all.map(|permission| denied_by_all(filtering, permission.document_query.is_some()));
        if let Some(reason) = reasons.flatten().next() {
            answer.missing.insert(Missing { action, name: row.name.clone(), reason });
            return Err(Denied);
        }
        self.filter_itself(caller, need, row, answer)?;
        for member in &row.members {
            self.filter_itself(caller, need, &self.row(member), answer)?;
        }
        Ok(())
    }

    /// Adds the filter for a name by itself. For an alias or data stream that is what is said of its own name, also of indices that it
    /// may have got since.
    fn filter_itself(
        &self,
        caller: &Caller<'_>,
        need: &Need<'_>,
        row: &Row,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let Some((action, filtering)) = strictest(need) else { return Ok(()) };
        let is_group = !row.members.is_empty();
        let row = Row { members: Vec::new(), ..row.copy() };
        let mut restrictions = Restrictions::default();
        let is_known = self.inventory.is_some_and(|inventory| inventory.number(&row.name).is_some());
        for (role, permission) in caller.permissions() {
            let patterns = patterns_of(permission, &caller.variables);
            let is_for = patterns.iter().any(|pattern| match row.is_pattern {
                true => pattern.covers(&row.name),
                false => row.names().chain(&row.parents).any(|name| pattern.matches(name)),
            });
            // Without an inventory, a name may be that of an alias, for an index with any name.
            let may_be_for = match (self.inventory, row.is_pattern) {
                (None, _) => true,
                // Or of one that was made since the inventory.
                (Some(_), _) if !is_known && may_be_of_any(action) && is_restricted(permission) => true,
                (Some(_), true) => patterns.iter().any(|pattern| pattern.may_overlap(&row.name)),
                (Some(_), false) => is_for,
            };
            let may_be_for = may_be_for
                || (!is_group && is_restricted(permission) && may_hide(permission, &caller.variables, &row));
            if is_for || may_be_for {
                restrictions.add(role, permission, &caller.variables, is_for);
            }
        }
        match restrictions.filter(&row.name, self.settings, filtering, is_known) {
            Ok(filter) => {
                answer.filters.extend(filter);
                Ok(())
            }
            Err(reason) => {
                answer.missing.insert(Missing { action, name: row.name, reason });
                Err(Denied)
            }
        }
    }
}

/// A need that is not permitted.
struct Denied;

type Outcome = Result<Option<Vec<String>>, Denied>;

impl<'c> Caller<'c> {
    /// The permissions on indices, each with the number of its role.
    fn permissions(&self) -> impl Iterator<Item = (usize, &'c IndexPermission)> {
        let roles = self.roles.iter().enumerate();
        roles.flat_map(|(number, role)| {
            role.index_permissions.iter().map(move |permission| (number, permission))
        })
    }
}

fn is_restricted(permission: &IndexPermission) -> bool {
    permission.document_query.is_some()
        || !permission.fields.is_empty()
        || !permission.masked_fields.is_empty()
}

/// Whether the plugin may read a pattern of a permission so that it is for a name, though it does not match it here.
fn may_hide(permission: &IndexPermission, variables: &Variables, row: &Row) -> bool {
    let widened = permission.patterns.iter().filter_map(|pattern| match pattern {
        IndexPattern::Static(_) => None,
        IndexPattern::Template(template) => template.widened(variables),
    });
    let widened: Vec<Pattern> = widened.collect();
    let is_odd = row.names().chain(&row.parents).any(|name| Pattern::is_odd(name));
    is_odd
        || widened.iter().any(|pattern| match row.is_pattern {
            true => pattern.may_overlap(&row.name),
            false => row.names().chain(&row.parents).any(|name| pattern.matches(name)),
        })
}

/// The patterns of a permission for one subject.
fn patterns_of(permission: &IndexPermission, variables: &Variables) -> Vec<Pattern> {
    let patterns = permission.patterns.iter().filter_map(|pattern| match pattern {
        IndexPattern::Static(pattern) => Some(pattern.clone()),
        IndexPattern::Template(template) => template.pattern(variables),
    });
    patterns.collect()
}

mod row;
#[cfg(test)]
mod tests;
