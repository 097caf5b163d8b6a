package loadreport

import (
	"maps"
	"slices"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// deviceSick is the one flag of a device.
const deviceSick = 1

// EncodeRest puts a report into Load.Rest. Numbers are unsigned varints.
//
//	rest          memory, custom resources by count (name, thousandths), devices by count (thousandths, memory, flags)
func EncodeRest(r *ledger.Report) string {
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
	return readRest(&r)
}

func readRest(r *wire.Reader) (*ledger.Report, error) {
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

// EncodeRooms puts rooms into a report. Numbers are unsigned varints.
//
//	rooms         bundles by count (group, index, thousandths of CPU, room with its length)
//	room          rest, the numbers of its devices by count
func EncodeRooms(list []ledger.Room) string {
	dst := wire.AppendUvarint(nil, uint64(len(list)))
	for i := range list {
		b := &list[i]
		dst = wire.AppendUvarint(wire.AppendBytes(dst, b.Bundle.Group), uint64(b.Bundle.Index))
		room := wire.AppendUvarint([]byte(EncodeRest(b.Rest)), uint64(len(b.Numbers)))
		for _, n := range b.Numbers {
			room = wire.AppendUvarint(room, uint64(n))
		}
		dst = wire.AppendBytes(wire.AppendUvarint(dst, uint64(b.CPU)), room)
	}
	return string(dst)
}

// MaxRooms bounds the bundles of a report: the longest names of groups take half of a frame.
const MaxRooms = 1000

// ReadRooms reads what a report says of bundles.
func ReadRooms(s string) (list []ledger.Room, err error) {
	if s == "" {
		return nil, nil
	}
	r := wire.NewReader([]byte(s))
	for range r.Count(4) {
		b := ledger.Room{Bundle: core.Bundle{Group: r.String(), Index: int(r.Uint32())}, CPU: int64(min(r.Uvarint(), maxCount*1024))}
		room := wire.NewReader(r.Bytes())
		if b.Rest, err = readRest(&room); err != nil {
			return nil, err
		}
		for range room.Count(1) {
			b.Numbers = append(b.Numbers, int(min(room.Uvarint(), maxCount)))
		}
		if err = room.Err(); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, r.Err()
}
