//! Compares two policies: for each kind of callers, the requests whose answer differs, described
//! with the rules that cause the difference.
//!
//! A *cell* is a kind of paths: all paths that the same patterns match. A *point* is a kind of
//! requests: a method, a kind of hosts, and a cell. One *representative* of each kind is evaluated.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use policy::Policy;
use policy::model::Effect;
use policy::pattern::{Actions, Pattern};
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::TooComplex;
use crate::callers::{self, CallerKind, NameGlob, Side, SourceCallers, Users};
use crate::cases::Cases;
use crate::cells;
use crate::conditions::{Attributes, Condition, Direction};
use crate::evaluator::{PointAnswers, point_answers};
use crate::grants::CallerSource;
use crate::hosts::Hosts;
use crate::interned::Conditions;
use crate::regions::{Dimensions, Region};
use crate::rules::{CallerRule, ComparedRules, RuleSets};
use crate::segments::RepresentativeCache;
use crate::settings::{self, SettingChange};

/// The maximum number of kinds of requests that are compared for one kind of callers.
const MAX_POINTS: u32 = 50_000_000;

/// An exact description is used if it is at most this much longer than a wider description. The
/// wider description includes requests whose answer does not change. [`length`] measures both.
const MAX_MORE_EXCEPTIONS: usize = 2;

/// The meaning of a change of a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// The conditions with a name whose text is another, if there are changes. They are no
    /// difference by themselves: `changes` has what they grant and revoke.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionChange>,
    /// The granted requests, then the revoked requests.
    pub changes: Vec<Change>,
    /// The other differences: users, passwords, issuers, keys, responses.
    pub settings: Vec<SettingChange>,
}

/// A condition with a name whose text is another now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionChange {
    /// Its name.
    pub name: String,
    /// Its text in the old policy.
    pub old: String,
    /// Its text in the new policy.
    pub new: String,
}

/// Requests that only one policy allows to some callers.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Whether they are granted or revoked.
    pub direction: Direction,
    /// The requests.
    #[serde(flatten)]
    pub region: Region,
    /// The conditions under which it applies; `None` if it always does.
    pub cases: Option<Cases>,
    /// The rule that makes the difference.
    pub because: Cause,
    /// The callers.
    pub who: Vec<Who>,
    /// Whether it is granted to callers without credentials.
    pub to_anyone: bool,
}

/// A rule that makes a difference: only one policy has it, or it has other callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cause {
    /// The name of its role.
    pub role: String,
    /// Its name.
    pub rule: String,
    /// Whether it is a `deny` rule.
    pub denies: bool,
    /// Whether it is a rule of the new policy, and not of the old policy.
    pub is_new: bool,
    /// Its place in that policy, as `file:line:column`.
    pub at: String,
}

/// Some callers of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Who {
    /// How they authenticate.
    #[serde(flatten)]
    pub source: CallerSource,
    /// Their user names, with the prefix of their source; `None` if the name does not matter.
    pub users: Option<Vec<String>>,
    /// User names to which this does not apply.
    pub except_users: Vec<String>,
    /// The globs that their names match, or do not match.
    pub names_like: Vec<NameGlob>,
    /// The roles and groups in their tokens.
    #[serde(flatten)]
    pub condition: Condition,
}

impl Diff {
    /// Whether nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.settings.is_empty()
    }
}

/// Compares two policies.
///
/// # Errors
/// If there are too many kinds of requests or callers to compare.
pub fn diff(old: &Policy, new: &Policy) -> Result<Diff, TooComplex> {
    let mut conditions = Conditions::default();
    let sides = [Side::new(old, &mut conditions)?, Side::new(new, &mut conditions)?];
    let rule_sets = RuleSets::new(&sides, &conditions);
    let mut representatives = RepresentativeCache::default();
    let mut changes = Changes::default();
    for source in callers::sources(&sides, &mut conditions)? {
        let mut differences = Vec::new();
        for kind in &source.kinds {
            differences.push(if rule_sets.may_differ(&sides, kind, &source, &conditions) {
                find_differences(&sides, &source, kind, &mut representatives, &mut conditions)?
            } else {
                Vec::new()
            });
        }
        changes.add(&source, differences);
    }
    let changes = changes.into_sorted();
    let conditions = if changes.is_empty() { Vec::new() } else { changed_conditions(old, new) };
    Ok(Diff { conditions, changes, settings: settings::changes(old, new) })
}

