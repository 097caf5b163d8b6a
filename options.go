package raysys

import (
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Option changes submissions. With(options...) of a handle returns a handle to keep and reuse, which has these
// options beside those of the handle it came from; of two that contradict each other the later one counts. Handles of
// tasks have the verbs Go, On and Map, handles of methods Call, On, Tell and Each. Each option says which of the two
// take it; where it has no meaning the submission fails with ErrBadOption.
type Option core.Option

// CPU asks for n CPUs, 1 by default; 0 for work that only waits. For tasks, and grains.Holds: a grain's turn holds none by
// itself.
func CPU(n float64) Option { return func(o *core.Options) { o.Sized = true; o.Resources.CPU = n } }

// GPU asks for n devices: below 1 a share of one device, which others may share, else whole devices. Two halves of two devices
// are no whole, and 1.5 is ErrBadOption. For tasks; grains.Holds takes it for a kind. Devices says which they are.
func GPU(n float64) Option { return func(o *core.Options) { o.Sized = true; o.Resources.GPU = n } }

// GPUMemory asks for bytes of the memory of each device that GPU asks for. Nothing enforces it. For what takes GPU.
func GPUMemory(bytes int64) Option {
	return func(o *core.Options) { o.Sized = true; o.Resources.GPUMemory = bytes }
}

// GPUModel asks for devices of a model, where GPU asks for devices: each word of it is one of the device's model, so that "H100"
// means an "NVIDIA H100 80GB HBM3". The instances of a divided device (MIG) are meant where "MIG" is a word too. For what takes GPU.
func GPUModel(model string) Option {
	return func(o *core.Options) { o.Sized = true; o.Resources.GPUModel = model }
}

// Memory asks for bytes of memory. It is counted, and nothing enforces it. For tasks, and grains.Holds.
func Memory(bytes int64) Option {
	return func(o *core.Options) { o.Sized = true; o.Resources.Memory = bytes }
}

// Resource asks for n of the resource name, which some node must offer (system.Config.Resources). For tasks, and grains.Holds.
func Resource(name string, n float64) Option {
	return func(o *core.Options) {
		o.Sized = true
		m := map[string]float64{name: n}
		for k, v := range o.Resources.Custom {
			if k != name {
				m[k] = v
			}
		}
		o.Resources.Custom = m
	}
}

// WaitForResources has work wait that asks for more than any node has, or for a label, a model or a function that none has: until
// a node joins that has it, or until its deadline. Without it such work fails at once with ErrNoCapacity, which says what there
// is. system.Config.WaitForResources is that for all work of a node. In a program without a cluster no node can join, and the work
// fails. It is the same with devices that are sick: the work waits until they are well, without a cluster too. For tasks, for calls, which wait no longer than their deadline, and for grains.Holds.
func WaitForResources() Option { return func(o *core.Options) { o.Waits = true } }

// Retries sets how many attempts may follow the first: 3 unless set. Failures of the system are always retried;
// errors of the application only where RetryIf accepts them. For tasks, and for calls of methods that are Idempotent.
func Retries(n int) Option {
	return func(o *core.Options) {
		if n < 0 {
			o.Fail(fmt.Errorf("%w: Retries(%d): give 0 or more", ErrBadOption, n))
			return
		}
		o.Retries, o.Retried = n, true
	}
}

// RetryIf makes application errors that accept returns true for count as worth another attempt. A panic reaches it as
// an error that matches ErrPanic. For tasks, and for calls of methods that are Idempotent.
func RetryIf(accept func(error) bool) Option {
	return func(o *core.Options) {
		if accept == nil {
			o.Fail(fmt.Errorf("%w: RetryIf(nil): give a function", ErrBadOption))
			return
		}
		o.RetryIf, o.Retried = accept, true
	}
}

// Backoff sets the pause before retries: lo before the first, doubling up to hi, each with up to half of it taken off
// at random. The default is 10 ms to 1 s. For tasks, and for calls of methods that are Idempotent.
func Backoff(lo, hi time.Duration) Option {
	return func(o *core.Options) {
		if lo < 0 || hi < lo {
			o.Fail(fmt.Errorf("%w: Backoff(%v, %v): give 0 <= lo <= hi", ErrBadOption, lo, hi))
			return
		}
		o.BackoffLo, o.BackoffHi, o.Retried = lo, hi, true
	}
}

// Deadline gives the work up d after its submission: its future fails with ErrDeadline, and its context ends. Tasks
// have none unless set, grain calls 30 s. NoDeadline takes a default away. For tasks and calls.
func Deadline(d time.Duration) Option {
	return func(o *core.Options) {
		if d <= 0 {
			o.Fail(fmt.Errorf("%w: Deadline(%v): give a positive duration, or NoDeadline()", ErrBadOption, d))
			return
		}
		o.Deadline, o.NoLimit = d, false
	}
}

// NoDeadline takes away the Deadline of the handle, and the 30 s of a grain call. For tasks and calls.
func NoDeadline() Option { return func(o *core.Options) { o.Deadline, o.NoLimit = 0, true } }

// MaxKey is the most bytes that a Key has.
const MaxKey = 512

// Key names a call of a durable grain, such as "order-17", so that it is recognised when it is made again, by another
// run of the program too: the method does not run again, and the call gets the outcome of the first one with that key.
// Two that are made at the same time get one outcome. The grain remembers a key for the time of grains.KeepReplies
// after the call, 1 h unless set; later the same key is a new call, unless the call has FirstMade. A grain that is
// called with more than 262,144 keys in that time forgets the oldest earlier, and its node logs a warning. The newest
// 4,096 keys have the outcome; a call with an older one fails with grains.ErrReplyGone, and does not run. An error of
// the method is an outcome like a result: give another key to try again. A call with the key of another one, of
// another method or with an argument that is encoded to other bytes, fails with ErrKeyReused and does not run.
//
// Each grain has keys of its own. For calls (Call, On, Tell, Each) of methods of grains.Durable kinds that are not
// ReadOnly, where the argument's type holds no references; elsewhere they fail with ErrBadOption.
func Key(key string) Option {
	return func(o *core.Options) {
		if key == "" || len(key) > MaxKey {
			o.Fail(fmt.Errorf("%w: Key of %d bytes: give 1 to %d", ErrBadOption, len(key), MaxKey))
			return
		}
		o.Key = key
	}
}

// FirstMade says when the call was first made, by this run of the program or an earlier one: of "order-17" the time of
// the order. A grain that may have forgotten the call's Key, since other keys of calls made then or later are
// forgotten, does not run the method then: the call fails with grains.ErrReplyGone, which says that it may have
// counted. Without FirstMade such a call counts again. Times count to the millisecond, and those of a grain that are
// less than 5 s apart are taken as one, since clocks of nodes differ: a time of a clock that is further ahead of those of
// the grain's nodes does not protect the call.
//
// Each run that repeats the call gives the same time, or an earlier one. The runtime gives the time of a call when it
// repeats it by itself. For calls with a Key; elsewhere, and with a time before 1970, such as the zero Time, or more
// than an hour in the future, they fail with ErrBadOption.
func FirstMade(t time.Time) Option {
	return func(o *core.Options) {
		if t.Before(time.UnixMilli(1)) || time.Until(t) > time.Hour { // UnixMilli overflows for some years
			o.Fail(fmt.Errorf("%w: FirstMade(%v): give a time from 1970 to an hour from now", ErrBadOption, t))
			return
		}
		o.FirstMade = t.UnixMilli()
	}
}

// MaxTaskName is the most bytes that the name of a detached task has.
const MaxTaskName = 512

// Detached work is not cancelled with the context it was submitted under; it ends with the node, by Cancel or by its
// own deadline. For tasks and calls.
//
// With a name, such as Detached("nightly"), a task outlives its driver and its node as well: it is recorded in the cluster's
// store before it runs, and after the death of the node that submitted it a worker runs it again, in its next attempt. For Go
// and On of tasks, which wait until it is recorded. In a cluster lineage must be durable (system.Config.Lineage), else
// ErrBadOption; without a cluster the name is in the memory of the process. Every node finds the task with Lookup, while it
// runs and after. Cancel of any reference to it ends it, wherever it runs, and so does Forget. Once it has settled its
// outcome, also a failure, stays under the name until Forget, or until the next task is submitted under the name.
//
// A node that dies is no attempt that Retries counts, unless it dies within about a minute of the attempt's start: after
// Retries of those in a row, and one more, the task fails with ErrNodeDead.
//
// A name is of one task while that runs. The same function submitted with the same argument joins it: that reference gets the
// outcome of the task that runs. So a driver may submit it each time it starts. Other content fails with ErrNameTaken, as
// does a name that an object has. While the store is away a submission waits until its context ends, and then fails with
// ErrOutcomeUnknown: the task runs if it was recorded. RetryIf counts as long as the node lives that submitted the task.
func Detached(name ...string) Option {
	return func(o *core.Options) {
		o.Detached, o.Name = true, ""
		if len(name) == 0 {
			return
		}
		if len(name) > 1 || name[0] == "" || len(name[0]) > MaxTaskName {
			o.Fail(fmt.Errorf("%w: Detached(%.100q): give one name of 1 to %d bytes, or none", ErrBadOption, name, MaxTaskName))
			return
		}
		o.Name = name[0]
	}
}
