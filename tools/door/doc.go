// Package door reads the OpenAPI document of a door with kin-openapi, as a program of others does: make test-door. It
// is a module of its own, so that no user of raysys gets that.
package door
