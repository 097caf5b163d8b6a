package raysys

import "github.com/raysys/raysys/internal/core"

// TaskID names one submission: 128 bits derived from the turn that submitted and the position of the submission in
// it, so that a re-run of the same program under the same job derives the same ids. Tasks, grain calls and Put
// objects all draw from the one sequence of their turn. It is comparable, and String gives 32 hexadecimal digits.
type TaskID = core.TaskID

// JobID names one run of a driver. It is random unless the seed is fixed (Config.Seed or RAYSYS_SEED). String gives 32
// hexadecimal digits.
type JobID = core.JobID

// NodeID names a node of the cluster.
type NodeID = core.NodeID
