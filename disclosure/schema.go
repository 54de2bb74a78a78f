package disclosure

import (
	_ "embed"
	"slices"
)

// result.schema.json is generated from the types of this package; a test says when it is stale.
//
//go:embed result.schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 2020-12) of the document.
func JSONSchema() []byte { return slices.Clone(jsonSchema) }