/// The named conditions that have different texts in the two policies. A condition with the same
/// text in both is left out, even if it refers to a condition that changed.
fn changed_conditions(old: &Policy, new: &Policy) -> Vec<ConditionChange> {
    let old_texts: HashMap<&str, &str> =
        old.conditions.iter().map(|(name, condition)| (&**name, &*condition.text)).collect();
    let changes = new.conditions.iter().filter_map(|(name, condition)| {
        let old = *old_texts.get(&**name)?;
        let (name, new) = (name.to_string(), condition.text.to_string());
        (old != new).then(|| ConditionChange { name, old: old.to_owned(), new })
    });
    changes.collect()
}

/// The properties that distinguish changes: callers with the same key share a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ChangeKey {
    direction: Direction,
    region: Region,
    cases: Option<Rc<Cases>>,
    cause: Cause,
}

/// The requests that callers of a kind may make under one of the policies only, each with the
/// attributes of the callers' tokens.
type Differences = Vec<(ChangeKey, Attributes)>;

fn find_differences(
    sides: &[Side<'_>; 2],
    source: &SourceCallers,
    kind: &CallerKind,
    representatives: &mut RepresentativeCache,
    conditions: &mut Conditions,
) -> Result<Differences, TooComplex> {
    let compared = ComparedRules::new(sides, kind, source, conditions);
    let cells = cells::cells(&compared.patterns, representatives)?;
    let rules_by_pattern = compared.rules_by_pattern();
    let rules_by_cell: Vec<BTreeSet<usize>> = cells
        .iter()
        .map(|cell| {
            let rules = cell.iter().filter_map(|pattern| rules_by_pattern.get(*pattern));
            rules.flatten().copied().collect()
        })
        .collect();
    let involved: BTreeSet<usize> = rules_by_cell.iter().flatten().copied().collect();
    let involved: Vec<&CallerRule<'_>> =
        involved.iter().filter_map(|index| compared.rules.get(*index)).collect();
    let methods = involved.iter().flat_map(|caller_rule| match &caller_rule.rule.actions {
        Actions::Any => &[][..],
        Actions::These(actions) => actions,
    });
    let methods: BTreeSet<&str> = methods.map(|method| &**method).collect();
    let methods: Vec<&str> = methods.into_iter().collect();
    let hosts = Hosts::new(involved.iter().flat_map(|rule| rule.scopes.iter().copied()))?;
    let patterns: Vec<&Pattern> =
        compared.patterns.iter().map(|compared| compared.pattern).collect();
    let mut cells_by_pattern = vec![RoaringBitmap::new(); patterns.len()];
    for (number, cell) in (0..).zip(&cells) {
        for pattern in cell {
            if let Some(cells) = cells_by_pattern.get_mut(*pattern) {
                cells.insert(number);
            }
        }
    }
    let [method_count, host_count, cell_count] =
        [methods.len() + 1, hosts.representatives().count(), cells.len()]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let point_count =
        method_count.checked_mul(host_count).and_then(|count| count.checked_mul(cell_count));
    if point_count.is_none_or(|count| count > MAX_POINTS) {
        return Err(TooComplex);
    }
    let dimensions = Dimensions {
        methods: &methods,
        hosts: &hosts,
        host_count,
        cell_count,
        patterns: &patterns,
        cells_by_pattern: &cells_by_pattern,
    };
    let scopes: Vec<RuleScope> =
        compared.rules.iter().map(|rule| RuleScope::new(rule, &methods, &hosts)).collect();
    let mut evaluator =
        Evaluator { rules: &compared.rules, scopes: &scopes, conditions, answers: HashMap::new() };
    let mut evaluated: BTreeMap<Attributes, EvaluatedPoints> = BTreeMap::new();
    let mut changed: BTreeMap<(Attributes, Direction, Option<Rc<Cases>>), RoaringBitmap> =
        BTreeMap::new();
    for (cell, rules) in (0..).zip(&rules_by_cell) {
        for method in 0..method_count {
            for host in 0..host_count {
                let point = dimensions.point(method, host, cell);
                let answers = evaluator.answers(rules, method, host);
                for (attributes, always) in &answers.always {
                    evaluated.entry(attributes.clone()).or_default().add(point, *always);
                }
                for change in &answers.changes {
                    changed.entry(change.clone()).or_default().insert(point);
                }
            }
        }
    }
    // The answers that do not depend on attributes.
    let everyone = evaluated.remove(&Vec::new()).unwrap_or_default();
    let mut differences = Vec::new();
    let describer = Describer { compared: &compared, scopes: &scopes, dimensions: &dimensions };
    for ((attributes, direction, cases), points) in changed {
        let same = match evaluated.get(&attributes) {
            Some(evaluated) => &points | evaluated.same_answer(direction, &everyone),
            None => &points | everyone.same_answer(direction, &EvaluatedPoints::default()),
        };
        for (region, rule) in describer.describe(direction, &attributes, points, &same) {
            let key =
                ChangeKey { direction, region, cases: cases.clone(), cause: Cause::new(rule) };
            differences.push((key, attributes.clone()));
        }
    }
    Ok(differences)
}

/// The points that were evaluated with some attributes, and the points that the new policy always
/// allows, or always denies, with these attributes.
#[derive(Default)]
struct EvaluatedPoints {
    evaluated: RoaringBitmap,
    allowed: RoaringBitmap,
    denied: RoaringBitmap,
}

impl EvaluatedPoints {
    fn add(&mut self, point: u32, [allowed, denied]: [bool; 2]) {
        self.evaluated.insert(point);
        if allowed {
            self.allowed.insert(point);
        }
        if denied {
            self.denied.insert(point);
        }
    }

    /// The points that the new policy always allows (if granted) or always denies (if revoked). A
    /// point that was not evaluated with these attributes has the answer for `everyone`.
    fn same_answer(&self, direction: Direction, everyone: &Self) -> RoaringBitmap {
        match direction {
            Direction::Granted => &self.allowed | (&everyone.allowed - &self.evaluated),
            Direction::Revoked => &self.denied | (&everyone.denied - &self.evaluated),
        }
    }
}

/// The numbers of the methods and the hosts that a rule matches.
struct RuleScope {
    methods: RoaringBitmap,
    hosts: RoaringBitmap,
}

impl RuleScope {
    fn new(
        CallerRule { rule, scopes, .. }: &CallerRule<'_>,
        methods: &[&str],
        hosts: &Hosts,
    ) -> Self {
        // The last number stands for every method that no rule names.
        let numbered = (0..).zip(methods.iter().copied().map(Some).chain([None]));
        let methods = numbered.filter(|(_, method)| match (&rule.actions, method) {
            (Actions::Any, _) => true,
            (Actions::These(_), None) => false,
            (actions @ Actions::These(_), Some(method)) => actions.matches(method.as_bytes()),
        });
        let hosts = (0..).zip(hosts.representatives()).filter(|(_, host)| {
            scopes.is_empty() || scopes.iter().any(|scope| scope.matches(host.as_bytes()))
        });
        Self {
            methods: methods.map(|(number, _)| number).collect(),
            hosts: hosts.map(|(number, _)| number).collect(),
        }
    }
}

/// Evaluates both policies for points. Many points have the same rules, so answers are cached.
struct Evaluator<'a, 'p> {
    rules: &'a [CallerRule<'p>],
    scopes: &'a [RuleScope],
    conditions: &'a mut Conditions,
    answers: HashMap<Vec<usize>, PointAnswers>,
}

