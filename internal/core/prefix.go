package core

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Prefix is how the digits of an id begin. It matches without making the digits, since a question is asked of every task that
// waits.
type Prefix struct{ digits, mask TaskID }

// PrefixOf reads 1 to 32 hexadecimal digits; false for what no id begins with.
func PrefixOf(digits string) (p Prefix, ok bool) {
	n := len(digits)
	if n == 0 || n > 32 || digits != strings.ToLower(digits) {
		return p, false
	}
	read := func(s string) (id TaskID, ok bool) {
		b, err := hex.DecodeString(s + strings.Repeat("0", 32-n))
		if err != nil {
			return id, false
		}
		return TaskID{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
	}
	if p.digits, ok = read(digits); !ok {
		return Prefix{}, false
	}
	p.mask, _ = read(strings.Repeat("f", n))
	return p, true
}

// Of reports whether the digits of id begin so.
func (p Prefix) Of(id TaskID) bool {
	return id.Hi&p.mask.Hi == p.digits.Hi && id.Lo&p.mask.Lo == p.digits.Lo
}

// Digits is the first id that begins so: the whole id, where all its digits are given.
func (p Prefix) Digits() TaskID { return p.digits }
