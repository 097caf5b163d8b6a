package link

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
)

// ending says how an end of a stream finished. The numbers are on the wire.
type ending uint8

const (
	endWriting ending = 1 // it writes no more
	endClosed  ending = 2 // it is closed
	endLost    ending = 3 // the relay cannot reach it, and says why
)

const (
	tagStream    = 1
	tagRelayFrom = 2
	tagRelayTo   = 3
)

// opening asks for a stream.
type opening struct {
	id       uint64
	from, to raysys.NodeID
}

func (o *opening) fields() []field {
	return []field{{tagStream, &o.id}, {tagRelayFrom, (*string)(&o.from)}, {tagRelayTo, (*string)(&o.to)}}
}

func (o *opening) append(dst []byte) []byte { return appendFields(dst, o.fields()) }

func (o *opening) read(b []byte) error {
	err := readFields(b, o.fields())
	if err == nil && (o.id == 0 || o.from == "" || o.to == "") {
		err = fmt.Errorf("%w: a stream without number or ends", ErrCorrupt)
	}
	return err
}

func appendMore(dst []byte, id uint64, n int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(dst, id), uint32(n))
}

func appendEnd(dst []byte, id uint64, how ending, why string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(dst, id), byte(how)), why[:min(len(why), maxText/8)]...)
}