impl Evaluator<'_, '_> {
    fn answers(&mut self, rules: &BTreeSet<usize>, method: u32, host: u32) -> &PointAnswers {
        let matching = rules.iter().copied().filter(|index| {
            self.scopes
                .get(*index)
                .is_some_and(|scope| scope.methods.contains(method) && scope.hosts.contains(host))
        });
        let matching: Vec<usize> = matching.collect();
        self.answers.entry(matching).or_insert_with_key(|matching| {
            let rules: Vec<&CallerRule<'_>> =
                matching.iter().filter_map(|index| self.rules.get(*index)).collect();
            point_answers(&rules, self.conditions)
        })
    }
}

/// Describes points with the rules that cause the difference.
struct Describer<'c, 'p> {
    compared: &'c ComparedRules<'p>,
    scopes: &'c [RuleScope],
    dimensions: &'c Dimensions<'c>,
}

impl<'c, 'p> Describer<'c, 'p> {
    /// Describes `points` with one rule after another, first the rule that matches most of them. A
    /// description includes other points with the `same_answer` if that makes it much shorter.
    fn describe(
        &self,
        direction: Direction,
        attributes: &[usize],
        mut points: RoaringBitmap,
        same_answer: &RoaringBitmap,
    ) -> Vec<(Region, &'c CallerRule<'p>)> {
        if points.is_empty() {
            return Vec::new();
        }
        let mut candidates: Vec<_> = self
            .compared
            .rules
            .iter()
            .zip(self.scopes)
            .filter(|(rule, _)| rule.can_cause(direction) && rule.is_possible_with(attributes))
            .map(|(rule, scope)| {
                let patterns = self.changed_patterns(rule);
                let matched = self.points(&patterns, scope);
                (rule, patterns, matched)
            })
            .collect();
        let mut described = Vec::new();
        while !points.is_empty() {
            candidates.retain(|(.., matched)| !matched.is_disjoint(&points));
            let best = candidates
                .iter()
                .rev()
                .max_by_key(|(.., matched)| matched.intersection_len(&points));
            let Some((rule, patterns, matched)) = best else { break };
            let exact = matched & &points;
            let wider = self.dimensions.widen(&exact, &(matched & same_answer));
            let mut regions = self.dimensions.regions(&exact, patterns);
            let wider_regions = self.dimensions.regions(&wider, patterns);
            if length(&regions) > length(&wider_regions) + MAX_MORE_EXCEPTIONS {
                points -= &wider;
                regions = wider_regions;
                regions.iter_mut().for_each(|region| region.in_part = true);
            } else {
                points -= &exact;
            }
            described.extend(regions.into_iter().map(|region| (region, *rule)));
        }
        described
    }

