package demo

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/ppo"
)

// The errors of packages rl and ppo for bad settings and bad weights: errors.Is finds them in a failure that comes from
// another node too.
var (
	_ = raysys.RegisterError("cartpole.diverged", rl.ErrDiverged)
	_ = raysys.RegisterError("cartpole.model", rl.ErrModel)
	_ = raysys.RegisterError("cartpole.config", ppo.ErrConfig)
)
