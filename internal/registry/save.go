package registry

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// save stores or removes one record of a grain's State, on two conditions: the token is that of the placement, the ETag
// that of the record. The current activation may ask. A save whose outcome is unknown is not repeated.
type save struct {
	grain
	name string
	etag graindir.ETag // zero: there is no record
	data []byte        // nil removes the record
}

// Save stores data under name if token is current and etag is that of the stored version; nil data removes it. See
// graindir.States for its errors.
func (r *Registry) Save(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte, done func(graindir.ETag, error)) {
	ask(r, &save{grain{r.cfg.Namespace, id, token}, name, etag, data}, done)
}

func (*save) code() code { return codeSave }

func (o *save) append(dst []byte) []byte {
	dst = wire.AppendStamp(wire.AppendBytes(o.grain.append(dst), o.name), o.etag)
	if o.data == nil {
		return append(dst, 0)
	}
	return wire.AppendBytes(append(dst, 1), o.data)
}

func (o *save) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil {
		return err
	}
	o.name, o.etag = r.String(), wire.ReadStamp[graindir.ETag](r)
	if r.Byte() != 0 {
		o.data = append([]byte{}, r.Bytes()...)
	}
	return nil
}

func (*save) appendAnswer(dst []byte, etag graindir.ETag) []byte {
	return wire.AppendStamp(dst, etag)
}

func (*save) readAnswer(r *wire.Reader) (graindir.ETag, error) {
	return wire.ReadStamp[graindir.ETag](r), nil
}

func (o *save) serve(l *leader, q *asked[graindir.ETag]) {
	if err := l.authorize(&o.grain, q.from); err != nil {
		q.fail(err)
		return
	}
	key := o.stateKey(o.name)
	state := shardlog.Check{Key: key, Version: shardlog.Version(o.etag)}
	b := shardlog.Batch{Checks: []shardlog.Check{state}}
	if o.token != (graindir.Token{}) {
		// The first condition that does not hold is reported: an activation that is not current hears raysys.ErrMoved.
		b.Checks = []shardlog.Check{{Key: o.placementKey(), Version: shardlog.Version(o.token)}, state}
	}
	if o.data == nil {
		b.Deletes = []string{key}
	} else {
		b.Puts = []shardlog.Put{{Key: key, Value: o.data}}
	}
	l.propose(b, func(res shardlog.Result, err error) {
		var conflict *shardlog.ConflictError
		switch {
		case err == nil:
			l.post(stateSaved(key)) // nodes that retain objects for the State read its record again
			var etag graindir.ETag
			if o.data != nil {
				etag = graindir.ETag(res.Version(0))
			}
			q.answer(etag, nil)
		case !errors.As(err, &conflict):
			q.fail(outcome(err))
		case conflict.Check.Key == key:
			q.fail(fmt.Errorf("%w: state %q of %s was written since it was read", graindir.ErrETag, o.name, o.id))
		default:
			q.fail(o.stale(graindir.Place{}))
		}
	})
}
