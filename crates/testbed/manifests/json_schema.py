"""Reads a JSON Schema and documents from standard input, and writes the errors of each document (draft 2020-12)."""

import json
import sys

from jsonschema import Draft202012Validator

schema, documents = json.load(sys.stdin)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
json.dump([[error.message for error in validator.iter_errors(document)] for document in documents], sys.stdout)
