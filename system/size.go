package system

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of sizes: the binary and the decimal ones, since people write both.
var units = map[string]float64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ParseSize reads a size as variables and flags have it: bytes (4096), with a unit (512MiB, 1.5GB), or a share of whole
// (30%), which is 0 where there can be no share.
func ParseSize(text string, whole int64) (int64, error) {
	wrong := errors.New("give bytes or a size such as 512MiB")
	if whole > 0 {
		wrong = errors.New("give bytes, a size such as 512MiB, or a share such as 30%")
	}
	if share, ok := strings.CutSuffix(text, "%"); ok && whole > 0 {
		f, good := amount(strings.TrimSpace(share))
		if !good || f > 100 {
			return 0, wrong
		}
		return int64(float64(whole) * f / 100), nil
	}
	at := strings.LastIndexAny(text, "0123456789.") + 1
	unit, known := units[strings.TrimSpace(text[at:])]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil // every byte of it, which a float64 would not keep
	}
	f, good := amount(text[:at])
	if !known || !good || f*unit >= math.MaxInt64 {
		return 0, wrong
	}
	return int64(f * unit), nil
}

// size reads a variable. whole is what a share is of, 0 where there is none.
func (e *environment) size(name string, whole int64) int64 {
	v := e.get(name)
	if v == "" {
		return 0
	}
	n, err := ParseSize(v, whole)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s=%q: %w", name, v, err))
	}
	return n
}
