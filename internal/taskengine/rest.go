package taskengine

import (
	"maps"
	"slices"

	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// deviceSick is the one flag of a device.
const deviceSick = 1

// encodeRest puts a report into Load.Rest. Numbers are unsigned varints.
//
//	rest          memory, custom resources by count (name, thousandths), devices by count (thousandths, memory, flags)
func encodeRest(r *ledger.Report) string {
	dst := wire.AppendUvarint(nil, uint64(r.Memory))
	dst = wire.AppendUvarint(dst, uint64(len(r.Custom)))
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		dst = wire.AppendUvarint(wire.AppendBytes(dst, k), uint64(r.Custom[k]))
	}
	dst = wire.AppendUvarint(dst, uint64(len(r.Devices)))
	for _, d := range r.Devices {
		flags := byte(0)
		if d.Sick {
			flags = deviceSick
		}
		dst = append(wire.AppendUvarint(wire.AppendUvarint(dst, uint64(d.Share)), uint64(d.Memory)), flags)
	}
	return string(dst)
}

// ReadRest reads Load.Rest; nil for "".
func ReadRest(s string) (*ledger.Report, error) {
	if s == "" {
		return nil, nil
	}
	r := wire.NewReader([]byte(s))
	amount := func() int64 { return int64(min(r.Uvarint(), 1<<62)) }
	rest := &ledger.Report{Memory: amount()}
	for range r.Count(2) {
		if rest.Custom == nil {
			rest.Custom = map[string]int64{}
		}
		k := r.String()
		rest.Custom[k] = amount()
	}
	for range r.Count(3) {
		rest.Devices = append(rest.Devices, ledger.FreeDevice{Share: amount(), Memory: amount(), Sick: r.Byte()&deviceSick != 0})
	}
	return rest, r.Err()
}
