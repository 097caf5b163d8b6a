package raysys

import (
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// OnNode keeps a task, or the grain that a call places, to the nodes of these names. For tasks and calls.
//
// OnNode, Label, Near and grains.Near are conditions. Not turns them round, and Prefer makes preferences of them. Hard conditions hold
// together, when work is placed: what changes afterwards moves nothing. Where no node meets them the work fails with ErrNoCapacity, at
// once, or waits for one with WaitForResources. A node that has died, and a grain that is not active, are no node. In a program without
// a cluster there is one node, and conditions do not count. They cannot stand beside a bundle of a placement group, which decides.
func OnNode(names ...NodeID) Option {
	return func(o *core.Options) {
		if len(names) == 0 {
			o.Fail(fmt.Errorf("%w: OnNode(): name a node", ErrBadOption))
			return
		}
		o.Want(core.Condition{NodeCondition: core.NodeCondition{Nodes: names}})
	}
}

// Near keeps a task, or the grain that a call places, to the nodes that have the value of r: its owner, and this node if it has a copy.
// The work waits until r has settled, and fails with its error. A value of up to ObjectSize travels along, is at no node in particular,
// and makes no condition. Unlike a Ref in the argument it is not read. A recorded task that another node submits again forgets it. For
// tasks and calls; grains.Near does so for a grain. See OnNode.
func Near[T any](r Ref[T]) Option {
	of := core.Ref[T](r)
	c := core.FutureOf(of.Link)
	return func(o *core.Options) {
		if c == nil {
			o.Fail(fmt.Errorf("%w: Near of a zero reference", ErrInvalidRef))
			return
		}
		o.Want(core.Condition{Value: c})
	}
}

// Not keeps work to the nodes on which none of the conditions holds: Not(Label("spot")), Not(OnNode("a")), Not(Near(r)). Where a grain
// is not active, or a value is lost, it holds on each node. See OnNode.
func Not(conditions ...Option) Option {
	return changed("Not", conditions, func(c *core.Condition) { c.Not = !c.Not })
}

// Prefer has work placed where the conditions hold if it begins there at once, and else where it begins soonest: it waits for no
// preferred node while another is idle, and goes rather to where its large arguments are. Of several preferences the first counts
// most. A preference that is not known within some milliseconds, such as where a value will be, does not count. See OnNode.
func Prefer(conditions ...Option) Option {
	return changed("Prefer", conditions, func(c *core.Condition) { c.Soft = true })
}

// changed gives conditions after change.
func changed(name string, options []Option, change func(*core.Condition)) Option {
	var q core.Options
	for _, f := range options {
		if f == nil {
			q.Fail(fmt.Errorf("%w: %s(nil)", ErrBadOption, name))
			continue
		}
		f(&q)
	}
	list, ok := q.Named()
	return func(o *core.Options) {
		switch {
		case q.Err != nil:
			o.Fail(q.Err)
		case !ok:
			o.Fail(fmt.Errorf("%w: %s takes one or more of Label, OnNode, Near, grains.Near, Not and Prefer", ErrBadOption, name))
		}
		for _, c := range list {
			change(&c)
			o.Want(c)
		}
	}
}
