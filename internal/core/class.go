package core

import "time"

// Class is raysys.Class; the two number the classes alike.
type Class int8

// The classes, from that which begins last.
const (
	Low    Class = -1
	Normal Class = 0
	High   Class = 1
)

// AgeStep is how long work waits before it rises by a class: longer than most queues are, and short enough for Low work that
// somebody waits for. raysys.Class says it.
const AgeStep = 10 * time.Second

// Risen is the class of work that has waited so long.
func (c Class) Risen(waited time.Duration) Class {
	return min(c+Class(min(max(waited/AgeStep, 0), 2)), High)
}

// Code is the class as a small number for the wire: 0 is Normal.
func (c Class) Code() uint64 { return uint64(c+3) % 3 }

// ClassOf is the class of a Code; Normal for a number that no class has.
func ClassOf(code uint64) Class {
	switch code {
	case High.Code():
		return High
	case Low.Code():
		return Low
	}
	return Normal
}

// Class is that of the work that the turn submits.
func (t *Turn) Class() Class { return t.class }

// Class is that of the work: its own, or that of the turn that submitted it.
func (c *Future) Class() Class {
	if t := c.own.Load(); t != nil {
		return t.class
	}
	return c.up.class
}
