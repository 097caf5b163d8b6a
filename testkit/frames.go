package testkit

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
)

// Frame is one that a node is about to send.
type Frame struct {
	From, To raysys.NodeID
	Class    string // control, replies, requests or bulk
	Kind     uint8  // the number of the frame's kind on the wire; a rule need not look at it
}

// Drop loses frames for which rule holds, each with probability p, until Heal. A nil rule holds for all. A stream loses
// no frame while it lives: the receiver notices within a ping that frames are missing, and the connection is made anew
// within 6 s, so that every request has an end. One rule is kept: another Drop replaces it. Rules are called one at a
// time.
func (c *Cluster) Drop(p float64, rule func(Frame) bool) { c.rule(link.Drop, p, rule) }

// Duplicate sends frames twice; see Drop.
func (c *Cluster) Duplicate(p float64, rule func(Frame) bool) { c.rule(link.Duplicate, p, rule) }

// Reorder sends frames after the next of their class and connection; see Drop.
func (c *Cluster) Reorder(p float64, rule func(Frame) bool) { c.rule(link.Reorder, p, rule) }

func (c *Cluster) rule(a link.Action, p float64, rule func(Frame) bool) {
	if rule == nil {
		c.chaos.Set(a, p, nil)
		return
	}
	c.chaos.Set(a, p, func(f linktest.Frame) bool { return rule(Frame{f.From, f.To, f.Class.String(), uint8(f.Kind)}) })
}
