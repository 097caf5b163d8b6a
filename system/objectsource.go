package system

import (
	"github.com/raysys/raysys"
)

// objectSource is a value that is ready, too large to have come along, and at the node that at names.
type objectSource struct {
	at   *remoteSource
	size int64          // about, and not to be trusted
	refs []*raysys.Core // that the value holds
}

func (s *objectSource) Name() string      { return s.at.Name() }
func (s *objectSource) ID() raysys.TaskID { return s.at.id }
func (s *objectSource) Cancelled()        {}

// describe implements described: who asks this node for the object is told what it was told itself.
func (s *objectSource) describe() (int64, []*raysys.Core) { return s.size, s.refs }

// Fetch implements raysys.Source.
func (s *objectSource) Fetch(into any, done func(error)) {
	s.at.c.puller.pull(s.at, s.size, func(encoded []byte, err error) {
		if err == nil {
			err = decode(encoded, into, s.refs)
		}
		done(err)
	})
}

// remoteOf returns what names the future of another node that c stands for, nil when it is of this node.
func remoteOf(c *raysys.Core) *remoteSource {
	switch s := raysys.SourceOf(c).(type) {
	case *remoteSource:
		return s
	case *objectSource:
		return s.at
	}
	return nil
}

// puller brings the encodings of objects from other nodes.
type puller interface {
	// pull calls done once, on any goroutine, with what at names; it does not block. size is about how much it is. The bytes
	// are done's.
	pull(at *remoteSource, size int64, done func(encoded []byte, err error))
}
