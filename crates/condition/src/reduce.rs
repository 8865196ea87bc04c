//! Simplifies a condition of which only some variables are known.

use crate::evaluate::{Inputs, evaluate, may_be_claim};
use crate::expression::{Attribute, Comparison, Expression};
use crate::fault::Fault;
use crate::value::{Constant, Value};

/// The variables that are known.
#[derive(Clone, Copy, Default)]
pub struct KnownInputs<'a> {
    /// Their values. A variable whose value is [`Fault::Unknown`] is not known.
    pub inputs: Inputs<'a>,
    /// The variables that are not known, whatever `inputs` has for them.
    pub unknown: &'a [VariableKind],
}

/// A kind of variables. All variables of a kind in [`KnownInputs::unknown`] are unknown. A variable
/// of a kind that is not listed there is known if `inputs` has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// The method, the host, the path, and the placeholders of the rule.
    Target,
    /// Headers, the query, the time, the address and the certificate of the client, and questions
    /// of AuthZEN.
    Request,
    /// The user name.
    User,
    /// The groups and the roles.
    Names,
    /// The issuer, the scheme and the claims.
    Credentials,
}

/// A condition after reduction: known parts that do not change its result are left out, such as
/// `true` in `true && user == 'a'`.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The condition.
    pub expression: Expression,
    /// The results that it may have, depending on the unknown variables.
    pub outcomes: Outcomes,
}

/// The results that a condition may have, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// It may be true.
    pub truth: bool,
    /// It may be false.
    pub falsehood: bool,
    /// It may be impossible to compute.
    pub fault: bool,
}

impl Outcomes {
    const ANY: Self = Self { truth: true, falsehood: true, fault: true };

    const fn certain(outcome: Option<bool>) -> Self {
        Self {
            truth: matches!(outcome, Some(true)),
            falsehood: matches!(outcome, Some(false)),
            fault: outcome.is_none(),
        }
    }

    /// Whether it is true, whatever the unknown variables are.
    #[must_use]
    pub const fn are_true(self) -> bool {
        self.truth && !self.falsehood && !self.fault
    }

    const fn are_false(self) -> bool {
        self.falsehood && !self.truth && !self.fault
    }

    const fn not(self) -> Self {
        Self { truth: self.falsehood, falsehood: self.truth, fault: self.fault }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            truth: self.truth && other.truth,
            falsehood: self.falsehood || other.falsehood,
            fault: self.fault && (other.truth || other.fault)
                || other.fault && (self.truth || self.fault),
        }
    }

    /// The results that either may have.
    const fn union(self, other: Self) -> Self {
        Self {
            truth: self.truth || other.truth,
            falsehood: self.falsehood || other.falsehood,
            fault: self.fault || other.fault,
        }
    }
}

/// Reduces a condition by the known variables.
#[must_use]
pub fn reduce(condition: &Expression, known: &KnownInputs<'_>) -> Reduced {
    match condition {
        Expression::Not(operand) => {
            let Reduced { expression, outcomes } = reduce(operand, known);
            Reduced { expression: Expression::Not(expression.into()), outcomes: outcomes.not() }
        }
        Expression::And(left, right) => {
            let (left, right) = (reduce(left, known), reduce(right, known));
            let outcomes = left.outcomes.and(right.outcomes);
            let expression = if left.outcomes.are_true() || right.outcomes.are_false() {
                right.expression
            } else if right.outcomes.are_true() || left.outcomes.are_false() {
                left.expression
            } else {
                Expression::And(left.expression.into(), right.expression.into())
            };
            Reduced { expression, outcomes }
        }
        Expression::Or(left, right) => {
            let (left, right) = (reduce(left, known), reduce(right, known));
            let outcomes = left.outcomes.not().and(right.outcomes.not()).not();
            let expression = if left.outcomes.are_false() || right.outcomes.are_true() {
                right.expression
            } else if right.outcomes.are_false() || left.outcomes.are_true() {
                left.expression
            } else {
                Expression::Or(left.expression.into(), right.expression.into())
            };
            Reduced { expression, outcomes }
        }
        Expression::Conditional(parts) => {
            let [test, then, otherwise] = &**parts;
            let [test, then, otherwise] = [test, then, otherwise].map(|part| reduce(part, known));
            if test.outcomes.are_true() {
                return then;
            }
            if test.outcomes.are_false() {
                return otherwise;
            }
            let mut outcomes = Outcomes { truth: false, falsehood: false, ..test.outcomes };
            for (is_possible, branch) in
                [(test.outcomes.truth, &then), (test.outcomes.falsehood, &otherwise)]
            {
                outcomes = if is_possible { outcomes.union(branch.outcomes) } else { outcomes };
            }
            let parts = [test.expression, then.expression, otherwise.expression];
            Reduced { expression: Expression::Conditional(parts.into()), outcomes }
        }
        _ => reduce_whole(condition, known),
    }
}

