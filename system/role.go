package system

import (
	"fmt"

	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/operate"
)

// Role is what a node does in a cluster (rule C14).
type Role string

// The roles.
const (
	// Worker hosts grains, runs tasks of others and leads shards; it runs no driver.
	Worker Role = "worker"
	// Driver runs the program's function and sends its work to the workers: it leads no shard, hosts no grain and runs
	// tasks only on CPUs that it was given explicitly (Config.Resources.CPU, RAYSYS_CPU). It may come and go.
	Driver Role = "driver"
	// Both does both.
	Both Role = "both"
)

func (r Role) valid() error {
	switch r {
	case "", Worker, Driver, Both:
		return nil
	}
	return fmt.Errorf("role %q: give worker, driver or both", string(r))
}

// hosts reports whether the node takes work of others.
func (r Role) hosts() bool { return r == Worker || r == Both }

// drives reports whether the node runs the program's function.
func (r Role) drives() bool { return r != Worker }

// member returns the role in the node's record, where Both is a driver that serves.
func (r Role) member() member.Role {
	if r == Worker {
		return member.Worker
	}
	return member.Driver
}

func roleOf(i member.Info) Role { return Role(operate.RoleOf(i)) }
