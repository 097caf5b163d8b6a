package system

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/wire"
)

// operation is what is asked of the leader of a shard. The numbers are on the wire.
type operation byte

const (
	opLocate  operation = 1 // where the grain is; it is placed if it is nowhere
	opConfirm operation = 2 // whether a token is current on the node that asks
	opRelease operation = 3 // remove the placement if the token is current
	opLoad    operation = 4 // read state records
	opSave    operation = 5 // commit one state record
)

// request asks the leader of the shard that the grain belongs to.
type request struct {
	op       operation
	id       grains.ID
	ns       string // namespace
	token    grains.Token
	strategy raysys.Strategy   // locate
	labels   map[string]string // locate
	avoid    grains.Place      // locate
	names    []string          // load
	name     string            // save
	etag     grains.ETag       // save
	data     []byte            // save
	clear    bool              // save

	from   nodeKey
	parked int64        // since when it waits for a leader, 0 if it never did
	answer func(answer) // called once, on any goroutine; must not block
}

// answer is what the leader says.
type answer struct {
	err     error
	retry   bool // the asked node does not lead the shard: nothing was done
	place   grains.Place
	records []grains.Record
	etag    grains.ETag
}

// table and shard keys: a grain's placement and its state lie in the same shard (rule C19).
func (q *request) placementKey() string { return "g/" + q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key }

func (q *request) stateKey(name string) string {
	return "s/" + q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key + "\x00" + name
}

// slotKey is what is hashed to find the shard.
func (q *request) slotKey() string { return q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key }

// Bounds of a request, beside the frame's own.
const (
	maxLabels = 64
	maxNames  = 256
)

func appendToken(dst []byte, t grains.Token) []byte {
	return wire.AppendUvarint(wire.AppendUvarint(dst, t.Epoch), t.Seq)
}

func readToken(r *wire.Reader) grains.Token {
	e := r.Uvarint()
	return grains.Token{Epoch: e, Seq: r.Uvarint()}
}

func appendPlace(dst []byte, p grains.Place) []byte {
	dst = wire.AppendBytes(dst, p.Node)
	return appendToken(wire.AppendUvarint(dst, p.Incarnation), p.Token)
}

func readPlace(r *wire.Reader) grains.Place {
	p := grains.Place{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}
	p.Token = readToken(r)
	return p
}

func (q *request) append(dst []byte) []byte {
	dst = append(dst, byte(q.op))
	dst = wire.AppendBytes(dst, q.ns)
	dst = wire.AppendBytes(dst, q.id.Kind)
	dst = wire.AppendBytes(dst, q.id.Key)
	dst = appendToken(dst, q.token)
	switch q.op {
	case opLocate:
		dst = wire.AppendBytes(dst, q.strategy)
		dst = wire.AppendUvarint(dst, uint64(len(q.labels)))
		for k, v := range q.labels {
			dst = wire.AppendBytes(wire.AppendBytes(dst, k), v)
		}
		dst = appendPlace(dst, q.avoid)
	case opLoad:
		dst = wire.AppendUvarint(dst, uint64(len(q.names)))
		for _, n := range q.names {
			dst = wire.AppendBytes(dst, n)
		}
	case opSave:
		dst = wire.AppendBytes(dst, q.name)
		dst = appendToken(dst, grains.Token(q.etag))
		if q.clear {
			return append(dst, 0)
		}
		dst = wire.AppendBytes(append(dst, 1), q.data)
	}
	return dst
}

func readRequest(r *wire.Reader) (*request, error) {
	q := &request{op: operation(r.Byte()), ns: r.String()}
	q.id = grains.ID{Kind: r.String(), Key: r.String()}
	q.token = readToken(r)
	switch q.op {
	case opLocate:
		q.strategy = raysys.Strategy(r.String())
		n := r.Count(2)
		if n > maxLabels {
			return nil, fmt.Errorf("%w: %d labels", wire.ErrCorrupt, n)
		}
		for range n {
			if q.labels == nil {
				q.labels = map[string]string{}
			}
			k := r.String()
			q.labels[k] = r.String()
		}
		q.avoid = readPlace(r)
	case opConfirm, opRelease:
	case opLoad:
		n := r.Count(1)
		if n > maxNames {
			return nil, fmt.Errorf("%w: %d states of one grain", wire.ErrCorrupt, n)
		}
		for range n {
			q.names = append(q.names, r.String())
		}
	case opSave:
		q.name = r.String()
		q.etag = grains.ETag(readToken(r))
		if q.clear = r.Byte() == 0; !q.clear {
			q.data = append([]byte{}, r.Bytes()...)
		}
	default:
		return nil, fmt.Errorf("%w: operation %d", wire.ErrCorrupt, q.op)
	}
	return q, r.Err()
}

// Outcomes of a request on the wire.
const (
	answerOK byte = iota
	answerError
	answerRetry
)

func (a answer) append(dst []byte, op operation) []byte {
	switch {
	case a.retry:
		return append(dst, answerRetry)
	case a.err != nil:
		dst = append(dst, answerError)
		dst = appendPlace(dst, a.place)
		return wire.AppendError(dst, a.err)
	}
	dst = append(dst, answerOK)
	switch op {
	case opLocate, opConfirm:
		dst = appendPlace(dst, a.place)
	case opLoad:
		dst = wire.AppendUvarint(dst, uint64(len(a.records)))
		for _, rec := range a.records {
			if !rec.Exists {
				dst = append(dst, 0)
				continue
			}
			dst = appendToken(append(dst, 1), grains.Token(rec.ETag))
			dst = wire.AppendBytes(dst, rec.Data)
		}
	case opSave:
		dst = appendToken(dst, grains.Token(a.etag))
	}
	return dst
}

func readAnswer(r *wire.Reader, op operation) (a answer) {
	switch status := r.Byte(); status {
	case answerRetry:
		a.retry = true
	case answerError:
		a.place = readPlace(r)
		a.err = wire.ReadError(r)
	case answerOK:
		switch op {
		case opLocate, opConfirm:
			a.place = readPlace(r)
		case opLoad:
			for range r.Count(1) {
				rec := grains.Record{}
				if r.Byte() == 1 {
					rec.Exists = true
					rec.ETag = grains.ETag(readToken(r))
					rec.Data = append([]byte{}, r.Bytes()...)
				}
				a.records = append(a.records, rec)
			}
		case opSave:
			a.etag = grains.ETag(readToken(r))
		}
	default:
		a.err = wire.ErrCorrupt
	}
	if err := r.Err(); err != nil {
		a = answer{err: err}
	}
	return a
}
