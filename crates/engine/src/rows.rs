//! What the rules say at one place: the end of a resource pattern in the trie has a row, and the row says for each
//! action which roles may and which may not, and by which rule.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use policy::model::{Effect, RoleId, RuleId};

use crate::roles::{Numbered, RoleSet};
use crate::table::{NONE, Table};
use crate::{Decision, Match};

/// The number of an action that no rule names: only rules for every action match it.
pub(crate) const UNKNOWN_ACTION: u32 = u32::MAX - 1;
/// In an [`Entry`]: every action.
const ANY_ACTION: u32 = u32::MAX;

/// Up to so many entries a row is searched one by one; most rows are. All of them stand in
/// two or three cache lines then.
const FEW: usize = 8;
/// Marks the numbers of rows that are not searched one by one.
const WIDE: u32 = 1 << 31;

/// Where a row is. `NO_ROW` where no pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowId(u32);

pub(crate) const NO_ROW: RowId = RowId(NONE);

impl RowId {
    /// The number of a row that is searched one by one, if it is: less than 2³¹.
    pub(crate) fn few(self) -> Option<u32> {
        (self.0 & WIDE == 0).then_some(self.0)
    }

    pub(crate) const fn of_few(number: u32) -> Self {
        Self(number)
    }
}

/// That one rule matches one action here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    rule: u32,
    role: u32,
    action: u32,
    effect: Effect,
    /// Whether the next entry belongs to another row.
    last: bool,
}

/// All rows.
#[derive(Default)]
pub(crate) struct Rows {
    few: Table<Entry>,
    wide: Table<Wide>,
}

/// A row with many entries, by action.
struct Wide {
    /// The rules for every action.
    any: Sides,
    /// The actions that rules name, in order.
    actions: Box<[u32]>,
    /// For each of them the rules that name it. The rules in `any` are not repeated here: with many actions and many
    /// roles that would be their product.
    named: Box<[Sides]>,
    /// All entries, for explanations.
    entries: Box<[Entry]>,
}

/// The rules for one action: for each role the one with the lowest number.
struct Sides {
    allow: Option<Numbered>,
    deny: Option<Numbered>,
}

/// What a decision looks for, and the lowest rules that it has found.
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

    /// Rules are numbered in the order of their roles, so the lowest role has the lowest rule.
    fn sides(&mut self, sides: &Sides) {
        for (effect, side) in [(Effect::Allow, &sides.allow), (Effect::Deny, &sides.deny)] {
            if let Some(rule) = side.as_ref().and_then(|side| side.lowest_common(self.roles)) {
                self.found(effect, rule);
            }
        }
    }
}

impl Entry {
    /// `action` is `None` for every action.
    pub(crate) fn new(rule: RuleId, role: RoleId, effect: Effect, action: Option<u32>) -> Self {
        Self { rule: rule.0, role: role.0, action: action.unwrap_or(ANY_ACTION), effect, last: false }
    }

    /// By this the entries of a row are ordered; equal ones say the same, for a rule is in one role and has one effect.
    pub(crate) const fn order(&self) -> (u32, u32) {
        (self.rule, self.action)
    }

    const fn matches(&self, action: u32) -> bool {
        self.action == ANY_ACTION || self.action == action
    }
}

impl Rows {
    /// Finds the lowest rules of a row that apply, where they are lower than those that were found before.
    pub(crate) fn search(&self, row: RowId, search: &mut Search<'_>) {
        if row.0 & WIDE == 0 {
            self.search_few(row, search);
        } else {
            self.search_wide(row, search);
        }
    }

    /// Every rule of a row that names this action or every action.
    pub(crate) fn matching(&self, row: RowId, action: u32) -> Vec<Match> {
        let matching = self.entries(row).iter().filter(|entry| entry.matches(action));
        matching.map(|it| Match { rule: RuleId(it.rule), role: RoleId(it.role), effect: it.effect }).collect()
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

    fn entries(&self, row: RowId) -> &[Entry] {
        if row.0 & WIDE != 0 {
            return &self.wide.at(row.0 & !WIDE).entries;
        }
        let from = self.few.from(row.0);
        let end = from.iter().position(|entry| entry.last).map_or(0, |last| last + 1);
        from.get(..end).unwrap_or_default()
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} short entries, {} wide rows", self.few.len(), self.wide.len())
    }
}

/// Makes rows, each once: a rule with a thousand resources has one row.
#[derive(Default)]
pub(crate) struct RowsBuilder {
    rows: Rows,
    made: HashTable<RowId>,
    seed: foldhash::fast::RandomState,
}

impl RowsBuilder {
    /// The row with these entries, of which there is at least one, in order and each once.
    pub(crate) fn row(&mut self, entries: &mut [Entry]) -> RowId {
        if let Some(last) = entries.last_mut() {
            last.last = true;
        }
        let Self { rows, made, seed } = self;
        let hash = seed.hash_one(&*entries);
        if let Some(row) = made.find(hash, |other| rows.entries(*other) == entries) {
            return *row;
        }
        let row = rows.push(entries);
        made.insert_unique(hash, row, |other| seed.hash_one(rows.entries(*other)));
        row
    }

    pub(crate) fn finish(mut self) -> Rows {
        self.rows.few.shrink();
        self.rows.wide.shrink();
        self.rows
    }
}

impl Rows {
    fn push(&mut self, entries: &[Entry]) -> RowId {
        if entries.len() > FEW {
            return RowId(self.wide.push(Wide::new(entries)) | WIDE);
        }
        let row = RowId(self.few.len());
        assert!(row.few().is_some(), "a policy has fewer than 2^31 short rows");
        for entry in entries {
            self.few.push(*entry);
        }
        row
    }
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
        Self { any: of_action(ANY_ACTION), actions: actions.into(), named, entries: entries.into() }
    }
}

impl Sides {
    /// From the entries of one action, in the order of roles and rules.
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
