//! HTTP filters, and where their configurations are: beside their names, or elsewhere, from where Envoy gets them by the discovery
//! service for extensions (ECDS).

use document::View;

const RESOURCE: &str = "envoy.config.core.v3.TypedExtensionConfig";
const MATCHER: &str = "envoy.extensions.common.matching.v3.ExtensionWithMatcher";

/// The configurations that Envoy gets by discovery: on the page `EcdsConfigDump` of `/config_dump`, or in a file of their own.
#[derive(Debug, Default)]
pub(crate) struct Discovered<'n>(Vec<View<'n>>);

impl<'n> Discovered<'n> {
    /// Those in this document.
    pub(crate) fn add(&mut self, document: &View<'n>) {
        if type_of(document) == Some(RESOURCE) {
            self.0.push(document.clone());
            return;
        }
        for key in ["configs", "ecds_filters", "ecds_filter", "resources", "resource"] {
            if let Some(value) = document.get(key) {
                self.add(&value);
            }
        }
        document.items().iter().for_each(|item| self.add(item));
    }

    fn named(&self, name: Option<&str>) -> Vec<View<'n>> {
        let own = self.0.iter().filter(|resource| name.is_some() && resource.text_of("name") == name);
        own.filter_map(|resource| resource.get("typed_config")).collect()
    }
}

/// A filter of a connection manager.
#[derive(Clone, Debug)]
pub(crate) struct Filter<'n> {
    /// With its name.
    pub(crate) view: View<'n>,
    /// What runs: the one beside its name, or those of its name that were found elsewhere.
    pub(crate) configs: Vec<View<'n>>,
    /// What runs until Envoy gets its configuration.
    pub(crate) default: Option<View<'n>>,
    /// What says that its configuration is elsewhere, if it was not found.
    pub(crate) unseen: Option<View<'n>>,
}

impl<'n> Filter<'n> {
    pub(crate) fn of(view: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let mut found = Self { view: view.clone(), configs: Vec::new(), default: None, unseen: None };
        if let Some(config) = view.get("typed_config") {
            found.configs.push(config);
        } else if let Some(discovery) = view.get("config_discovery") {
            found.configs = discovered.named(view.text_of("name"));
            found.default = discovery.get("default_config");
            found.unseen = found.configs.is_empty().then_some(discovery);
        }
        found
    }

    pub(crate) fn name(&self) -> &'n str {
        self.view.text_of("name").unwrap_or_default()
    }

    /// All configurations of which one runs.
    pub(crate) fn all_configs(&self) -> impl Iterator<Item = &View<'n>> {
        self.configs.iter().chain(&self.default)
    }

    /// The types that its configuration may have, if it is elsewhere.
    pub(crate) fn possible_types(&self) -> Vec<&'n str> {
        let urls = self.view.get("config_discovery").and_then(|discovery| discovery.texts_of("type_urls"));
        urls.unwrap_or_default().into_iter().filter_map(|url| url.rsplit('/').next()).collect()
    }

    /// Its kind, such as `cors`: a part of its configuration's type, or of its name if nothing has a type; `istio` for each of
    /// Istio itself.
    pub(crate) fn kind(&self) -> &'n str {
        let is_here = !self.configs.is_empty();
        let types: Vec<&str> = if is_here {
            self.all_configs().filter_map(|config| type_of(&configured(config)?.0)).collect()
        } else {
            self.possible_types()
        };
        let name = match types.as_slice() {
            [] if !is_here && self.unseen.is_none() => {
                return self.name().rsplit('.').next().unwrap_or_default();
            }
            [first, rest @ ..] if rest.iter().all(|other| other == first) => *first,
            _ => "",
        };
        if ["io.istio.", "istio.", "stats.PluginConfig"].iter().any(|start| name.starts_with(start)) {
            return "istio";
        }
        let rest = name.strip_prefix("envoy.").and_then(|name| name.split_once("filters.http."));
        rest.and_then(|(_, rest)| rest.split('.').next()).unwrap_or_default()
    }
}

/// The configuration of a filter, and whether it is inside of a matcher.
pub(crate) fn configured<'n>(config: &View<'n>) -> Option<(View<'n>, bool)> {
    if type_of(config) == Some(MATCHER) {
        return Some((config.at(&["extension_config", "typed_config"])?, true));
    }
    Some((config.clone(), false))
}

/// The type of a configuration.
pub(crate) fn type_of<'n>(config: &View<'n>) -> Option<&'n str> {
    let url = config.text_of("type_url").or_else(|| config.text_of("@type"))?;
    url.rsplit('/').next()
}