/// Reduces a condition that is not `!`, `&&`, `||` or `? :`. Its result is certain only if all its
/// variables are known.
fn reduce_whole(condition: &Expression, known: &KnownInputs<'_>) -> Reduced {
    let mut placed = condition.clone();
    known.replace_placeholders(&mut placed);
    let are_known = placed.attributes().into_iter().all(|attribute| known.has(attribute));
    let outcomes = match evaluate(&placed, &known.inputs) {
        Err(Fault::Unknown) => Outcomes::ANY,
        _ if !are_known => Outcomes::ANY,
        Ok(Value::Bool(truth)) => Outcomes::certain(Some(truth)),
        Ok(_) | Err(_) => Outcomes::certain(None),
    };
    let expression = if outcomes == Outcomes::ANY { placed } else { condition.clone() };
    Reduced { expression, outcomes }
}

impl KnownInputs<'_> {
    /// Whether a variable is known.
    #[must_use]
    pub fn has(&self, variable: &Attribute) -> bool {
        let value = evaluate_variable(variable, &self.inputs);
        !self.unknown.contains(&variable.kind()) && value != Err(Fault::Unknown)
    }

    /// Replaces known placeholders by their values. A placeholder's name has a meaning in its rule
    /// only, and the condition may be shown beside those of other rules.
    fn replace_placeholders(&self, expression: &mut Expression) {
        match expression {
            Expression::Attribute(attribute) if attribute.is_placeholder() => {
                if let Some(value) = self.placeholder(attribute) {
                    *expression = Expression::Constant(value);
                }
            }
            // Without the claim, this expression is false and not an error. So it becomes
            // `has(claim) && claim == value`. For a claim in another claim, `has` itself may be an
            // error, so the expression stays as it is.
            Expression::IsClaim(attribute, claim) => {
                let Some(Constant::Text(value)) = self.placeholder(attribute) else { return };
                if !may_be_claim(&value) {
                    *expression = Expression::Constant(Constant::Bool(false));
                } else if let Expression::Member(claims, name) = &**claim
                    && matches!(**claims, Expression::Attribute(_))
                {
                    let value = Expression::Constant(Constant::Text(value));
                    let is_there = Expression::HasMember(claims.clone(), name.clone());
                    let equals =
                        Expression::Compare(Comparison::Equal, claim.clone(), value.into());
                    *expression = Expression::And(is_there.into(), equals.into());
                }
            }
            _ => {
                for part in expression.parts_mut() {
                    self.replace_placeholders(part);
                }
            }
        }
    }

    fn placeholder(&self, attribute: &Attribute) -> Option<Constant> {
        let is_known = self.has(attribute);
        let value = evaluate_variable(attribute, &self.inputs).ok()?;
        is_known.then_some(value)
    }
}

fn evaluate_variable(variable: &Attribute, inputs: &Inputs<'_>) -> Result<Constant, Fault> {
    let variable = Expression::Attribute(variable.clone());
    evaluate(&variable, inputs).map(|value| value.to_constant())
}

impl Attribute {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> VariableKind {
        match self {
            Self::Method
            | Self::Host
            | Self::Path
            | Self::PathPlaceholder(_)
            | Self::HostPlaceholder(_) => VariableKind::Target,
            Self::Header(_) | Self::Query(_) | Self::Time | Self::SourceIp | Self::Certificate => {
                VariableKind::Request
            }
            Self::User => VariableKind::User,
            Self::Roles | Self::Groups => VariableKind::Names,
            Self::Issuer | Self::Scheme | Self::Claims => VariableKind::Credentials,
            Self::Question(_) => VariableKind::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        CallerClaims, CallerInputs, Condition, NamedConditions, Placeholders, RequestInputs, holds,
    };

    fn expression(text: &str) -> Arc<Expression> {
        let parsed = Condition::parse(&text.into(), &NamedConditions::default());
        parsed.unwrap_or_else(|error| panic!("{text}: {error:?}")).expression
    }

