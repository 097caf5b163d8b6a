package rl

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON writes what came of the run in one object, without its points and weights: name, seed, actors, solved, mean_return, random_return, steps,
// learner_steps, episodes, baseline_steps, evaluation_steps, seconds. A return that is not a number is null.
func (r Run) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name         string   `json:"name"`
		Seed         uint64   `json:"seed"`
		Actors       int      `json:"actors"`
		Solved       bool     `json:"solved"`
		MeanReturn   *float64 `json:"mean_return"`
		RandomReturn *float64 `json:"random_return"`
		Steps        int      `json:"steps"`
		LearnerSteps int      `json:"learner_steps"`
		Episodes     int      `json:"episodes"`
		Baseline     int      `json:"baseline_steps"`
		Evaluation   int      `json:"evaluation_steps"`
		Seconds      float64  `json:"seconds"`
	}{
		r.Name, r.Seed, r.Actors, r.Solved, orNull(r.MeanReturn), orNull(r.RandomReturn), r.Steps, r.LearnerSteps, r.Episodes,
		r.BaselineSteps, r.EvaluationSteps, r.Took.Seconds(),
	})
}

// String is the run in four lines, for a person.
func (r Run) String() string {
	how := ""
	if goal, word := r.aim(); goal != 0 {
		how = fmt.Sprintf(", %s %s", word, brief(goal))
		if r.Solved {
			how += ": reached"
		}
	}
	speed := ""
	if r.Took > 0 {
		speed = fmt.Sprintf(", %s steps/s", brief(float64(r.Steps-r.Resumed)/r.Took.Seconds()))
	}
	beside := ""
	if r.BaselineSteps+r.EvaluationSteps > 0 {
		beside = fmt.Sprintf("; %d more of random actions, %d of evaluations", r.BaselineSteps, r.EvaluationSteps)
	}
	random := "not known"
	if finite64(r.RandomReturn) {
		random = brief(r.RandomReturn)
	}
	return fmt.Sprintf("%s on %s, seed %d, %s\nmean return %s, random %s%s\n%d steps in %s s%s, %d episodes%s\n%d learner steps, %s per step",
		r.Name, r.Env.Name, r.Seed, plural(r.Actors, "actor"), brief(r.MeanReturn), random, how,
		r.Steps, brief(r.Took.Seconds()), speed, r.Episodes, beside, r.LearnerSteps, brief(ratio(r.LearnerSteps, r.Steps)))
}

// aim is the goal of the run, or the threshold of its environment: 0 where there is neither.
func (r *Run) aim() (float64, string) {
	if r.Goal != 0 {
		return r.Goal, "goal"
	}
	return r.Env.Threshold, "threshold"
}

// plural is a number of things; 0 actors are one, which plays in the goroutine of the caller.
func plural(n int, thing string) string {
	if n <= 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
