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
	// LineageDurable keeps that too, and records the recipe of a task in the cluster's store before a reference to it leaves
	// its submitter: when that node dies, a node that holds the reference becomes the submitter.
	LineageDurable Lineage = "durable"
)

// defaultLineageMemory bounds the recipes of a node.
const defaultLineageMemory = 256 << 20

// lineage reads RAYSYS_LINEAGE.
func (e *environment) lineage() Lineage {
	l := Lineage(e.get("RAYSYS_LINEAGE"))
	if !l.known() {
		e.bad("RAYSYS_LINEAGE", string(l), fmt.Sprintf("%s, %s or %s", LineageOff, LineageInMemory, LineageDurable))
	}
	return l
}

// known accepts the empty Lineage too, which stands for the default.
func (l Lineage) known() bool {
	return l == "" || l == LineageOff || l == LineageInMemory || l == LineageDurable
}

// completeLineage checks what is said of lineage, and fills what was left out.
func (cfg *Config) completeLineage() error {
	var errs []error
	if !cfg.Lineage.known() {
		errs = append(errs, fmt.Errorf("Config.Lineage is %q: give %q, %q or %q", cfg.Lineage, LineageOff, LineageInMemory, LineageDurable))
	}
	if cfg.LineageMemory < 0 {
		errs = append(errs, fmt.Errorf("Config.LineageMemory is %d: give 0 (the default) or more", cfg.LineageMemory))
	}
	switch {
	case cfg.Lineage != "":
	case cfg.Cluster != nil:
		cfg.Lineage = LineageDurable
	default:
		cfg.Lineage = LineageInMemory
	}
	if cfg.LineageMemory == 0 {
		cfg.LineageMemory = defaultLineageMemory
	}
	return errors.Join(errs...)
}
