package doctor

import (
	"context"
	"fmt"
)

// Limits are what the operating system lets a process have.
type Limits struct {
	Files uint64 // open files, after a program raised its own limit as far as it may
}

// A node has an express and some bulk connections for each peer, 16 to Consul, and its spill files.
const (
	filesWarning = 4096
	filesFailed  = 512
)

func (d *Doctor) limits(context.Context, *ground) Finding {
	l, err := d.Limits()
	if err != nil {
		return Finding{Level: Warning, Detail: fmt.Sprintf("read limits: %v", err), Fix: "see that ulimit -n is 65536"}
	}
	f := Finding{Level: OK, Detail: fmt.Sprintf("%d open files", l.Files)}
	if l.Files < filesWarning {
		f.Level, f.Fix = Warning, "raise it for the user of the node: ulimit -n 65536, or LimitNOFILE=65536 in its unit"
	}
	if l.Files < filesFailed {
		f.Level = Failed
	}
	return f
}
