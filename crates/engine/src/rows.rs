//! Rows of rules. Each end of a resource pattern in the trie has a row, which says for each action
//! which roles are allowed or denied, and by which rule.
//!
//! Most rows have few entries, which are adjacent in memory and searched linearly. A row with many
//! entries, such as that of `/**` with a rule for each of 1,000 roles, is indexed by action, and
//! then by a set of roles: an intersection of two sets finds the deciding rule.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};
use policy::Decision;
use policy::ids::{IdVec, id_types, narrow};
use policy::model::{Effect, RoleId, RuleId};

use crate::conditions::{Candidates, GuardId};
use crate::ids::{ActionId, RowId};
use crate::roles::{RoleMap, RoleSet};

/// Maximum number of entries of a short row: two or three cache lines. Chosen, not measured.
const MAX_SHORT: usize = 8;
/// Set in a [`RowId`] that holds a [`WideId`]. Any other holds the [`EntryId`] of its first entry.
const WIDE: u32 = 1 << 31;
/// No rule. Higher than any rule, so `min` gives the lower of two rules, without an `Option`.
const NO_RULE: RuleId = RuleId(u32::MAX);

id_types! {
    /// An entry of a short row. The entries of a row are adjacent, and a search starts without
    /// another look-up.
    struct EntryId;

    /// A row that is indexed by action.
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

/// A rule of a row, for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    rule: RuleId,
    role: RoleId,
    action: ActionId,
    effect: Effect,
    /// Whether this is the last entry of its row. It fits into the padding after `effect`. A length
    /// in the [`RowId`] would make each trie node larger.
    is_last: bool,
}

/// A rule of a row that counts only under conditions. Its guard has these conditions, and the
/// placeholders that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConditionalEntry {
    pub(crate) entry: Entry,
    pub(crate) guard: GuardId,
}

/// The rows of a policy.
#[derive(Default)]
pub(crate) struct Rows {
    short: IdVec<EntryId, Entry>,
    wide: IdVec<WideId, WideRow>,
}

/// A row with many entries, indexed by action.
struct WideRow {
    /// The rules that apply whatever the action is.
    every_action: ActionRules,
    /// The actions that rules name, sorted.
    actions: Box<[ActionId]>,
    /// For each of these actions, the rules that name it. The rules in `every_action` are not
    /// repeated here: the size would grow with the product of actions and roles.
    by_action: Box<[ActionRules]>,
    conditional: Option<ConditionalRules>,
}

/// The rules of a row that count only under conditions.
struct ConditionalRules {
    /// For each role, the index of its first entry. `None` for so few entries that comparing each
    /// of their roles is quicker.
    starts: Option<RoleMap<u32>>,
    /// The rules, by role and id.
    entries: Box<[ConditionalEntry]>,
}

/// The rules for an action: for each role, the rule with the lowest id.
struct ActionRules {
    allow: Option<RoleMap<RuleId>>,
    deny: Option<RoleMap<RuleId>>,
}

/// The input of a search, and the lowest rules found so far.
pub(crate) struct Search<'r> {
    roles: &'r RoleSet,
    action: ActionId,
    allow: RuleId,
    deny: RuleId,
    /// The lowest `allow` rule that does not count, because a condition is not true.
    failed: RuleId,
    /// The `allow` rule with a guard that was kept last, and its guard. [`NO_RULE`] if none was.
    kept_guard: (RuleId, GuardId),
    candidates: Candidates<'r>,
}

impl<'r> Search<'r> {
    pub(crate) const fn new(
        roles: &'r RoleSet,
        action: ActionId,
        candidates: Candidates<'r>,
    ) -> Self {
        Self {
            roles,
            action,
            allow: NO_RULE,
            deny: NO_RULE,
            failed: NO_RULE,
            kept_guard: (NO_RULE, GuardId(0)),
            candidates,
        }
    }

    /// A `deny` rule wins over every `allow` rule, whichever has the lower id. Without any rule,
    /// the answer is a denial.
    pub(crate) const fn decision(&self) -> Decision {
        match (self.deny, self.allow, self.failed) {
            (NO_RULE, NO_RULE, NO_RULE) => Decision::NotAllowed,
            (NO_RULE, NO_RULE, rule) => Decision::ConditionFailed(rule),
            (NO_RULE, rule, _) => Decision::Allowed(rule),
            (rule, ..) => Decision::Denied(rule),
        }
    }

