#!/usr/bin/env python3
"""Reads Kubernetes manifests (YAML) from standard input, and writes them as one JSON list, if they are valid.

Kinds of Kubernetes are validated by its own schemas (strict: no unknown field), all others by `schemas.yaml`
beside this file.
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

KUBERNETES = "1.36"


class Loader(yaml.SafeLoader):
    """As Kubernetes reads YAML: a duplicate key is an error, and a time is text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def mapping(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.YAMLError(f"duplicate key `{key}`{node.start_mark}")
    return loader.construct_mapping(node, deep=True)


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)


def problem(document, schemas):
    """Why a manifest is not valid; None where it is."""
    kind = f"{document['apiVersion']}/{document['kind']}"
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        schema = schemas["kinds"].get(kind)
        if schema is None:
            return f"no schema for {kind}"
        try:
            jsonschema.validate(document, {**schema, "definitions": schemas["definitions"]})
        except jsonschema.ValidationError as error:
            return f"{error.json_path}: {error.message}"
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return None


def main():
    try:
        documents = [document for document in yaml.load_all(sys.stdin, Loader) if document is not None]
    except yaml.YAMLError as error:
        sys.exit(f"not YAML: {error}")
    schemas = yaml.safe_load(pathlib.Path(__file__).with_name("schemas.yaml").read_text("utf-8"))
    problems = []
    for document in documents:
        if why := problem(document, schemas):
            problems.append(f"{document['kind']} `{document['metadata']['name']}`: {why}")
    if problems:
        sys.exit("\n".join(problems))
    json.dump(documents, sys.stdout)


main()
