package system

import (
	"fmt"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// operation is what is asked of the leader of a shard. The numbers are on the wire.
type operation byte

const (
	opLocate  operation = 1 // where the grain is; it is placed if it is nowhere
	opConfirm operation = 2 // whether a token is current on the node that asks
	opRelease operation = 3 // remove the placement if the token is current
	opLoad    operation = 4 // read state records
	opSave    operation = 5 // commit one state record
	opObjects operation = 6 // changes of the object directory, all in one shard
	opFind    operation = 7 // a record of the object directory
)

// request asks the leader of the shard that the grain belongs to.
type request struct {
	op       operation
	id       grainengine.ID
	ns       string // namespace
	token    grainengine.Token
	strategy raysys.Strategy   // locate
	labels   map[string]string // locate
	avoid    grainengine.Place // locate
	names    []string          // load
	name     string            // save
	etag     grainengine.ETag  // save
	data     []byte            // save
	clear    bool              // save
	changes  []objectChange    // objects
	key      string            // find
	seen     store.Version     // find: with wait, the answer is a record of another version
	wait     bool              // find

	from    core.NodeKey
	inbound bool         // it came from another node, which asks the next leader itself
	parked  int64        // since when it waits for a leader, 0 if it never did
	answer  func(answer) // called once, on any goroutine; must not block
}

// answer is what the leader says.
type answer struct {
	err     error
	retry   bool // the asked node does not lead the shard: nothing was done
	place   grainengine.Place
	records []grainengine.Record
	etag    grainengine.ETag
	objects []objectAnswer // one for each change; for find one
}

// objectAnswer is a record of the directory as it is now.
type objectAnswer struct {
	refused bool // the change was not made
	exists  bool
	rec     objectRecord
	version store.Version
	held    []raysys.TaskID // of the record of a State: the objects that it holds
}

// table and shard keys: a grain's placement and its state lie in the same shard (rule C19).
func (q *request) placementKey() string { return "g/" + q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key }

func (q *request) stateKey(name string) string {
	return "s/" + q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key + "\x00" + name
}

// checkKey says what is wrong with a key of the object directory. These are all that another node may ask for by key:
// records of objects and of names, and those of a State where it asks what they hold.
func checkKey(key string, states bool) error {
	switch {
	case strings.HasPrefix(key, "o/"), strings.HasPrefix(key, "n/"):
		return nil
	case states && strings.HasPrefix(key, "s/") && strings.Count(key, "\x00") >= 3: // namespace, kind, key, name
		return nil
	}
	return fmt.Errorf("%w: %.64q is no key of the object directory", wire.ErrCorrupt, key)
}

// slotKey is what is hashed to find the shard.
func (q *request) slotKey() string {
	switch q.op {
	case opObjects:
		return q.changes[0].key
	case opFind:
		if rest, ok := strings.CutPrefix(q.key, "s/"); ok { // a State's record lies with its grain
			return rest[:strings.LastIndexByte(rest, 0)]
		}
		return q.key
	}
	return q.ns + "\x00" + q.id.Kind + "\x00" + q.id.Key
}

// Bounds of a request, beside the frame's own.
const (
	maxLabels = 64
	maxNames  = 256
	// maxChanges bounds the changes of one request: they are one batch of the shard.
	maxChanges = 64
)

func appendPlace(dst []byte, p grainengine.Place) []byte {
	return wire.AppendStamp(wire.AppendNode(dst, p.NodeKey), p.Token)
}

func readPlace(r *wire.Reader) grainengine.Place {
	at := wire.ReadNode(r)
	return grainengine.Place{NodeKey: at, Token: wire.ReadStamp[grainengine.Token](r)}
}

func (q *request) append(dst []byte) []byte {
	dst = append(dst, byte(q.op))
	dst = wire.AppendBytes(dst, q.ns)
	dst = wire.AppendBytes(dst, q.id.Kind)
	dst = wire.AppendBytes(dst, q.id.Key)
	dst = wire.AppendStamp(dst, q.token)
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
		dst = wire.AppendStamp(dst, q.etag)
		if q.clear {
			return append(dst, 0)
		}
		dst = wire.AppendBytes(append(dst, 1), q.data)
	case opObjects:
		dst = wire.AppendUvarint(dst, uint64(len(q.changes)))
		for i := range q.changes {
			dst = q.changes[i].append(dst)
		}
	case opFind:
		dst = wire.AppendBytes(dst, q.key)
		dst = wire.AppendStamp(dst, q.seen)
		wait := byte(0)
		if q.wait {
			wait = 1
		}
		dst = append(dst, wait)
	}
	return dst
}

