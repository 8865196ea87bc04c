//! Compares two policies: for each kind of callers, the requests whose answer differs, described by
//! the rules that make the difference.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use policy::Policy;
use policy::model::Effect;
use policy::pattern::{Actions, Pattern};
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::TooComplex;
use crate::callers::{self, CallerSource, Kind, NameLike, Side, Source, Users};
use crate::cells;
use crate::conditions::{Answer, Condition, Direction, Effects, answers};
use crate::held::{Compared, Contents, Held, compare};
use crate::hosts::Hosts;
use crate::regions::{Dimensions, Region};
use crate::segments::Known;
use crate::settings::{self, SettingChange};

/// The maximum number of kinds of requests that are compared for one kind of callers.
const MAX_POINTS: u32 = 50_000_000;

/// What a change of a policy means.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Who may do what they could not do before, then who may no longer do what they could do
    /// before.
    pub changes: Vec<Change>,
    /// What else is different: users, passwords, issuers, keys, responses.
    pub settings: Vec<SettingChange>,
}

/// Requests for which the answer to some callers is another.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Whether they are granted or revoked.
    pub direction: Direction,
    /// The requests.
    #[serde(flatten)]
    pub region: Region,
    /// The rule that makes the difference.
    pub because: Cause,
    /// The callers.
    pub who: Vec<Who>,
    /// Whether it is granted to callers without credentials.
    pub to_anyone: bool,
}

/// A rule that makes a difference: one that only one policy has, or that other callers have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cause {
    /// The name of its role.
    pub role: String,
    /// Its name.
    pub rule: String,
    /// Whether it is a `deny` rule.
    pub denies: bool,
    /// Whether it is one of the new policy.
    pub is_new: bool,
    /// Its place in that policy, as `file:line:column`.
    pub at: String,
}

/// Some callers of one source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Who {
    /// How they authenticate.
    #[serde(flatten)]
    pub source: CallerSource,
    /// Their user names, with the prefix of their source; `None` if the name does not matter.
    pub users: Option<Vec<String>>,
    /// User names to which this does not apply.
    pub except_users: Vec<String>,
    /// What their names are like, where globs of rules distinguish them.
    pub names_like: Vec<NameLike>,
    /// What their tokens have.
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
    let sides = [Side::new(old), Side::new(new)];
    let contents = Contents::new(&sides);
    let mut known = Known::default();
    let mut changes = Changes::default();
    for source in callers::sources(&sides)? {
        let mut found = Vec::new();
        for kind in &source.kinds {
            let differs = contents.may_differ(kind, &source);
            found.push(if differs {
                differences(&sides, &source, kind, &mut known)?
            } else {
                Vec::new()
            });
        }
        changes.add(&source, &found);
    }
    Ok(Diff { changes: changes.sorted(), settings: settings::changes(old, new) })
}

/// What is different for callers of a kind.
type Differences = Vec<Difference>;

/// Requests that callers of a kind may make under one of the policies only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Difference {
    direction: Direction,
    /// The attributes of the tokens.
    has: Vec<usize>,
    region: Region,
    cause: Cause,
}