    fn changed_patterns(&self, rule: &CallerRule<'_>) -> Vec<usize> {
        let patterns = rule.patterns.iter().copied();
        patterns
            .filter(|index| {
                self.compared.patterns.get(*index).is_some_and(|pattern| pattern.changed)
            })
            .collect()
    }

    /// The points that a rule matches with these patterns.
    fn points(&self, patterns: &[usize], scope: &RuleScope) -> RoaringBitmap {
        let mut cells = RoaringBitmap::new();
        for matched in
            patterns.iter().filter_map(|pattern| self.dimensions.cells_by_pattern.get(*pattern))
        {
            cells |= matched;
        }
        let mut points = RoaringBitmap::new();
        for method in &scope.methods {
            for host in &scope.hosts {
                points.extend(cells.iter().map(|cell| self.dimensions.point(method, host, cell)));
            }
        }
        points
    }
}

impl CallerRule<'_> {
    /// Whether the change of this rule can grant or revoke requests. An `allow` rule of the new
    /// policy grants, and so does a `deny` rule of the old policy.
    pub(crate) fn can_cause(&self, direction: Direction) -> bool {
        let is_granted = direction == Direction::Granted;
        self.changed && (self.is_new == is_granted) == (self.effect == Effect::Allow)
    }

    /// Whether a caller whose token has these attributes can have this rule.
    fn is_possible_with(&self, attributes: &[usize]) -> bool {
        self.everyone || attributes.iter().any(|attribute| self.attributes.contains(attribute))
    }
}

/// The number of patterns and exceptions that a person must read.
fn length(regions: &[Region]) -> usize {
    regions.iter().map(|region| 1 + region.also_matching.len() + region.except_paths.len()).sum()
}

impl Cause {
    fn new(CallerRule { is_new, role, rule, effect, .. }: &CallerRule<'_>) -> Self {
        Self {
            role: role.name.to_string(),
            rule: rule.name.to_string(),
            denies: *effect == Effect::Deny,
            is_new: *is_new,
            at: rule.at.to_string(),
        }
    }
}

/// The changes of all sources, each with all its callers.
#[derive(Default)]
struct Changes {
    order: Vec<ChangeKey>,
    who: HashMap<ChangeKey, Vec<Who>>,
}

