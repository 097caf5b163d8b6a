package system_test

import (
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestDeviceStatus: the status says how busy each device is, how much of its memory is in use and what it is sick of; of devices
// without a source it says that nobody knows.
func TestDeviceStatus(t *testing.T) {
	f, w := fakeSource(t, "h100x2")
	k := testkit.New(t, testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		switch i {
		case 1:
			cfg.DeviceSource = w
		case 2:
			cfg.Resources.GPU = 2
		}
	}))
	for i, what := range []string{"busy 70", "xid 79"} {
		if err := f.Fault(i, what); err != nil {
			t.Fatal(err)
		}
	}
	of := func(i int) []inspect.DeviceStatus {
		st, err := k.Cluster().Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range st.Nodes {
			if n.Name == k.Cluster().Name(i) && len(n.Devices) == 2 {
				return n.Devices
			}
		}
		return make([]inspect.DeviceStatus, 2) // it does not answer yet
	}
	testkit.Eventually(t, 20*time.Second, "the status says how the devices are", func() bool {
		d := of(1)
		return d[0].Busy == 70 && !d[0].Sick && d[0].Cause == "" && d[1].Sick && strings.HasPrefix(d[1].Cause, "Xid 79") &&
			d[0].UsedMemory == w.Inventory().Devices[0].Used
	})
	testkit.Eventually(t, 20*time.Second, "of the other node's devices nobody knows", func() bool {
		for _, d := range of(2) {
			if d.UUID == "" || d.Busy != devices.Unknown || d.UsedMemory != 0 || d.Cause != "" {
				return false
			}
		}
		return true
	})
}
