package raysys

import (
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// Class is how soon work begins among the work of the same program that waits for the same node: all of a higher class before any
// of a lower. Work that has waited for 10 s rises by a class, so that none waits for ever. Nothing that runs is stopped for other work.
type Class core.Class

// The classes. Work is Normal unless it, or the task that submitted it, says otherwise.
const (
	Low    Class = iota - 1
	Normal       // 0
	High
)

// String names the class.
func (c Class) String() string {
	switch c {
	case Low:
		return "low"
	case Normal:
		return "normal"
	case High:
		return "high"
	}
	return fmt.Sprintf("Class(%d)", int8(c))
}

// Priority sets the class of tasks. What a task submits, and what the grains that it calls submit, has the task's class, unless it
// says otherwise. For tasks.
func Priority(c Class) Option {
	return func(o *core.Options) {
		if c < Low || c > High {
			o.Fail(fmt.Errorf("%w: Priority(%v): give High, Normal or Low", ErrBadOption, c))
			return
		}
		o.Class, o.Classed = core.Class(c), true
	}
}
