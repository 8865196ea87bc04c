//! HTTP filters and their configurations, which are beside their names or come from the extension
//! config discovery service (ECDS).

use document::View;

const RESOURCE: &str = "envoy.config.core.v3.TypedExtensionConfig";
const MATCHER: &str = "envoy.extensions.common.matching.v3.ExtensionWithMatcher";

/// The configurations that Envoy gets from ECDS: on the page `EcdsConfigDump` of `/config_dump`, or
/// in a separate file.
#[derive(Debug)]
pub(crate) struct Discovered<'n>(Vec<View<'n>>);

impl<'n> Discovered<'n> {
    pub(crate) fn new(documents: &[View<'n>]) -> Self {
        const CONTAINERS: [&str; 5] =
            ["configs", "ecds_filters", "ecds_filter", "resources", "resource"];
        let mut resources = Vec::new();
        let mut collect = |key: &str, view: &View<'n>| {
            let is_resource = type_of(view) == Some(RESOURCE);
            resources.extend(is_resource.then(|| view.clone()));
            !is_resource && (key.is_empty() || CONTAINERS.contains(&key))
        };
        for document in documents {
            if collect("", document) {
                document.walk(&mut collect);
            }
        }
        Self(resources)
    }

    /// The configurations of the filter with this name.
    fn configs(&self, name: &str) -> Vec<View<'n>> {
        let resources = self.0.iter().filter(|resource| resource.text_of("name") == Some(name));
        resources.filter_map(|resource| resource.get("typed_config")).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Filter<'n> {
    pub(crate) view: View<'n>,
    /// The configuration beside the filter's name, or all discovered configurations of that name.
    pub(crate) configs: Vec<View<'n>>,
    /// The configuration that Envoy uses until it gets another.
    pub(crate) default: Option<View<'n>>,
    /// The reference to a configuration that is not in the file.
    pub(crate) unseen: Option<View<'n>>,
}

impl<'n> Filter<'n> {
    pub(crate) fn new(view: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let mut filter =
            Self { view: view.clone(), configs: Vec::new(), default: None, unseen: None };
        if let Some(config) = view.get("typed_config") {
            filter.configs.push(config);
        } else if let Some(discovery) = view.get("config_discovery") {
            filter.configs =
                view.text_of("name").map(|name| discovered.configs(name)).unwrap_or_default();
            filter.default = discovery.get("default_config");
            filter.unseen = filter.configs.is_empty().then_some(discovery);
        }
        filter
    }

    pub(crate) fn name(&self) -> &'n str {
        self.view.text_of("name").unwrap_or_default()
    }

    /// All possible configurations of the filter.
    pub(crate) fn all_configs(&self) -> impl Iterator<Item = &View<'n>> {
        self.configs.iter().chain(&self.default)
    }

    /// The possible types of the configuration, if it is elsewhere.
    pub(crate) fn possible_types(&self) -> Vec<&'n str> {
        let discovery = self.view.get("config_discovery");
        let urls = discovery.and_then(|discovery| discovery.texts_of("type_urls"));
        urls.unwrap_or_default().into_iter().filter_map(|url| url.rsplit('/').next()).collect()
    }

    /// The kind of the filter, such as `cors`: a part of its configuration's type, or of its name
    /// if it has no configuration. `istio` for Istio's own filters; empty if it may be any kind.
    pub(crate) fn kind(&self) -> &'n str {
        let types: Vec<&str> = if self.configs.is_empty() {
            self.possible_types()
        } else {
            self.all_configs().filter_map(|config| type_of(&without_matcher(config)?.0)).collect()
        };
        let name = match types.as_slice() {
            [] if self.configs.is_empty() && self.unseen.is_none() => {
                return self.name().rsplit('.').next().unwrap_or_default();
            }
            [first, more @ ..] if more.iter().all(|kind| kind == first) => *first,
            _ => return "",
        };
        if ["io.istio.", "istio.", "stats.PluginConfig"].iter().any(|start| name.starts_with(start))
        {
            return "istio";
        }
        let path = name.strip_prefix("envoy.").and_then(|name| name.split_once("filters.http."));
        path.and_then(|(_, path)| path.split('.').next()).unwrap_or_default()
    }
}

/// The configuration of a filter, and whether it is inside an `ExtensionWithMatcher`.
pub(crate) fn without_matcher<'n>(config: &View<'n>) -> Option<(View<'n>, bool)> {
    if type_of(config) == Some(MATCHER) {
        return Some((config.get("extension_config/typed_config")?, true));
    }
    Some((config.clone(), false))
}

pub(crate) fn type_of<'n>(config: &View<'n>) -> Option<&'n str> {
    let url = config.text_of("type_url").or_else(|| config.text_of("@type"))?;
    url.rsplit('/').next()
}

/// The fields of a configuration. A `TypedStruct` has them under `value`.
pub(crate) fn fields_of<'n>(config: &View<'n>) -> View<'n> {
    let inner = config.get("type_url").and_then(|_| config.get("value"));
    inner.unwrap_or_else(|| config.clone())
}
