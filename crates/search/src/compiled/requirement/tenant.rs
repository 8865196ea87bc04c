//! Who may make a request that is about the index of Dashboards.

use crate::builtin::KIBANA_USER;
use crate::config::EvaluationType;
use crate::need::Need;
use crate::resolve::{Names, resolve_need};
use crate::steps::Steps;
use crate::tenants::TenantAccess;

use super::{HeldRole, OneByOne, Privileges, Requirement};

impl Requirement {
    /// Requirements in which each role counts beside any other that is not refused. Who meets one of them meets this one.
    #[must_use]
    pub fn alternatives(&self) -> Vec<Requirement> {
        let is_plain = |held: &HeldRole| held.without.is_empty();
        if self.all.iter().flatten().all(is_plain) {
            return vec![self.clone()];
        }
        // All roles that count only beside some others are the same one.
        let mut others = self.clone();
        others.all.iter_mut().for_each(|any| any.retain(is_plain));
        let mut with = self.clone();
        for held in with.all.iter_mut().flatten() {
            for role in std::mem::take(&mut held.without) {
                let refused = HeldRole::of(&role);
                if !with.none.contains(&refused) {
                    with.none.push(refused);
                }
            }
        }
        vec![others, with]
    }
}

impl Privileges {
    /// The user that Dashboards itself is, if these needs are about its index: then this user needs other roles than all others.
    #[must_use]
    pub fn dashboards_server(&self, needs: &[Need<'_>]) -> Option<&str> {
        let dashboards = self.settings.dashboards.as_ref()?;
        let is_about = |need: &Need<'_>| {
            resolve_need(self.inventory.as_deref(), self.settings.evaluation, need)
                .is_some_and(|names| self.is_of_tenant(need, &names) || self.is_of_other_tenant(need, &names))
        };
        needs.iter().any(is_about).then_some(&*dashboards.server)
    }

    /// Whether a need is about an index of another tenant than the global one, which is denied to all but Dashboards itself.
    pub(super) fn is_of_other_tenant(&self, need: &Need<'_>, names: &Names<'_>) -> bool {
        let (inventory, evaluation) = (self.inventory.as_deref(), self.settings.evaluation);
        let dashboards = self.settings.dashboards.as_ref();
        dashboards.is_some_and(|one| one.is_of_other_tenant(inventory, evaluation, &need.target, names))
            || !self.left_out(need, TenantAccess::Write).is_disjoint(&names.known)
    }

    /// Whether a need is about the index of Dashboards in the global tenant.
    fn is_of_tenant(&self, need: &Need<'_>, names: &Names<'_>) -> bool {
        let (inventory, evaluation) = (self.inventory.as_deref(), self.settings.evaluation);
        self.settings.dashboards.as_ref().is_some_and(|one| {
            one.is_meant(inventory, evaluation, &need.target, names)
                || !self.left_out(need, TenantAccess::None).is_disjoint(&names.known)
        })
    }

    /// Adds the roles that permit a need about the index of Dashboards in the global tenant.
    pub(super) fn require_tenant(
        &self,
        need: &Need<'_>,
        names: &Names<'_>,
        roles: &OneByOne<'_>,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        if !self.is_of_tenant(need, names) {
            return Some(());
        }
        let tenant = |number: &usize| self.roles.get(*number).map_or(TenantAccess::None, |role| role.tenant);
        for action in need.actions {
            steps.take(roles.numbers.len())?;
            let may = |number: &usize| tenant(number).permits_need(need, *action, self.settings.evaluation);
            let mut any = roles.named(roles.numbers.iter().copied().filter(may));
            let kibana_user = self.role_ids.get(KIBANA_USER).map(|id| *id as usize);
            let kibana_user = kibana_user.filter(|number| {
                self.settings.evaluation == EvaluationType::Legacy
                    && roles.numbers.contains(number)
                    && tenant(number) == TenantAccess::None
            });
            if let Some(number) = kibana_user {
                let takes_away = |number: &usize| tenant(number) != TenantAccess::None && !may(number);
                let takes_away = roles.named(roles.numbers.iter().copied().filter(takes_away));
                let without: Vec<_> = takes_away.into_iter().map(|held| held.role).collect();
                let held = roles.named([number]).into_iter();
                any.extend(held.map(|held| HeldRole { without: without.clone(), ..held }));
            }
            requirement.add(any, steps)?;
        }
        Some(())
    }
}
