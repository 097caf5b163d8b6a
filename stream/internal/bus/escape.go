package bus

import (
	"fmt"
	"strconv"
	"strings"
)

// Escape makes any text one token of a subject of NATS, and a name of a stream there: letters, digits, - and _ stay, every other byte becomes = and
// two digits. The empty text is a = alone.
func Escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	if b.Len() == 0 {
		return "="
	}
	return b.String()
}

// Unescape is the inverse of Escape.
func Unescape(s string) (string, error) {
	if s == "=" {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '=' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%q ends within an escaped byte", s)
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q has an escaped byte that is no number", s)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}
