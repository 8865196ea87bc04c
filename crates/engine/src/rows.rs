//! Rows: the rules at one place. Each end of a resource pattern in the trie has a row, which says for each action which
//! roles are allowed or denied, and by which rule.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use policy::Decision;
use policy::model::{Effect, RoleId, RuleId};

use crate::roles::{Numbered, RoleSet};
use crate::table::{NONE, Table};

/// An action that no rule names. Only rules for every action match it.
pub(crate) const UNKNOWN_ACTION: u32 = u32::MAX - 1;
/// In an [`Entry`]: the rule applies to every action.
const ANY_ACTION: u32 = u32::MAX;

/// Rows of up to this many entries are searched linearly. Most rows are this short, and then take up two or three cache
/// lines.
const FEW: usize = 8;
/// Set in the ids of rows that are not searched linearly.
const WIDE: u32 = 1 << 31;

/// The id of a row; `NO_ROW` where no pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowId(u32);

pub(crate) const NO_ROW: RowId = RowId(NONE);

impl RowId {
    /// The index of a short row, which is below 2³¹; `None` for a wide one.
    pub(crate) fn few(self) -> Option<u32> {
        (self.0 & WIDE == 0).then_some(self.0)
    }

    pub(crate) const fn of_few(number: u32) -> Self {
        Self(number)
    }
}

/// States that one rule matches one action at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    rule: u32,
    role: u32,
    action: u32,
    effect: Effect,
    /// Whether this is the last entry of its row.
    last: bool,
}

/// All rows.
#[derive(Default)]
pub(crate) struct Rows {
    few: Table<Entry>,
    wide: Table<Wide>,
}

/// A row with many entries, indexed by action.
struct Wide {
    /// The rules for every action.
    any: Sides,
    /// The actions that rules name, sorted.
    actions: Box<[u32]>,
    /// For each of these actions, the rules that name it. The rules in `any` are not repeated here: the size would grow
    /// with the product of actions and roles.
    named: Box<[Sides]>,
}

/// The rules for one action: for each role, the rule with the lowest id.
struct Sides {
    allow: Option<Numbered>,
    deny: Option<Numbered>,
}

/// The input of a search, and the lowest rules found so far.
pub(crate) struct Search<'r> {
    roles: &'r RoleSet,
    action: u32,
    allow: u32,
    deny: u32,
}

impl<'r> Search<'r> {
    pub(crate) const fn new(roles: &'r RoleSet, action: u32) -> Self {
        Self { roles, action, allow: NONE, deny: NONE }
    }

    pub(crate) const fn decision(&self) -> Decision {
        match (self.deny, self.allow) {
            (NONE, NONE) => Decision::NotAllowed,
            (NONE, rule) => Decision::Allowed(RuleId(rule)),
            (rule, _) => Decision::Denied(RuleId(rule)),
        }
    }

    fn found(&mut self, effect: Effect, rule: u32) {
        let lowest = match effect {
            Effect::Allow => &mut self.allow,
            Effect::Deny => &mut self.deny,
        };
        *lowest = rule.min(*lowest);
    }

    /// Rule ids ascend with role ids, so the lowest role has the lowest rule.
    fn sides(&mut self, sides: &Sides) {
        for (effect, side) in [(Effect::Allow, &sides.allow), (Effect::Deny, &sides.deny)] {
            if let Some(rule) = side.as_ref().and_then(|side| side.lowest_common(self.roles)) {
                self.found(effect, rule);
            }
        }
    }
}

impl Entry {
    /// `action` is `None` for a rule that applies to every action.
    pub(crate) fn new(rule: RuleId, role: RoleId, effect: Effect, action: Option<u32>) -> Self {
        Self { rule: rule.0, role: role.0, action: action.unwrap_or(ANY_ACTION), effect, last: false }
    }

    /// The sort key of a row's entries. Entries with equal keys are equal, because a rule has one role and one effect.
    pub(crate) const fn order(&self) -> (u32, u32) {
        (self.rule, self.action)
    }

    const fn matches(&self, action: u32) -> bool {
        self.action == ANY_ACTION || self.action == action
    }
}

impl Rows {
    /// Lowers the rules found so far to those of this row that apply and have a lower id.
    pub(crate) fn search(&self, row: RowId, search: &mut Search<'_>) {
        if row.0 & WIDE == 0 {
            self.search_few(row, search);
        } else {
            self.search_wide(row, search);
        }
    }

