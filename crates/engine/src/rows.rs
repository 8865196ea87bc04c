//! Rows: the rules at one place. Each end of a resource pattern in the trie has a row, which says
//! for each action which roles are allowed or denied, and by which rule.
//!
//! Most rows have few entries, which are adjacent in memory and searched one by one. A row with
//! many entries, such as that of `/**` with a rule for each of 1,000 roles, is indexed by action,
//! and then by a set of roles: one intersection finds the deciding rule.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use policy::Decision;
use policy::ids::{IdVec, id_types};
use policy::model::{Effect, RoleId, RuleId};

use crate::ids::{ActionId, RowId};
use crate::roles::{RoleRules, RoleSet};

/// Rows of up to this many entries are searched linearly: two or three cache lines. Chosen, not
/// measured.
const FEW: usize = 8;
/// Set in a [`RowId`] that holds a [`WideId`]. Any other holds the [`EntryId`] of its first entry.
const WIDE: u32 = 1 << 31;
/// Higher than any rule: none was found. With this in place of an `Option`, keeping the lowest rule
/// is one `min`.
const NO_RULE: RuleId = RuleId(u32::MAX);

id_types! {
    /// An entry of a short row. Short rows are stored one after another, so that a search reads
    /// adjacent memory and starts without another look-up.
    struct EntryId;

    /// A row that is not searched linearly.
    struct WideId;
}

impl RowId {
    pub(crate) const fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    /// The first entry of a row that is not wide.
    const fn first(self) -> EntryId {
        EntryId(self.0)
    }

    const fn wide(self) -> WideId {
        WideId(self.0 & !WIDE)
    }
}

/// States that one rule matches one action at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    rule: RuleId,
    role: RoleId,
    action: ActionId,
    effect: Effect,
    /// Whether this is the last entry of its row. It takes no room beside `effect`; a length in the
    /// row's id would make each end of a pattern larger.
    last: bool,
}

/// All rows.
#[derive(Default)]
pub(crate) struct Rows {
    few: IdVec<EntryId, Entry>,
    wide: IdVec<WideId, Wide>,
}

/// A row with many entries, indexed by action.
struct Wide {
    /// The rules for every action.
    any: Sides,
    /// The actions that rules name, sorted.
    actions: Box<[ActionId]>,
    /// For each of these actions, the rules that name it. The rules in `any` are not repeated here:
    /// the size would grow with the product of actions and roles.
    named: Box<[Sides]>,
}

/// The rules for one action: for each role, the rule with the lowest id.
struct Sides {
    allow: Option<RoleRules>,
    deny: Option<RoleRules>,
}

/// The input of a search, and the lowest rules found so far.
pub(crate) struct Search<'r> {
    roles: &'r RoleSet,
    action: ActionId,
    allow: RuleId,
    deny: RuleId,
}

impl<'r> Search<'r> {
    pub(crate) const fn new(roles: &'r RoleSet, action: ActionId) -> Self {
        Self { roles, action, allow: NO_RULE, deny: NO_RULE }
    }

    /// A `deny` rule wins over every `allow` rule, whichever has the lower id. Without any rule,
    /// the answer is a denial.
    pub(crate) const fn decision(&self) -> Decision {
        match (self.deny, self.allow) {
            (NO_RULE, NO_RULE) => Decision::NotAllowed,
            (NO_RULE, rule) => Decision::Allowed(rule),
            (rule, _) => Decision::Denied(rule),
        }
    }

    fn found(&mut self, effect: Effect, rule: RuleId) {
        let lowest = match effect {
            Effect::Allow => &mut self.allow,
            Effect::Deny => &mut self.deny,
        };
        *lowest = rule.min(*lowest);
    }

    /// Rule ids ascend with role ids, so the lowest role has the lowest rule.
    fn take_lowest(&mut self, sides: &Sides) {
        for (effect, side) in [(Effect::Allow, &sides.allow), (Effect::Deny, &sides.deny)] {
            if let Some(rule) = side.as_ref().and_then(|side| side.lowest_common(self.roles)) {
                self.found(effect, rule);
            }
        }
    }
}

impl Entry {
    /// `action` is `None` for a rule that applies to every action.
    pub(crate) fn new(
        rule: RuleId,
        role: RoleId,
        effect: Effect,
        action: Option<ActionId>,
    ) -> Self {
        Self { rule, role, action: action.unwrap_or(ActionId::ANY), effect, last: false }
    }

