package grains

import (
	"encoding/binary"
	"fmt"
)

// A stored State is
//
//	format 1 | fingerprint of T, 8 bytes little-endian | T by the codec, which has a version of its own
//
// The fingerprint says which version of the type wrote it. It decides nothing: fields may be added and taken away, and
// what was stored under another fingerprint is read by field names (rule C4). It is for the message when that fails.
const (
	recordFormat = 1
	recordHead   = 1 + 8
)

func sealRecord(v kept) ([]byte, error) {
	p, err := v.plan()
	if err != nil {
		return nil, err
	}
	return v.encode(binary.LittleEndian.AppendUint64([]byte{recordFormat}, p.Fingerprint()))
}

// openRecord sets v to what is stored.
func openRecord(data []byte, v kept) error {
	if len(data) < recordHead {
		return fmt.Errorf("%d bytes are no stored state", len(data))
	}
	if data[0] != recordFormat {
		return fmt.Errorf("stored in format %d, and this program knows %d: it was written by a newer version", data[0], recordFormat)
	}
	p, err := v.plan()
	if err != nil {
		return err
	}
	err = v.decode(data[recordHead:])
	if was, is := binary.LittleEndian.Uint64(data[1:]), p.Fingerprint(); err != nil && was != is {
		return fmt.Errorf("stored as another version of %s (fingerprint %016x, here %016x): %w", p.Type(), was, is, err)
	}
	return err
}