    /// Keeps the rule if it counts: an `allow` rule if its conditions are true, a `deny` rule
    /// unless a condition is false. The conditions of a rule that cannot change the decision are
    /// not computed.
    fn search_conditional(&mut self, ConditionalEntry { entry, guard }: ConditionalEntry) {
        let Entry { rule, role, effect, .. } = entry;
        let kept = match effect {
            Effect::Allow if self.deny != NO_RULE => return,
            Effect::Allow => self.allow,
            Effect::Deny => self.deny,
        };
        if rule >= kept || !entry.matches(self.action) {
            return;
        }
        if !self.candidates.matches_host(guard) {
            return;
        }
        match (effect, self.candidates.truth(role, guard)) {
            (Effect::Allow, Some(true)) => {
                self.keep_lowest(effect, rule);
                self.kept_guard = (rule, guard);
            }
            (Effect::Deny, Some(true) | None) => self.keep_lowest(effect, rule),
            (Effect::Allow, Some(false) | None) => self.failed = rule.min(self.failed),
            (Effect::Deny, Some(false)) => {}
        }
    }

    /// Whether the caller has this role. If the rule that allows the request has a guard, the
    /// conditions of roles and grants see the placeholders of this guard.
    pub(crate) fn has_role(&mut self, role: RoleId) -> bool {
        let (rule, guard) = self.kept_guard;
        let is_allowing = rule != NO_RULE && rule == self.allow;
        self.candidates.has(role, is_allowing.then_some(guard))
    }

    fn keep_lowest(&mut self, effect: Effect, rule: RuleId) {
        let lowest = match effect {
            Effect::Allow => &mut self.allow,
            Effect::Deny => &mut self.deny,
        };
        *lowest = rule.min(*lowest);
    }

