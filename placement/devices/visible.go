package devices

import (
	"slices"
	"strconv"
	"strings"
)

// VisibleVariable is the variable that limits which devices a process sees.
const VisibleVariable = "CUDA_VISIBLE_DEVICES"

// Visible returns the devices that a value of CUDA_VISIBLE_DEVICES names, in its order. The rules are CUDA's (its programming
// guide, "CUDA environment variables"):
//
//   - Entries are separated by commas. The first decides what all are: numbers, "GPU-" or "MIG-". An empty value names none.
//   - A number counts GPUs, here in the order of the PCI bus (CUDA_DEVICE_ORDER=PCI_BUS_ID). It may have text after it.
//   - A UUID of a GPU may be cut short, as long as one GPU alone begins with it.
//   - A MIG instance has its whole UUID, or "MIG-", the GPU's UUID and "/GI/CI", as drivers before R470 name it.
//   - What names no device, -1 for one, ends the list: the devices before it count. One device named twice makes it empty.
//
// One thing is wider than in CUDA, where a process sees one MIG instance: a GPU stands for all of its instances, and several
// may be named, since a node gives each process one of its own.
func Visible(all []Device, value string) []Device {
	var list []Device
	kind := kindOf(value)
	for entry := range strings.SplitSeq(value, ",") {
		named := named(all, strings.TrimSpace(entry), kind)
		if named == nil {
			break
		}
		for _, d := range named {
			if slices.ContainsFunc(list, func(o Device) bool { return o.UUID == d.UUID }) {
				return nil
			}
		}
		list = append(list, named...)
	}
	return list
}

// VisibleNames returns the names of the devices in a value of CUDA_VISIBLE_DEVICES, by the rules of Visible, where it is not known which
// devices there are.
func VisibleNames(value string) (list []string) {
	kind := kindOf(value)
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		if n, ok := number(entry); kind == "" && ok {
			entry = strconv.Itoa(n)
		} else if kind == "" || !strings.HasPrefix(entry, kind) {
			break
		}
		if slices.Contains(list, entry) {
			return nil
		}
		list = append(list, entry)
	}
	return list
}

// kindOf is the prefix of the entries; empty for numbers.
func kindOf(value string) string {
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if strings.HasPrefix(strings.TrimSpace(value), prefix) {
			return prefix
		}
	}
	return ""
}

// named returns the devices that one entry of that kind names: one GPU, its instances, or one instance. Nil: none.
func named(all []Device, entry, kind string) (list []Device) {
	if !strings.HasPrefix(entry, kind) {
		return nil
	}
	var is func(Device) bool
	switch kind {
	case "MIG-":
		is = func(d Device) bool { return d.MIG() && d.UUID == entry }
	case "GPU-":
		is = func(d Device) bool { return strings.HasPrefix(gpuOf(d), entry) }
	default:
		n, ok := number(entry)
		if !ok {
			return nil
		}
		is = func(d Device) bool { return d.Index == n }
	}
	for _, d := range all {
		if !is(d) {
			continue
		}
		if len(list) > 0 && gpuOf(d) != gpuOf(list[0]) {
			return nil // the beginning of two UUIDs
		}
		list = append(list, d)
	}
	return list
}

// gpuOf is the UUID of the GPU that d is, or is a part of.
func gpuOf(d Device) string {
	if d.MIG() {
		return d.GPU
	}
	return d.UUID
}

// number reads what an entry begins with, as strtoul does: "2", "+2", "2ampere".
func number(entry string) (int, bool) {
	digits := strings.TrimPrefix(entry, "+")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