    fn known<'a>() -> KnownInputs<'a> {
        let request = RequestInputs {
            method: b"GET",
            client: Some([10, 0, 0, 1].into()),
            ..RequestInputs::default()
        };
        KnownInputs { inputs: Inputs { request, ..Inputs::default() }, unknown: &[] }
    }

    #[test]
    fn known_parts_that_decide_nothing_are_left_out() {
        const HERE: &str = "cidr('10.0.0.0/8').containsIP(source.ip)";
        for (text, left) in [
            (format!("{HERE} && user == 'a'"), "user == 'a'"),
            (format!("user == 'a' && !{HERE}"), "!cidr('10.0.0.0/8').containsIP(source.ip)"),
            (format!("!{HERE} || user == 'a'"), "user == 'a'"),
            (format!("{HERE} ? user == 'a' : user == 'b'"), "user == 'a'"),
            (
                format!("user == 'b' ? {HERE} : user == 'a'"),
                &*format!("user == 'b' ? {HERE} : user == 'a'"),
            ),
        ] {
            assert_eq!(reduce(&expression(&text), &known()).expression.to_string(), left, "{text}");
        }
    }

    /// An unknown variable may have any value: the outcome for each is among the given outcomes.
    #[test]
    fn the_outcomes_include_that_of_each_value() {
        let atoms = [
            "request.method == 'GET'",
            "path.id == 'x'",
            "user == 'a'",
            "source.ip in ['10.0.0.1']",
        ];
        let (user, other) = (Some("a"), Some("b"));
        for left in atoms {
            for right in atoms {
                for text in [
                    format!("{left} && !({right})"),
                    format!("{left} || {right}"),
                    format!("{left} ? !({right}) : {left}"),
                ] {
                    let condition = expression(&text);
                    let reduced = reduce(&condition, &known());
                    for user in [user, other, None] {
                        let caller = CallerInputs { user, ..CallerInputs::default() };
                        let inputs = Inputs { caller: Some(&caller), ..known().inputs };
                        let truth = holds(&condition, &inputs);
                        let outcomes = Outcomes::certain(truth);
                        assert_eq!(outcomes.union(reduced.outcomes), reduced.outcomes, "{text}");
                        assert_eq!(holds(&reduced.expression, &inputs), truth, "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_placeholder_of_a_claim_keeps_its_meaning() {
        let claim = Expression::Member(Expression::Attribute(Attribute::Claims).into(), "t".into());
        let condition = Expression::IsClaim(Attribute::PathPlaceholder("t".into()), claim.into());
        let in_path = [("t".into(), 0)];
        for (segment, left) in [
            ("a", "has(claims.t) && claims.t == 'a'"),
            ("...", "has(claims.t) && claims.t == '...'"),
            ("", "{t} is the segment of the path"),
            (".", "{t} is the segment of the path"),
            ("..", "{t} is the segment of the path"),
        ] {
            let path = format!("/{segment}");
            let request = RequestInputs { path: path.as_bytes(), ..RequestInputs::default() };
            let placeholders = Placeholders { path: &in_path, host: &[] };
            let inputs = Inputs { request, placeholders, ..Inputs::default() };
            let reduced = reduce(&condition, &KnownInputs { inputs, unknown: &[] });
            assert_eq!(reduced.expression.to_string(), left, "{path}");
            for claim in [segment, "b"] {
                let claims = serde_json::json!({ "t": claim });
                let claims = CallerClaims::Known(claims.as_object().unwrap());
                let caller = CallerInputs { claims, ..CallerInputs::default() };
                let inputs = Inputs { caller: Some(&caller), ..inputs };
                let truth = holds(&condition, &inputs);
                let outcomes = Outcomes::certain(truth);
                assert_eq!(outcomes.union(reduced.outcomes), reduced.outcomes, "{path} {claim}");
                assert_eq!(holds(&reduced.expression, &inputs), truth, "{path} {claim}");
            }
        }
    }

    #[test]
    fn a_kind_that_is_not_known_has_no_value() {
        let condition = expression("request.method == 'GET'");
        assert!(reduce(&condition, &known()).outcomes.are_true());
        let unknown = KnownInputs { unknown: &[VariableKind::Target], ..known() };
        assert_eq!(reduce(&condition, &unknown).outcomes, Outcomes::ANY);
    }
}