func readRequest(r *wire.Reader) (*request, error) {
	q := &request{op: operation(r.Byte()), ns: r.String()}
	q.id = grainengine.ID{Kind: r.String(), Key: r.String()}
	q.token = wire.ReadStamp[grainengine.Token](r)
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
		q.etag = wire.ReadStamp[grainengine.ETag](r)
		if q.clear = r.Byte() == 0; !q.clear {
			q.data = append([]byte{}, r.Bytes()...)
		}
	case opObjects:
		n := r.Count(2)
		if n == 0 || n > maxChanges {
			return nil, fmt.Errorf("%w: %d changes of objects", wire.ErrCorrupt, n)
		}
		for range n {
			ch, err := readObjectChange(r)
			if err != nil {
				return nil, err
			}
			if err := checkKey(ch.key, false); err != nil {
				return nil, err
			}
			q.changes = append(q.changes, ch)
		}
	case opFind:
		q.key, q.seen, q.wait = r.String(), wire.ReadStamp[store.Version](r), r.Byte() == 1
		if r.Err() == nil {
			if err := checkKey(q.key, true); err != nil {
				return nil, err
			}
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
			dst = wire.AppendStamp(append(dst, 1), rec.ETag)
			dst = wire.AppendBytes(dst, rec.Data)
		}
	case opSave:
		dst = wire.AppendStamp(dst, a.etag)
	case opObjects, opFind:
		dst = wire.AppendUvarint(dst, uint64(len(a.objects)))
		for i := range a.objects {
			dst = a.objects[i].append(dst)
		}
	}
	return dst
}

// Bits of an objectAnswer.
const (
	objectRefused = 1 << iota
	objectExists
)

func (o *objectAnswer) append(dst []byte) []byte {
	bits := byte(0)
	if o.refused {
		bits |= objectRefused
	}
	if !o.exists {
		return append(dst, bits)
	}
	dst = wire.AppendStamp(append(dst, bits|objectExists), o.version)
	dst = o.rec.append(dst)
	dst = wire.AppendUvarint(dst, uint64(len(o.held)))
	for _, id := range o.held {
		dst = wire.AppendID(dst, id)
	}
	return dst
}

func readObjectAnswer(r *wire.Reader) (o objectAnswer, err error) {
	bits := r.Byte()
	o.refused, o.exists = bits&objectRefused != 0, bits&objectExists != 0
	if o.exists {
		o.version = wire.ReadStamp[store.Version](r)
		o.rec, err = readObjectRecord(r)
		for range r.Count(16) {
			o.held = append(o.held, r.ID())
		}
	}
	return o, err
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
				rec := grainengine.Record{}
				if r.Byte() == 1 {
					rec.Exists = true
					rec.ETag = wire.ReadStamp[grainengine.ETag](r)
					rec.Data = append([]byte{}, r.Bytes()...)
				}
				a.records = append(a.records, rec)
			}
		case opSave:
			a.etag = wire.ReadStamp[grainengine.ETag](r)
		case opObjects, opFind:
			for range r.Count(1) {
				o, err := readObjectAnswer(r)
				if err != nil {
					return answer{err: err}
				}
				a.objects = append(a.objects, o)
			}
		}
	default:
		a.err = wire.ErrCorrupt
	}
	if err := r.Err(); err != nil {
		a = answer{err: err}
	}
	return a
}
