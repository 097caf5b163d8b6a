package grains

import (
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/grainengine"
)

// Option changes a kind: Define and DefineIn take it. The options of calls are raysys.Option, which With takes.
type Option grainengine.Option

// StatelessWorker makes every key of the kind a pool of up to n activations on each node, which share the calls to that
// key: for work that needs a place, such as a loaded policy, and no identity. n of 0 means one per CPU. A node that
// runs workers calls its own; a driver's calls go to all nodes in turn, or to the node that the kind's strategy chooses
// for the key, where that is another than Balanced and Spread.
func StatelessWorker(n int) Option {
	return func(o *grainengine.KindOptions) error {
		if n < 0 {
			return fmt.Errorf("StatelessWorker(%d): give 0 (one per CPU) or more", n)
		}
		o.Stateless = true
		o.Workers = n
		return nil
	}
}

// Reentrant admits calls of a call chain that comes back to a grain whose turn waits for it, for all methods. The
// turns never run at the same time, but the state may have changed across a Get.
func Reentrant() Option {
	return func(o *grainengine.KindOptions) error { o.Reentrant = true; return nil }
}

// IdleAfter deactivates activations that had no call for d, within a sixteenth of d after that: 15 minutes unless set.
func IdleAfter(d time.Duration) Option {
	return func(o *grainengine.KindOptions) error {
		if d <= 0 {
			return fmt.Errorf("IdleAfter(%v): give a positive duration", d)
		}
		o.Idle = d
		return nil
	}
}

// Mailbox bounds the calls that wait for one activation: 10,000 unless set. Beyond it calls fail with ErrOverloaded.
func Mailbox(n int) Option {
	return func(o *grainengine.KindOptions) error {
		if n <= 0 {
			return fmt.Errorf("Mailbox(%d): give 1 or more", n)
		}
		o.Mailbox = n
		return nil
	}
}

// Durable makes each call of a method that is not ReadOnly a transaction over the grain's States and Maps: what the
// turn left in them, and its reply or error, are stored together, and the reply leaves when they are. The runtime
// repeats a call whose outcome it does not know, and the call then gets its first outcome: it counts once, or not at all.
//
//   - Write need not be called: it only says whether Value can be stored. Clear removes what is stored with the turn,
//     and Read gives Value back what it held when the turn began. ETag is empty.
//   - An error or a panic gives all Values and Maps back what they held when the turn began. Other fields of the struct
//     stay as they are: keep in them only what can be computed anew. Timers that the turn began go, and those that it
//     stopped go on. OnActivate and OnDeactivate are transactions too.
//   - Later turns begin before a turn is stored, and see what it changed; their replies, those of ReadOnly methods
//     among them, leave after it. When it cannot be stored, because the grain was placed anew, none of them counts:
//     the activation ends, and all of them run again.
//   - So a turn may run more than once before it counts. It may submit tasks, but calls only methods that are ReadOnly, or
//     Idempotent and not of a Durable kind: others fail with ErrDurableTurn. Work over several Durable grains is a task
//     that calls one after the other.
//   - A Tell of a turn is a message: it is stored with the turn, also where that changed nothing, is ReadOnly or a tick, and
//     is sent after that until it has arrived, after the death of its node by the grain's next activation, for which the
//     cluster wakes the grain. Messages to one receiver arrive in their order, at least once, and at a Durable one once. A
//     result or an error of the method, a panic and the end of the handle's Deadline are an arrival; failures are logged.
//     Without a Deadline the message has none. Its argument, and options, hold no references and no functions
//     (raysys.ErrBadOption). A turn has at most 1,024 messages (raysys.ErrOverloaded) of 128 KiB together, each
//     with the name of its grain (raysys.ErrTooLarge). A receiver whose OnActivate fails holds up the messages to it. While 4,096 messages of a grain, or 512 KiB, have not arrived, its calls that are not ReadOnly
//     fail with raysys.ErrOverloaded before their turn; those that are messages themselves at twice that. A receiver knows
//     16,384 senders: of one that was silent for longest a repeat may count again. A Tell of OnActivate and OnDeactivate
//     is sent once, when the hook is stored.
//   - What a turn does by package schedule is a message to the schedule: see schedule.Call.
//   - A result has at most MaxReply, and holds no references. A disk that does not take a State which is an object fails
//     all turns that share the commit.
//
// A reply is kept while the call may be made again: for a driver until it has it, or is gone; for a task until the
// outermost task above it has ended; for a call with a raysys.Key, and for tasks whose nodes died, until KeepReplies
// is over. A grain keeps 4,096 replies to calls of tasks and grains, and 512 KiB of them; beyond that the oldest go. A
// call that may have counted and whose reply has gone is not run again: it fails with ErrReplyGone. So a task that
// made more than 4,096 calls of one grain cannot be repeated after its node died. Of calls with a key it keeps the
// newest 4,096, with 512 KiB of replies; of older ones it knows that they have counted, up to 262,144 keys, and such a
// call fails with ErrReplyGone, too. Beyond that the oldest keys are forgotten, 1,024 at a time: raysys.FirstMade says
// what becomes of calls with them, and the node logs a warning, once for each activation. Drivers have 4,096 replies
// and 512 KiB of their own; from half of that on their nodes are asked which they need no more, and a call without
// room waits for the answer. Calls beyond the number of replies that drivers still need fail with
// raysys.ErrOverloaded.
func Durable() Option {
	return func(o *grainengine.KindOptions) error { o.Durable = true; return nil }
}