fn differences(
    sides: &[Side<'_>; 2],
    source: &Source,
    kind: &Kind,
    known: &mut Known,
) -> Result<Differences, TooComplex> {
    let compared = compare(sides, kind, source);
    let cells = cells::cells(&compared.items, known)?;
    let rules_of_items = compared.rules_of_items();
    let rules_of_cells: Vec<BTreeSet<usize>> =
        cells.iter().map(|cell| rules(cell, &rules_of_items)).collect();
    let involved: BTreeSet<usize> = rules_of_cells.iter().flatten().copied().collect();
    let involved = || involved.iter().filter_map(|index| compared.rules.get(*index));
    let named = involved().flat_map(|held| match &held.rule.actions {
        Actions::Any => &[][..],
        Actions::These(these) => these,
    });
    let methods: BTreeSet<&str> = named.map(|method| &**method).collect();
    let methods: Vec<&str> = methods.into_iter().collect();
    let hosts = Hosts::new(involved().flat_map(|held| &held.rule.scopes));
    let patterns: Vec<&Pattern> = compared.items.iter().map(|item| item.pattern).collect();
    let mut cells_of = vec![RoaringBitmap::new(); patterns.len()];
    for (number, cell) in (0..).zip(&cells) {
        for item in cell {
            cells_of.get_mut(*item).into_iter().for_each(|cells| _ = cells.insert(number));
        }
    }
    let [method_count, host_count, cell_count] =
        [methods.len() + 1, hosts.witnesses().count(), cells.len()]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let points =
        method_count.checked_mul(host_count).and_then(|points| points.checked_mul(cell_count));
    if points.is_none_or(|points| points > MAX_POINTS) {
        return Err(TooComplex);
    }
    let dimensions = Dimensions {
        methods: &methods,
        hosts: &hosts,
        host_count,
        cell_count,
        patterns: &patterns,
        cells_of: &cells_of,
    };
    let meets: Vec<Meets> =
        compared.rules.iter().map(|held| Meets::new(held, &methods, &hosts)).collect();
    let mut asked = Asked { compared: &compared, meets: &meets, answers: HashMap::new() };
    let mut sets: BTreeMap<Vec<usize>, Sets> = BTreeMap::from([(Vec::new(), Sets::default())]);
    for (cell, rules) in (0..).zip(&rules_of_cells) {
        for method in 0..method_count {
            for host in 0..host_count {
                let point = dimensions.point(method, host, cell);
                for answer in asked.answers(rules, method, host) {
                    sets.entry(answer.has.clone()).or_default().add(point, answer.allowed);
                }
            }
        }
    }
    let base = sets.remove(&Vec::new()).unwrap_or_default();
    let mut differences = Vec::new();
    let mut add = |has: &[usize], set: &Sets, base: Option<&Sets>| {
        for direction in [Direction::Granted, Direction::Revoked] {
            let (changed, fitting) = set.changed(direction, base);
            let may_have =
                |held: &Held<'_>| held.all || has.iter().any(|has| held.attributes.contains(has));
            let rules = compared.rules.iter().zip(&meets).filter(|(held, _)| may_have(held));
            for (region, held) in
                describe(&compared, rules, &dimensions, direction, changed, &fitting)
            {
                differences.push(Difference {
                    direction,
                    has: has.to_vec(),
                    region,
                    cause: cause(held),
                });
            }
        }
    };
    add(&[], &base, None);
    sets.iter().for_each(|(has, set)| add(has, set, Some(&base)));
    Ok(differences)
}

/// The kinds of requests that were asked for some attributes, and those that each policy allows
/// with them.
#[derive(Default)]
struct Sets {
    asked: RoaringBitmap,
    allowed: [RoaringBitmap; 2],
}

impl Sets {
    fn add(&mut self, point: u32, allowed: [bool; 2]) {
        self.asked.insert(point);
        for (set, allowed) in self.allowed.iter_mut().zip(allowed) {
            if allowed {
                set.insert(point);
            }
        }
    }

    /// What is granted or revoked, but not with less attributes; and everything to which the new
    /// policy answers like that.
    fn changed(&self, direction: Direction, base: Option<&Self>) -> (RoaringBitmap, RoaringBitmap) {
        let [old, new] = &self.allowed;
        let mut changed = match direction {
            Direction::Granted => new - old,
            Direction::Revoked => old - new,
        };
        let mut allowed = new.clone();
        let mut asked = self.asked.clone();
        if let Some(base) = base {
            let [old, new] = &base.allowed;
            changed -= match direction {
                Direction::Granted => new - old,
                Direction::Revoked => old - new,
            };
            allowed |= new - &self.asked;
            asked |= &base.asked;
        }
        match direction {
            Direction::Granted => (changed, allowed),
            Direction::Revoked => (changed, asked - allowed),
        }
    }
}

/// The rules that match a kind of paths.
fn rules(cell: &[usize], rules_of_items: &[Vec<usize>]) -> BTreeSet<usize> {
    cell.iter().filter_map(|item| rules_of_items.get(*item)).flatten().copied().collect()
}

/// The methods and the hosts that a rule matches.
struct Meets {
    methods: RoaringBitmap,
    hosts: RoaringBitmap,
}

impl Meets {
    fn new(held: &Held<'_>, methods: &[&str], hosts: &Hosts) -> Self {
        let others = u32::try_from(methods.len()).unwrap_or(u32::MAX);
        let meets = |number: &u32| match (&held.rule.actions, methods.get(*number as usize)) {
            (Actions::Any, _) => true,
            (Actions::These(_), None) => false,
            (actions @ Actions::These(_), Some(method)) => actions.matches(method.as_bytes()),
        };
        let methods = (0..=others).filter(meets).collect();
        let scopes = &held.rule.scopes;
        let meets = |host: &str| {
            scopes.is_empty() || scopes.iter().any(|scope| scope.matches(host.as_bytes()))
        };
        let hosts =
            (0..).zip(hosts.witnesses()).filter(|(_, host)| meets(host)).map(|(number, _)| number);
        Self { methods, hosts: hosts.collect() }
    }
}

/// Evaluates both policies for kinds of requests. Many have the same rules, so it remembers.
struct Asked<'a, 'p> {
    compared: &'a Compared<'p>,
    meets: &'a [Meets],
    answers: HashMap<Vec<usize>, Vec<Answer>>,
}

impl Asked<'_, '_> {
    fn answers(&mut self, rules: &BTreeSet<usize>, method: u32, host: u32) -> &[Answer] {
        let meets = |index: &&usize| {
            let meets = self.meets.get(**index);
            meets.is_some_and(|meets| meets.methods.contains(method) && meets.hosts.contains(host))
        };
        let matching: Vec<usize> = rules.iter().filter(meets).copied().collect();
        let compared = self.compared;
        self.answers.entry(matching).or_insert_with_key(|matching| {
            let mut effects = [Effects::default(), Effects::default()];
            for held in matching.iter().filter_map(|index| compared.rules.get(*index)) {
                if let Some(of_side) = effects.get_mut(held.side) {
                    let holders = match held.effect {
                        Effect::Allow => &mut of_side.allow,
                        Effect::Deny => &mut of_side.deny,
                    };
                    holders.add(held.all, &held.attributes);
                }
            }
            let [old, new] = &effects;
            answers(old, new)
        })
    }
}

/// How many more exceptions an exact description may have than one that includes what does not
/// change.
const MAX_EXACT: usize = 2;

/// Describes kinds of requests by the rules that make the difference: the rule that matches most of
/// them first. `fitting` are all requests with the same answer by the new policy: they are included
/// where that makes a description shorter.
fn describe<'c, 'p: 'c>(
    compared: &Compared<'p>,
    rules: impl Iterator<Item = (&'c Held<'p>, &'c Meets)>,
    dimensions: &Dimensions<'_>,
    direction: Direction,
    mut left: RoaringBitmap,
    fitting: &RoaringBitmap,
) -> Vec<(Region, &'c Held<'p>)> {
    if left.is_empty() {
        return Vec::new();
    }
    // What grants: a rule of the new policy that allows, or one of the old policy that denies. One
    // of them has changed.
    let allowing_side = usize::from(direction == Direction::Granted);
    let makes_it = |held: &Held<'_>| {
        held.changed && (held.side == allowing_side) == (held.effect == Effect::Allow)
    };
    let is_changed = |item: &usize| compared.items.get(*item).is_some_and(|item| item.changed);
    let candidates = rules.filter(|(held, _)| makes_it(held));
    let mut candidates: Vec<(&Held<'_>, Vec<usize>, RoaringBitmap)> = candidates
        .map(|(held, meets)| {
            let items: Vec<usize> = held.items.iter().copied().filter(is_changed).collect();
            let points = points(&items, meets, dimensions);
            (held, items, points)
        })
        .collect();
    let mut found = Vec::new();
    while !left.is_empty() {
        candidates.retain(|(.., points)| !points.is_disjoint(&left));
        let best =
            candidates.iter().rev().max_by_key(|(.., points)| points.intersection_len(&left));
        let Some((held, items, points)) = best else { break };
        let exact = points & &left;
        let wider = dimensions.widened(&exact, &(points & fitting));
        let mut regions = dimensions.regions(&exact, items);
        let with_unchanged = dimensions.regions(&wider, items);
        if length(&regions) > length(&with_unchanged) + MAX_EXACT {
            left -= &wider;
            regions = with_unchanged;
            regions.iter_mut().for_each(|region| region.in_part = true);
        } else {
            left -= &exact;
        }
        found.extend(regions.into_iter().map(|region| (region, *held)));
    }
    found
}

/// How much there is to read.
fn length(regions: &[Region]) -> usize {
    regions.iter().map(|region| 1 + region.also_matching.len() + region.except_paths.len()).sum()
}

/// The kinds of requests that a rule matches by these patterns.
fn points(items: &[usize], meets: &Meets, dimensions: &Dimensions<'_>) -> RoaringBitmap {
    let mut cells = RoaringBitmap::new();
    items.iter().filter_map(|item| dimensions.cells_of.get(*item)).for_each(|of| cells |= of);
    let mut points = RoaringBitmap::new();
    for method in &meets.methods {
        for host in &meets.hosts {
            points.extend(cells.iter().map(|cell| dimensions.point(method, host, cell)));
        }
    }
    points
}

fn cause(held: &Held<'_>) -> Cause {
    Cause {
        role: held.role.name.to_string(),
        rule: held.rule.name.to_string(),
        denies: held.effect == Effect::Deny,
        is_new: held.side == 1,
        at: held.rule.at.to_string(),
    }
}

/// The changes of all sources, each with all callers whom it concerns.
#[derive(Default)]
struct Changes {
    order: Vec<(Direction, Region, Cause)>,
    who: HashMap<(Direction, Region, Cause), Vec<Who>>,
}

impl Changes {
    /// Adds what is different for each kind of callers of a source.
    fn add(&mut self, source: &Source, found: &[Differences]) {
        type Key = (Direction, Region, Cause);
        let mut order: Vec<Key> = Vec::new();
        // For each attribute, or two of them, the kinds of callers.
        let mut all: HashMap<Key, BTreeMap<&[usize], BTreeSet<usize>>> = HashMap::new();
        for (kind, differences) in found.iter().enumerate() {
            for Difference { direction, has, region, cause } in differences {
                let key = (*direction, region.clone(), cause.clone());
                if !all.contains_key(&key) {
                    order.push(key.clone());
                }
                all.entry(key).or_default().entry(has).or_default().insert(kind);
            }
        }
        for key in order {
            let mut kinds_by_needs: Vec<(BTreeSet<usize>, Vec<Vec<usize>>)> = Vec::new();
            for (has, kinds) in all.remove(&key).into_iter().flatten() {
                let known = kinds_by_needs
                    .iter_mut()
                    .find(|(known, needs)| *known == kinds && has.len() == 1 && needs.len() == 1);
                match known {
                    Some((_, needs)) => needs.iter_mut().for_each(|list| list.extend(has)),
                    None => kinds_by_needs
                        .push((kinds, has.iter().map(|attribute| vec![*attribute]).collect())),
                }
            }
            let named = |list: &Vec<usize>| {
                list.iter()
                    .filter_map(|index| Some(source.attributes.get(*index)?.0.clone()))
                    .collect()
            };
            if !self.who.contains_key(&key) {
                self.order.push(key.clone());
            }
            let concerned = self.who.entry(key).or_default();
            for (kinds, needs) in kinds_by_needs {
                let condition = Condition { needs: needs.iter().map(named).collect() };
                concerned.extend(who(source, &kinds, &condition));
            }
        }
    }

    fn sorted(mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for key in self.order {
            let Some(who) = self.who.remove(&key) else { continue };
            let (direction, region, because) = key;
            let is_anonymous = who.iter().any(|who| who.source == CallerSource::Anonymous);
            let to_anyone = is_anonymous && direction == Direction::Granted;
            changes.push(Change { direction, region, because, who, to_anyone });
        }
        changes.sort_by_key(|change| (change.direction, !change.to_anyone));
        changes
    }
}

/// The callers of these kinds, in as few descriptions as possible.
fn who(source: &Source, kinds: &BTreeSet<usize>, condition: &Condition) -> Vec<Who> {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let one =
        |users: Option<Vec<String>>, except_users: Vec<String>, names_like: Vec<NameLike>| Who {
            source: source.source.clone(),
            users: users.map(sorted),
            except_users: sorted(except_users),
            names_like,
            condition: condition.clone(),
        };
    if source.source == CallerSource::Anonymous {
        return vec![one(None, Vec::new(), Vec::new())];
    }
    let (mut named, mut not_named, mut others, mut other_count) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    for (index, kind) in source.kinds.iter().enumerate() {
        match &kind.users {
            Users::Named(users) if kinds.contains(&index) => named.extend(users.iter().cloned()),
            Users::Named(users) => not_named.extend(users.iter().cloned()),
            Users::Others(like) => {
                other_count += 1;
                others.extend(kinds.contains(&index).then_some(like));
            }
        }
    }
    if other_count > 0 && others.len() == other_count {
        return vec![one(None, not_named, Vec::new())];
    }
    let named = (!named.is_empty()).then(|| one(Some(named), Vec::new(), Vec::new()));
    // Names that the policies mention are none of these.
    let all_named: Vec<String> = source
        .kinds
        .iter()
        .flat_map(|kind| match &kind.users {
            Users::Named(users) => users.clone(),
            Users::Others(_) => Vec::new(),
        })
        .collect();
    let others = others.into_iter().map(|like| one(None, all_named.clone(), like.clone()));
    named.into_iter().chain(others).collect()
}