    /// Keeps the lowest `allow` rule and the lowest `deny` rule of the caller's roles. Rule ids
    /// ascend with role ids, so the lowest common role has the lowest rule.
    fn search_rules(&mut self, rules: &ActionRules) {
        for (effect, rules) in [(Effect::Allow, &rules.allow), (Effect::Deny, &rules.deny)] {
            if let Some(rule) = rules.as_ref().and_then(|rules| rules.lowest_common(self.roles)) {
                self.keep_lowest(effect, rule);
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
        Self { rule, role, action: action.unwrap_or(ActionId::ANY), effect, is_last: false }
    }

    /// The sort key of a row's entries. Entries of a row with equal keys are equal: the rule
    /// determines role and effect.
    pub(crate) const fn order(&self) -> (RuleId, ActionId) {
        (self.rule, self.action)
    }

    fn matches(&self, action: ActionId) -> bool {
        self.action == ActionId::ANY || self.action == action
    }
}

impl Rows {
    /// Searches a row, and keeps its rules in `search` if their ids are lower.
    pub(crate) fn search(&self, row: RowId, search: &mut Search<'_>) {
        if row.is_wide() {
            self.search_wide(row.wide(), search);
        } else {
            self.search_short(row.first(), search);
        }
    }

    #[inline]
    fn search_short(&self, first: EntryId, search: &mut Search<'_>) {
        for entry in self.short.from(first) {
            if entry.matches(search.action) && search.roles.contains(entry.role) {
                search.keep_lowest(entry.effect, entry.rule);
            }
            if entry.is_last {
                return;
            }
        }
    }

    /// The entries of a short row.
    fn short_row(&self, row: RowId) -> &[Entry] {
        let mut rows = self.short.from(row.first()).split_inclusive(|entry| entry.is_last);
        rows.next().unwrap_or_default()
    }

    /// The rules without conditions take two look-ups, whatever their number: those that apply
    /// whatever the action is, and those that name this action. The rules with conditions follow.
    fn search_wide(&self, row: WideId, search: &mut Search<'_>) {
        let row = self.wide.at(row);
        search.search_rules(&row.every_action);
        let index = row.actions.binary_search(&search.action);
        if let Some(rules) = index.ok().and_then(|index| row.by_action.get(index)) {
            search.search_rules(rules);
        }
        if let Some(rules) = &row.conditional {
            rules.search(search);
        }
    }
}

/// The entries of a wide row: those without and those with conditions.
type WideKey = (Box<[Entry]>, Box<[ConditionalEntry]>);

/// Builds rows, without duplicates. The ends of all patterns of a rule can share a row, unless the
/// rule counts only under conditions: it has a different guard at each end, so the rows differ.
#[derive(Default)]
pub(crate) struct RowsBuilder {
    rows: Rows,
    /// The short rows, by the hashes of their entries. With a copy of the entries of each row,
    /// compiling 100,000 rules took 1.5 × the time (November 2026).
    short: HashTable<RowId>,
    wide: HashMap<WideKey, RowId, RandomState>,
}

impl RowsBuilder {
    /// The id of the row with these entries, at least one, which must be sorted and distinct. A new
    /// row is added. A row with conditions is wide.
    pub(crate) fn add(&mut self, entries: &mut [Entry], conditional: &[ConditionalEntry]) -> RowId {
        if let Some(last) = entries.last_mut() {
            last.is_last = true;
        }
        let Self { rows, short, wide } = self;
        if entries.len() > MAX_SHORT || !conditional.is_empty() {
            let row = wide.entry(((&*entries).into(), conditional.into()));
            return *row.or_insert_with(|| {
                RowId(rows.wide.push(WideRow::new(entries, conditional)).0 | WIDE)
            });
        }
        let seed = wide.hasher();
        let hash = seed.hash_one(&*entries);
        if let Some(row) = short.find(hash, |row| rows.short_row(*row) == entries) {
            return *row;
        }
        let row = RowId(rows.short.next_id().0);
        assert!(!row.is_wide(), "a policy has fewer than 2^31 entries of short rows");
        rows.short.extend(entries.iter().copied());
        short.insert_unique(hash, row, |row| seed.hash_one(rows.short_row(*row)));
        row
    }

    pub(crate) fn finish(mut self) -> Rows {
        self.rows.short.shrink();
        self.rows.wide.shrink();
        self.rows
    }
}

impl WideRow {
    fn new(entries: &[Entry], conditional: &[ConditionalEntry]) -> Self {
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|entry| (entry.action, entry.role, entry.rule));
        let mut every_action = ActionRules { allow: None, deny: None };
        let (mut actions, mut by_action) = (Vec::new(), Vec::new());
        for entries in sorted.chunk_by(|a, b| a.action == b.action) {
            let rules = ActionRules {
                allow: lowest_rules(entries, Effect::Allow),
                deny: lowest_rules(entries, Effect::Deny),
            };
            match entries.first().map(|entry| entry.action) {
                Some(ActionId::ANY) | None => every_action = rules,
                Some(action) => {
                    actions.push(action);
                    by_action.push(rules);
                }
            }
        }
        Self {
            every_action,
            actions: actions.into(),
            by_action: by_action.into(),
            conditional: ConditionalRules::new(conditional),
        }
    }
}

impl ConditionalRules {
    fn search(&self, search: &mut Search<'_>) {
        let Some(starts) = &self.starts else {
            for entry in &self.entries {
                if search.roles.contains(entry.entry.role) {
                    search.search_conditional(*entry);
                }
            }
            return;
        };
        let roles = search.roles;
        starts.for_each_common(roles, |start| {
            let entries = self.entries.get(start as usize..).unwrap_or_default();
            let role = entries.first().map(|entry| entry.entry.role);
            for entry in entries.iter().take_while(|entry| Some(entry.entry.role) == role) {
                search.search_conditional(*entry);
            }
        });
    }

    fn new(entries: &[ConditionalEntry]) -> Option<Self> {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|conditional| (conditional.entry.role, conditional.entry.rule));
        let indices = entries.iter().enumerate();
        let mut starts: Vec<(RoleId, u32)> =
            indices.map(|(index, conditional)| (conditional.entry.role, narrow(index))).collect();
        starts.dedup_by_key(|(role, _)| *role);
        let starts = (entries.len() > MAX_SHORT).then(|| RoleMap::new(&starts));
        (!entries.is_empty()).then(|| Self { starts, entries: entries.into() })
    }
}

/// The lowest rule of each role with this effect. Takes entries sorted by role and rule.
fn lowest_rules(entries: &[Entry], effect: Effect) -> Option<RoleMap<RuleId>> {
    let mut rules: Vec<(RoleId, RuleId)> = entries
        .iter()
        .filter(|entry| entry.effect == effect)
        .map(|entry| (entry.role, entry.rule))
        .collect();
    rules.dedup_by_key(|(role, _)| *role);
    (!rules.is_empty()).then(|| RoleMap::new(&rules))
}
