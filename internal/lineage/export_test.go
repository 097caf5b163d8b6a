package lineage

import "github.com/raysys/raysys"

// Difference says in what a task differs from the recorded one.
func Difference(recorded, body []byte) string { return difference(recorded, body) }

// Failure is the outcome of a task that failed with err, as its record has it.
func Failure(id raysys.TaskID, err error) []byte { return appendFailure(nil, id, err) }
