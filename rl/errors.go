package rl

import (
	"errors"
	"math"

	"github.com/raysys/raysys"
)

// What may be wrong with a run, beside an *EnvError.
var (
	// ErrPlan: a Plan, a Setup or an Experience cannot be meant.
	ErrPlan = errors.New("rl: it cannot be meant")
	// ErrDiverged: the loss of a learner is not a number.
	ErrDiverged = errors.New("rl: the learner has diverged")
	// ErrModel: weights or a checkpoint are of another net than the agent's, or experience is of another shape.
	ErrModel = errors.New("rl: another model")
	// ErrFile: a file of weights or of a checkpoint is damaged, or is another one.
	ErrFile = errors.New("rl: another file")
)

var (
	_ = raysys.RegisterError("rl.plan", ErrPlan)
	_ = raysys.RegisterError("rl.diverged", ErrDiverged)
	_ = raysys.RegisterError("rl.model", ErrModel)
	_ = raysys.RegisterError("rl.file", ErrFile)
	_ = raysys.Register[*EnvError]("rl.EnvError")
)

func finite64(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
