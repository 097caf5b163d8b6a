// Package client is what an operator asks of a running cluster, and the form of the answers. It knows no Consul and no
// link: a Cluster is handed in.
//
// A Status is the whole cluster at one moment, a Memory its object stores; Where says how to reach it.
//
//	Where ──► Cluster ── Status ──► Table, JSON
//	             ├────── Memory ──► MemoryTable
//	             ├────── Drain ──► DrainTable, DrainJSON
//	             └────── CancelDrain
//
// Errors have a state that becomes the exit code of the command: ErrUnreachable, ErrTimedOut, ErrNotFound.
//
//	s, err := cluster.Status(ctx)
//	err = client.Table(os.Stdout, s)
//
// It does not change a cluster beyond Drain.
package client
