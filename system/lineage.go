package system

import (
	"errors"
	"fmt"
)

// Lineage says what a node keeps to make a lost value again.
type Lineage string

const (
	// LineageOff keeps nothing: a value whose last copy is gone is raysys.ErrObjectLost.
	LineageOff Lineage = "off"
	// LineageInMemory keeps the recipe of each large value with its reference, on the node that submitted the task: it ends
	// with that node.
	LineageInMemory Lineage = "memory"
)

// defaultLineageMemory bounds the recipes of a node.
const defaultLineageMemory = 256 << 20

// lineage reads RAYSYS_LINEAGE.
func (e *environment) lineage() Lineage {
	l := Lineage(e.get("RAYSYS_LINEAGE"))
	if !l.known() {
		e.bad("RAYSYS_LINEAGE", string(l), string(LineageOff)+" or "+string(LineageInMemory))
	}
	return l
}

// known accepts the empty Lineage too, which stands for the default.
func (l Lineage) known() bool { return l == "" || l == LineageOff || l == LineageInMemory }

// completeLineage checks what is said of lineage, and fills what was left out.
func (cfg *Config) completeLineage() error {
	var errs []error
	if !cfg.Lineage.known() {
		errs = append(errs, fmt.Errorf("Config.Lineage is %q: give %q or %q", cfg.Lineage, LineageOff, LineageInMemory))
	}
	if cfg.LineageMemory < 0 {
		errs = append(errs, fmt.Errorf("Config.LineageMemory is %d: give 0 (the default) or more", cfg.LineageMemory))
	}
	if cfg.Lineage == "" {
		cfg.Lineage = LineageInMemory
	}
	if cfg.LineageMemory == 0 {
		cfg.LineageMemory = defaultLineageMemory
	}
	return errors.Join(errs...)
}
