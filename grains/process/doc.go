// Package process makes grains that own a child process, of Python or another program: for environments, models and libraries that Go
// has not.
//
//	fit.Call(ctx, learner, batch)
//	      │
//	      ▼                  descriptor 3: frames ──►
//	  turn of the grain ────────────────────────────── child: worker.py ── your class ── numpy, torch, gymnasium
//	      │                  ◄── descriptor 4: frames
//	      ▼                  ◄── stdout, stderr: lines of the node's log
//	  typed future
//
// A frame has a header in JSON and the bytes of tensors. On Linux a child of Python writes those of a result above 64 KiB into memory that it shares with the
// node, which copies them from there. Define and Method make a kind of grains whose methods are those of an object in
// Python; a grain with a struct of its own embeds a Child. DefineVector and Vector step N environments at once.
//
// Rules for the user:
//
//  1. A grain has one child, and a child one call at a time. The first call starts it. It is killed, with its process group and its
//     descendants, when the activation ends or the node closes, and on Linux by the kernel when the node's process is killed: what the
//     child has started itself then lives on.
//  2. What the child has in memory goes with it. When it ends, one call fails with *ExitError, which has its status and the last lines
//     of its stderr; that is the call it served, or else the next one. The call after that starts another child, with the same seed. A
//     pool of children does not say which of them has lost what it had: keep that in a State, or in an object.
//  3. A call whose context ends before the answer has the child killed, since nobody knows how far it is: give long calls a
//     raysys.Deadline, beyond the 30 s of grain calls. A child that is stopped, or holds Python's lock for longer than
//     Config.Heartbeat, is killed too (ErrSilent). A start goes on when its call ends (ErrStarting), for as long as Config.Start says.
//  4. An exception in Python is an *Error with its traceback, and the child lives on: whatever the exception is, but for SystemExit. A text
//     that is no UTF-8 and a result beyond Config.MaxFrame are errors, too.
//  5. Descriptor 1 is free for libraries that print. What a child prints is logged with the name of the grain, and quoted where it is no
//     text.
//  6. A child sees the devices of its grain alone (raysys.DeviceEnv): a kind without grains.Holds(raysys.GPU(1)) has none. Nor does it
//     see the node's variables CONSUL_* and RAYSYS_*, unless Config.Env gives them.
//
// A learner in Python, with this class in learner.py:
//
//	class Learner:
//	    def __init__(self, rate): ...
//	    def fit(self, x, y): return {"loss": 0.5, "weights": self.w}
//
// is called so:
//
//	//go:embed learner.py
//	var source string
//
//	type Batch struct {
//		X process.Tensor `json:"x"`
//		Y process.Tensor `json:"y"`
//	}
//
//	type Fitted struct {
//		Loss    float64        `json:"loss"`
//		Weights process.Tensor `json:"weights"`
//	}
//
//	var (
//		learners = process.Define("learner", process.Config{Script: source, New: "Learner", Args: map[string]any{"rate": 0.1}})
//		fit      = process.Method[Batch, Fitted](learners, "fit")
//	)
//
//	f, err := fit.Call(ctx, learners.Get("a"), Batch{X: process.Of(xs, 64, 4), Y: process.Of(ys)}).Get(ctx)
//
// It does not install Python or packages, keeps no state of a child, and does not work on Windows. Under testkit.Virtual time stands
// still while a child lives.
package process