impl Changes {
    /// Adds the differences for each kind of callers of a source.
    fn add(&mut self, source: &SourceCallers, differences: Vec<Differences>) {
        let mut order: Vec<ChangeKey> = Vec::new();
        // For each change and its attributes: the kinds of callers, as indices of `source.kinds`.
        let mut kinds_by_key: HashMap<ChangeKey, BTreeMap<Attributes, BTreeSet<usize>>> =
            HashMap::new();
        for (kind, differences) in differences.into_iter().enumerate() {
            for (key, attributes) in differences {
                if !kinds_by_key.contains_key(&key) {
                    order.push(key.clone());
                }
                let kinds = kinds_by_key.entry(key).or_default().entry(attributes);
                kinds.or_default().insert(kind);
            }
        }
        for key in order {
            // For each set of kinds: lists of attributes. A caller needs one attribute of each
            // list. If a single attribute is enough, it is an alternative in the only list. If two
            // attributes are needed together, each has its own list.
            let mut needs_by_kinds: Vec<(BTreeSet<usize>, Vec<Vec<usize>>)> = Vec::new();
            for (attributes, kinds) in kinds_by_key.remove(&key).into_iter().flatten() {
                let same_kinds = needs_by_kinds.iter_mut().find(|(same_kinds, needs)| {
                    *same_kinds == kinds && attributes.len() == 1 && needs.len() == 1
                });
                match same_kinds {
                    Some((_, needs)) => {
                        needs.iter_mut().for_each(|need| need.extend(&attributes));
                    }
                    None => {
                        let needs = attributes.into_iter().map(|attribute| vec![attribute]);
                        needs_by_kinds.push((kinds, needs.collect()));
                    }
                }
            }
            if !self.who.contains_key(&key) {
                self.order.push(key.clone());
            }
            let who = self.who.entry(key).or_default();
            for (kinds, needs) in needs_by_kinds {
                let needs = needs.into_iter().map(|need| {
                    let attributes = need.into_iter().filter_map(|i| source.attributes.get(i));
                    attributes.map(|(attribute, _)| attribute.clone()).collect()
                });
                let condition = Condition { needs: needs.collect() };
                who.extend(describe_kinds(source, &kinds, &condition));
            }
        }
    }

    fn into_sorted(mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for key in self.order {
            let Some(who) = self.who.remove(&key) else { continue };
            let ChangeKey { direction, region, cases, cause } = key;
            let to_anyone = direction == Direction::Granted
                && who.iter().any(|who| who.source == CallerSource::Anonymous);
            let cases = cases.map(Rc::unwrap_or_clone);
            changes.push(Change { direction, region, cases, because: cause, who, to_anyone });
        }
        changes.sort_by_key(|change| (change.direction, !change.to_anyone));
        changes
    }
}

/// The callers of these kinds, in as few descriptions as possible.
fn describe_kinds(
    source: &SourceCallers,
    kinds: &BTreeSet<usize>,
    condition: &Condition,
) -> Vec<Who> {
    let everyone = Who {
        source: source.source.clone(),
        users: None,
        except_users: Vec::new(),
        names_like: Vec::new(),
        condition: condition.clone(),
    };
    if source.source == CallerSource::Anonymous {
        return vec![everyone];
    }
    let (mut included, mut excluded, mut globs) = (Vec::new(), Vec::new(), Vec::new());
    let mut unlisted_kinds = 0;
    for (index, kind) in source.kinds.iter().enumerate() {
        match &kind.users {
            Users::Listed(users) if kinds.contains(&index) => included.extend_from_slice(users),
            Users::Listed(users) => excluded.extend_from_slice(users),
            Users::Unlisted(names_like) => {
                unlisted_kinds += 1;
                globs.extend(kinds.contains(&index).then_some(names_like));
            }
        }
    }
    included.sort();
    excluded.sort();
    if unlisted_kinds > 0 && globs.len() == unlisted_kinds {
        return vec![Who { except_users: excluded, ..everyone }];
    }
    let mut listed = [included.as_slice(), &excluded].concat();
    listed.sort();
    let unlisted = globs.into_iter().map(|names_like| Who {
        except_users: listed.clone(),
        names_like: names_like.clone(),
        ..everyone.clone()
    });
    let included =
        (!included.is_empty()).then(|| Who { users: Some(included), ..everyone.clone() });
    included.into_iter().chain(unlisted).collect()
}
