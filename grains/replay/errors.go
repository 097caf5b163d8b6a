package replay

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// What may be wrong with a call.
var (
	// ErrNoTable: the server has no table of that name.
	ErrNoTable = core.Sentinel("replay.notable", "replay: no such table")
	// ErrPriority: a priority is below zero, NaN or infinite. Nothing of the call was done.
	ErrPriority = core.Sentinel("replay.priority", "replay: a priority must be a number of 0 or more")
	// ErrCheckpoint: a checkpoint is of another server, or is damaged. What the tables hold stays.
	ErrCheckpoint = core.Sentinel("replay.checkpoint", "replay: not a checkpoint of this server")
	// ErrConfig: a definition, a pattern of a writer or an argument cannot be meant.
	ErrConfig = core.Sentinel("replay.config", "replay: bad configuration")
)

var _ = raysys.Register[*ShutError]("replay.ShutError")

// ShutError says that the limiter of a table did not open in time for a call. Of an insert some items may be in; of a sample some may have been
// taken, which count as sampled.
type ShutError struct {
	Table   string
	Limiter string
	Shard   int
	// Insert is true for an insert, and false for a sample.
	Insert bool
	// Items is true where the table has Has items, and Needs so many to be sampled. Else Has is the number of its inserts, times the ratio
	// of the limiter, less the samples: Needs is the least that a sample leaves, or the most that an insert may lead to.
	Items      bool
	Has, Needs float64
	// Done is how many items of an insert are in. Left are the places of those that are not, of Client.Insert: batches go to several shards, so one
	// that is in may come after one that is not.
	Done int
	Left []int
}

func (e *ShutError) Error() string {
	what, why := "sampled", fmt.Sprintf("it has %g items and needs %g", e.Has, e.Needs)
	switch {
	case e.Insert:
		what, why = "inserted into", fmt.Sprintf("%g samples are due, and an insert may lead to %g at most", e.Has, e.Needs)
	case !e.Items:
		why = fmt.Sprintf("%g samples are due, and a sample must leave %g", e.Has, e.Needs)
	}
	return fmt.Sprintf("replay: table %q cannot be %s: its limiter %s is shut in shard %d: %s", e.Table, what, e.Limiter, e.Shard, why)
}
