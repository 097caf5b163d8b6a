// Package door reads the OpenAPI document of a door with kin-openapi, and calls its tools with Python's package mcp, as
// programs of others do: make test-door. It is a module of its own, so that no user of raysys gets kin-openapi.
package door
