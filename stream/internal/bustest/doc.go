// Package bustest has the tests that every bus.Bus passes.
package bustest
