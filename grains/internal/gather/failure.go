package gather

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// AppendError appends an error as it travels; nil is no bytes.
func AppendError(b []byte, err error) []byte {
	if err == nil {
		return b
	}
	return wire.AppendError(b, core.Sound(err))
}

// ReadError reads what AppendError has appended to nothing.
func ReadError(b []byte) (err, bad error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := wire.NewReader(b)
	err = wire.ReadError(&r)
	return err, r.Err()
}