// KeepReplies is how long after its outcome a Durable grain keeps its reply to a call of a task or grain, which may run
// again, or to a call with a raysys.Key: 1 h unless set. It must be longer than such a task takes with all its
// attempts, and than a program that was cut off takes to make its keyed calls again: a call that is repeated with its
// key after that counts again, unless it has raysys.FirstMade. Of a grain that is called with many keys they go 1,024
// at a time, when the newest of them is over. Firings of a schedule take no room of keys: as of a task's calls, their
// oldest replies go first.
func KeepReplies(d time.Duration) Option {
	return func(o *grainengine.KindOptions) error {
		if d <= 0 {
			return fmt.Errorf("KeepReplies(%v): give a positive duration", d)
		}
		o.Replies = d
		return nil
	}
}

// Holds has each activation of the kind hold what the options ask for, from before OnActivate to the end of OnDeactivate:
// raysys.GPU, GPUMemory, GPUModel, CPU, Memory and Resource, in the words of tasks. An activation of a StatelessWorker holds its
// own, and calls go to nodes that have room for one. A kind without it asks for nothing. raysys.Devices says which devices a turn, OnActivate and OnDeactivate have.
//
// A grain is placed where that is free. Where no node has it free the grain waits on one, and its calls with it until their
// deadlines; the oldest is first. An idle activation whose node has work that waits for what it holds goes at once, unless its
// kind says Keep, and one that has been idle for 100 ms for tasks of one CPU that wait there, for work that waits on another node, or a
// placement group; so does one that holds a sick device, which raysys.WithDevices tells those that run. A call fails with
// raysys.ErrNoCapacity when it is more than any node has; with raysys.WaitForResources, also in opts, it waits until a node joins
// that has it. A turn that waits for references gives back the CPU, and nothing else, until its wait is over.
func Holds(opts ...raysys.Option) Option {
	return func(o *grainengine.KindOptions) error { return o.Hold(opts) }
}

// Keep keeps activations that are idle: none goes because it had no call for long, or because others wait for what it holds.
func Keep() Option {
	return func(o *grainengine.KindOptions) error { o.Keep = true; return nil }
}

// Movable lets activations of the kind move to another node while the program runs, so that all nodes have even shares
// of the work: see system.Config.Rebalance. Those of Durable kinds move without it.
//
// A grain moves between two turns. The calls in its mailbox run first, then OnDeactivate; the next call activates it on
// the other node, with its States and no other fields. Calls follow, in the order of each caller, and none fails.
// Grains that keep calls (Later), or have timers (Every, After), stay; so do those placed by a call with OnNode, Label,
// Near or raysys.Placement, and those that came less than a minute ago. A kind that is a StatelessWorker, or has Holds
// or a Placement other than raysys.Balanced, cannot be Movable.
//
// With Keep the grains of the kind stand: they are always active, so nodes share them by their number.
func Movable() Option {
	return func(o *grainengine.KindOptions) error { o.Movable = true; return nil }
}

// AlwaysOn is Keep for grains that shall be active for good once they were called, such as those that work by timers:
// each is woken again after its node has died or drained, within a second of when the others know, and after all nodes
// have died, when they are back. It is a record in the store for each such grain. Deactivate and Unload end it, until
// the next call. Where OnActivate fails it runs again after 1, 2, 4 .. 60 s. In a process without a cluster it is Keep.
func AlwaysOn() Option {
	return func(o *grainengine.KindOptions) error { o.Keep, o.Always = true, true; return nil }
}

// Filter has each call of the kind run inside f, which is inside those of system.Config and of Filters before it: see raysys.Filter.
func Filter(f raysys.Filter) Option {
	return func(o *grainengine.KindOptions) error {
		if f == nil {
			return errors.New("Filter(nil): give a function")
		}
		o.Filters = append(o.Filters, f)
		return nil
	}
}

// Unfiltered has the calls of the kind pass no filter of system.Config. It is for kinds that are a mechanism and do no work of the
// program's by themselves, whose callers the filters do not know: those that packages of raysys define have it.
func Unfiltered() Option {
	return func(o *grainengine.KindOptions) error { o.Unfiltered = true; return nil }
}

// PanicChoice says what happens to an activation whose method panicked. The call fails with a *raysys.TaskError in
// every case, and the process lives.
type PanicChoice uint8

const (
	// KeepOnPanic leaves the activation as it is: the default.
	KeepOnPanic PanicChoice = iota
	// DeactivateOnPanic stops the activation; the next call finds a new one.
	DeactivateOnPanic
	// RestartOnPanic gives the activation a new G, and OnActivate runs again; calls in the mailbox are kept.
	RestartOnPanic
)

// OnPanic chooses what a panic does to the activation.
func OnPanic(c PanicChoice) Option {
	return func(o *grainengine.KindOptions) error { o.OnPanic = grainengine.PanicChoice(c); return nil }
}

// Placement chooses the strategy by which the grains of the kind get their nodes: raysys.Balanced unless set. A call
// with raysys.Placement wishes for another, which counts if it is the one that places the grain.
func Placement(s raysys.Strategy) Option {
	return func(o *grainengine.KindOptions) error {
		if s == "" {
			return fmt.Errorf("Placement(%q): name a strategy, such as raysys.Spread", s)
		}
		o.Strategy = s
		return nil
	}
}

// Label keeps the grains of the kind to nodes that carry the label key with exactly this value. Several labels must all
// match.
func Label(key, value string) Option {
	return func(o *grainengine.KindOptions) error {
		if key == "" {
			return fmt.Errorf("Label(%q, %q): a label needs a key", key, value)
		}
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[key] = value
		return nil
	}
}
