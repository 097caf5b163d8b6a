package rl

import "time"

// Run is how a run of Train went.
type Run struct {
	Name   string // of the Define
	Env    Spec
	Seed   uint64
	Actors int
	// Solved says that the Stop of the Plan was reached.
	Solved bool
	// MeanReturn is that of fresh episodes at the end, played as well as the agent can; RandomReturn that of random actions: NaN where it is not known.
	MeanReturn, RandomReturn float64
	// Steps and Episodes are those of training. BaselineSteps were made beside them to measure random actions, and EvaluationSteps to evaluate, in this
	// call of Train.
	Steps, Episodes                int
	BaselineSteps, EvaluationSteps int
	LearnerSteps                   int
	Took                           time.Duration
	Resumed                        int     // steps that it went on from, which are not of this Took: 0 unless a Name or a Dir kept them
	Goal                           float64 // of the Stop, 0 where there was none
	Points                         []Point
	Weights                        Weights // at the end
}

// Point is how a run goes at one time.
type Point struct {
	Steps        int     `json:"steps"`
	Episodes     int     `json:"episodes"` // that have ended
	LearnerSteps int     `json:"learner_steps"`
	Seconds      float64 `json:"seconds"` // since the run began, without those between two calls of Train
	// Return is the mean of the episodes of training that ended since the last Point: NaN where there are none.
	Return float64 `json:"return"`
	// Evaluated is the mean return of fresh episodes, played as well as the agent can: NaN where it was not measured.
	Evaluated float64 `json:"evaluated"`
	Loss      float64 `json:"loss"` // of the last learner steps: NaN before the first
	// Age is how many steps the learner had made since the weights that acted.
	Age int `json:"age"`
}
