package raysys

import "github.com/raysys/raysys/internal/core"

// Table is a set of functions that may be called. The process has one, filled by Define and frozen by the first
// system.New; tests make their own for DefineIn.
type Table = core.Table

// NewTable returns an empty table for tests.
func NewTable() *Table { return core.NewTable() }