    #[inline]
    fn search_few(&self, row: RowId, search: &mut Search<'_>) {
        for entry in self.few.from(row.0) {
            if entry.matches(search.action) && search.roles.contains(entry.role) {
                search.found(entry.effect, entry.rule);
            }
            if entry.last {
                return;
            }
        }
    }

    fn search_wide(&self, row: RowId, search: &mut Search<'_>) {
        let wide = self.wide.at(row.0 & !WIDE);
        search.sides(&wide.any);
        let place = wide.actions.binary_search(&search.action);
        if let Some(named) = place.ok().and_then(|place| wide.named.get(place)) {
            search.sides(named);
        }
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} short entries, {} wide rows", self.few.len(), self.wide.len())
    }
}

/// Builds rows, without duplicates: a rule with a thousand resources has one row.
#[derive(Default)]
pub(crate) struct RowsBuilder {
    rows: Rows,
    /// The entries of each wide row, which the finished row does not keep.
    of_wide: Table<Box<[Entry]>>,
    made: HashTable<RowId>,
    seed: foldhash::fast::RandomState,
}

impl RowsBuilder {
    /// The row with these entries, which must be sorted, distinct and not empty.
    pub(crate) fn row(&mut self, entries: &mut [Entry]) -> RowId {
        if let Some(last) = entries.last_mut() {
            last.last = true;
        }
        let hash = self.seed.hash_one(&*entries);
        if let Some(row) = self.made.find(hash, |other| self.entries(*other) == entries) {
            return *row;
        }
        let row = self.push(entries);
        let Self { rows, of_wide, made, seed } = self;
        made.insert_unique(hash, row, |other| seed.hash_one(entries_of(rows, of_wide, *other)));
        row
    }

    pub(crate) fn finish(mut self) -> Rows {
        self.rows.few.shrink();
        self.rows.wide.shrink();
        self.rows
    }

    fn push(&mut self, entries: &[Entry]) -> RowId {
        if entries.len() > FEW {
            self.of_wide.push(entries.into());
            return RowId(self.rows.wide.push(Wide::new(entries)) | WIDE);
        }
        let row = RowId(self.rows.few.len());
        assert!(row.few().is_some(), "a policy has fewer than 2^31 short rows");
        for entry in entries {
            self.rows.few.push(*entry);
        }
        row
    }

    fn entries(&self, row: RowId) -> &[Entry] {
        entries_of(&self.rows, &self.of_wide, row)
    }
}

fn entries_of<'r>(rows: &'r Rows, of_wide: &'r Table<Box<[Entry]>>, row: RowId) -> &'r [Entry] {
    if row.0 & WIDE != 0 {
        return of_wide.at(row.0 & !WIDE);
    }
    let from = rows.few.from(row.0);
    let end = from.iter().position(|entry| entry.last).map_or(0, |last| last + 1);
    from.get(..end).unwrap_or_default()
}

impl Wide {
    fn new(entries: &[Entry]) -> Self {
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|entry| (entry.action, entry.role, entry.rule));
        let of_action = |action: u32| {
            let start = sorted.partition_point(|entry| entry.action < action);
            let end = sorted.partition_point(|entry| entry.action <= action);
            Sides::new(sorted.get(start..end).unwrap_or_default())
        };
        let mut actions: Vec<u32> = sorted.iter().map(|entry| entry.action).collect();
        actions.dedup();
        actions.retain(|action| *action != ANY_ACTION);
        let named = actions.iter().map(|action| of_action(*action)).collect();
        Self { any: of_action(ANY_ACTION), actions: actions.into(), named }
    }
}

impl Sides {
    /// Takes the entries of one action, sorted by role and rule.
    fn new(entries: &[Entry]) -> Self {
        let side = |effect: Effect| {
            let mut lowest: Vec<(u32, u32)> = Vec::new();
            for entry in entries.iter().filter(|entry| entry.effect == effect) {
                if lowest.last().is_none_or(|(role, _)| *role != entry.role) {
                    lowest.push((entry.role, entry.rule));
                }
            }
            (!lowest.is_empty()).then(|| Numbered::new(&lowest))
        };
        Self { allow: side(Effect::Allow), deny: side(Effect::Deny) }
    }
}
