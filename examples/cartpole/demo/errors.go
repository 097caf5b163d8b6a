package demo

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// The errors of package ppo for bad input and bad weights: errors.Is finds them in a failure that comes from another
// node too.
var (
	_ = raysys.RegisterError("cartpole.no-steps", ppo.ErrNoSteps)
	_ = raysys.RegisterError("cartpole.diverged", ppo.ErrDiverged)
	_ = raysys.RegisterError("cartpole.shape", ppo.ErrShape)
	_ = raysys.RegisterError("cartpole.config", ppo.ErrConfig)
)
