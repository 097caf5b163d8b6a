package devices_test

import (
	"slices"
	"testing"

	"github.com/raysys/raysys/placement/devices"
)

// TestVisible: CUDA_VISIBLE_DEVICES limits the devices by CUDA's rules.
func TestVisible(t *testing.T) {
	all := []devices.Device{
		{UUID: "GPU-8932f937-d72c", Index: 0},
		{UUID: "GPU-8932aaaa-0000", Index: 1},
		{UUID: "GPU-44444444-4444", Index: 2},
		{UUID: "MIG-11111111", Index: 3, GPU: "GPU-33333333-3333"},
		{UUID: "MIG-22222222", Index: 3, GPU: "GPU-33333333-3333"},
		{UUID: "MIG-GPU-55555555-5555/1/0", Index: 4, GPU: "GPU-55555555-5555"},
	}
	for _, c := range []struct {
		value string
		want  []int // places in all
		why   string
	}{
		{"", nil, "an empty value names none"},
		{"0", []int{0}, "a number"},
		{"2,1", []int{2, 1}, "in the order of the list"},
		{"0,2,-1,1", []int{0, 2}, "-1 ends the list"},
		{"-1", nil, "-1 alone names none"},
		{"0,9,1", []int{0}, "a number without a device ends the list"},
		{"1,,2", []int{1}, "an empty entry ends the list"},
		{" 1 , 2 ", []int{1, 2}, "blanks around entries"},
		{"+1,2ampere", []int{1, 2}, "numbers as strtoul reads them"},
		{"0,1,0", nil, "a device named twice empties the list"},
		{"no", nil, "neither number nor UUID"},
		{"NoDevFiles", nil, "what some runtimes set for none"},
		{"99999999999999999999", nil, "more than a number holds"},
		{"GPU-8932f937-d72c", []int{0}, "a UUID"},
		{"GPU-8932f,GPU-4", []int{0, 2}, "UUIDs cut short"},
		{"GPU-4,GPU-8932", []int{2}, "the beginning of two UUIDs ends the list"},
		{"GPU-8932f,GPU-0,GPU-4", []int{0}, "a UUID of no device ends the list"},
		{"GPU-8932f,GPU-8932f937", nil, "one device by two names"},
		{"GPU-8932f,1", []int{0}, "a number after a UUID ends the list"},
		{"1,GPU-8932f", []int{1}, "a UUID after a number ends the list"},
		{"gpu-8932f", nil, "UUIDs begin with GPU-"},
		{"3", []int{3, 4}, "a GPU stands for its instances"},
		{"GPU-3", []int{3, 4}, "a GPU's UUID, too"},
		{"MIG-22222222", []int{4}, "an instance"},
		{"MIG-22222222,MIG-11111111", []int{4, 3}, "several instances, each for a process of its own"},
		{"MIG-2222", nil, "an instance's UUID may not be cut short"},
		{"MIG-GPU-55555555-5555/1/0", []int{5}, "an instance by the name of older drivers"},
		{"MIG-22222222,0", []int{4}, "a number after an instance ends the list"},
	} {
		var want []devices.Device
		for _, i := range c.want {
			want = append(want, all[i])
		}
		if got := devices.Visible(all, c.value); !slices.Equal(got, want) {
			t.Errorf("%q (%s): got %v, want %v", c.value, c.why, got, want)
		}
	}
}

// TestVisibleInventory: the limit holds for the inventory and its links; without the variable all devices are there.
func TestVisibleInventory(t *testing.T) {
	w, err := devices.Open("fake:dgx1", devices.Config{LookupEnv: func(name string) (string, bool) { return "7,0,4", name == "CUDA_VISIBLE_DEVICES" }})
	if err != nil {
		t.Fatal(err)
	}
	i := w.Inventory()
	if len(i.Devices) != 3 || i.Devices[0].Index != 7 || i.Devices[1].Index != 0 || i.Links[0][1] != 0 || i.Links[0][2] != 2 || i.Links[1][2] != 2 {
		t.Errorf("devices 7, 0 and 4 of a DGX-1: got %+v", i)
	}
	if n := len(inventory(t, "dgx1").Devices); n != 8 {
		t.Errorf("without CUDA_VISIBLE_DEVICES %d of 8 devices are there", n)
	}
}

// TestHardwareXid: Xids that NVIDIA lists as a program's do not make a GPU sick; those of the hardware do.
func TestHardwareXid(t *testing.T) {
	for _, xid := range []uint64{13, 31, 43, 45, 63, 68, 69, 94, 109, 154, 0, 100000} {
		if what, ok := devices.HardwareXid(xid); ok {
			t.Errorf("Xid %d makes a GPU sick: %s", xid, what)
		}
	}
	for _, xid := range []uint64{48, 62, 64, 74, 79, 92, 95, 119, 120, 140, 143} {
		if what, ok := devices.HardwareXid(xid); !ok || what == "" {
			t.Errorf("Xid %d does not make a GPU sick", xid)
		}
	}
}

// TestVisibleNames: the names are by the same rules where the devices are not known.
func TestVisibleNames(t *testing.T) {
	for value, want := range map[string][]string{
		"":                           nil,
		"2,3":                        {"2", "3"},
		" 1 , +2ampere,-1,4":         {"1", "2"},
		"0,1,0":                      nil,
		"1,,2":                       {"1"},
		"NoDevFiles":                 nil,
		"GPU-8932f, GPU-4,1":         {"GPU-8932f", "GPU-4"},
		"1,GPU-8932f":                {"1"},
		"MIG-1,MIG-GPU-5/1/0,MIG-1x": {"MIG-1", "MIG-GPU-5/1/0", "MIG-1x"},
	} {
		if got := devices.VisibleNames(value); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", value, got, want)
		}
	}
}
