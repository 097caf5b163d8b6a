package shardlog

import (
	"cmp"
	"fmt"
)

// Version names one committed put, among all that a cluster ever commits: the shard's epoch, and the number of the
// change within it. A record that was deleted and made again has another Version. The zero Version is that of no
// record.
type Version struct{ Epoch, Seq uint64 }

// IsZero reports whether v is the Version of no record.
func (v Version) IsZero() bool { return v == Version{} }

// Before reports whether v was given out before w, both by the same shard.
func (v Version) Before(w Version) bool { return v.compare(w) < 0 }

func (v Version) compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Epoch, w.Epoch), cmp.Compare(v.Seq, w.Seq))
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Epoch, v.Seq) }