    /// The sort key of a row's entries. Entries with equal keys are equal, because a rule has one
    /// role and one effect.
    pub(crate) const fn order(&self) -> (RuleId, ActionId) {
        (self.rule, self.action)
    }

    fn matches(&self, action: ActionId) -> bool {
        self.action == ActionId::ANY || self.action == action
    }
}

impl Rows {
    /// Lowers the rules found so far to those of this row that apply and have a lower id.
    pub(crate) fn search(&self, row: RowId, search: &mut Search<'_>) {
        if row.is_wide() {
            self.search_wide(row.wide(), search);
        } else {
            self.search_few(row.first(), search);
        }
    }

    #[inline]
    fn search_few(&self, first: EntryId, search: &mut Search<'_>) {
        for entry in self.few.from(first) {
            if entry.matches(search.action) && search.roles.contains(entry.role) {
                search.found(entry.effect, entry.rule);
            }
            if entry.last {
                return;
            }
        }
    }

    /// Two look-ups, whatever the number of rules: one for the rules of every action, one for those
    /// of this action.
    fn search_wide(&self, wide: WideId, search: &mut Search<'_>) {
        let wide = self.wide.at(wide);
        search.take_lowest(&wide.any);
        let place = wide.actions.binary_search(&search.action);
        if let Some(named) = place.ok().and_then(|place| wide.named.get(place)) {
            search.take_lowest(named);
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
    of_wide: IdVec<WideId, Box<[Entry]>>,
    known: HashTable<RowId>,
    seed: foldhash::fast::RandomState,
}

impl RowsBuilder {
    /// The row with these entries, which must be sorted, distinct and not empty.
    pub(crate) fn row(&mut self, entries: &mut [Entry]) -> RowId {
        if let Some(last) = entries.last_mut() {
            last.last = true;
        }
        let hash = self.seed.hash_one(&*entries);
        if let Some(row) = self.known.find(hash, |other| self.entries(*other) == entries) {
            return *row;
        }
        let row = self.push(entries);
        let Self { rows, of_wide, known, seed } = self;
        known.insert_unique(hash, row, |other| seed.hash_one(entries_of(rows, of_wide, *other)));
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
            return RowId(self.rows.wide.push(Wide::new(entries)).0 | WIDE);
        }
        let row = RowId(self.rows.few.next_id().0);
        assert!(!row.is_wide(), "a policy has fewer than 2^31 entries of short rows");
        self.rows.few.extend(entries.iter().copied());
        row
    }

    fn entries(&self, row: RowId) -> &[Entry] {
        entries_of(&self.rows, &self.of_wide, row)
    }
}

fn entries_of<'r>(
    rows: &'r Rows,
    of_wide: &'r IdVec<WideId, Box<[Entry]>>,
    row: RowId,
) -> &'r [Entry] {
    if row.is_wide() {
        return of_wide.at(row.wide());
    }
    let from = rows.few.from(row.first());
    let end = from.iter().position(|entry| entry.last).map_or(0, |last| last + 1);
    from.get(..end).unwrap_or_default()
}

impl Wide {
    fn new(entries: &[Entry]) -> Self {
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|entry| (entry.action, entry.role, entry.rule));
        let of_action = |action: ActionId| {
            let start = sorted.partition_point(|entry| entry.action < action);
            let end = sorted.partition_point(|entry| entry.action <= action);
            Sides::new(sorted.get(start..end).unwrap_or_default())
        };
        let mut actions: Vec<ActionId> = sorted.iter().map(|entry| entry.action).collect();
        actions.dedup();
        actions.retain(|action| *action != ActionId::ANY);
        let named = actions.iter().map(|action| of_action(*action)).collect();
        Self { any: of_action(ActionId::ANY), actions: actions.into(), named }
    }
}

impl Sides {
    /// Takes the entries of one action, sorted by role and rule.
    fn new(entries: &[Entry]) -> Self {
        let side = |effect: Effect| {
            let mut lowest: Vec<(RoleId, RuleId)> = Vec::new();
            for entry in entries.iter().filter(|entry| entry.effect == effect) {
                if lowest.last().is_none_or(|(role, _)| *role != entry.role) {
                    lowest.push((entry.role, entry.rule));
                }
            }
            (!lowest.is_empty()).then(|| RoleRules::new(&lowest))
        };
        Self { allow: side(Effect::Allow), deny: side(Effect::Deny) }
    }
}
