package system_test

import (
	"strings"
	"testing"

	"github.com/raysys/raysys/system"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "9223372036854775807": 1<<63 - 1, "512MiB": 512 << 20, "512 MiB": 512 << 20, "1.5GB": 1_500_000_000, "2TiB": 2 << 40, "7B": 7,
		"30%": 300, "100%": 1000, "0.5%": 5, "12.5 %": 125,
	} {
		if got, err := system.ParseSize(text, 1000); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "MiB", "1e3XiB", "1 2", "101%", "-5%", "%", "NaN", "9223372036854775808", "16777216TiB", "5 mib", "x30%"} {
		if got, err := system.ParseSize(text, 1000); err == nil || !strings.Contains(err.Error(), "a share such as 30%") {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	if got, err := system.ParseSize("30%", 0); err == nil || strings.Contains(err.Error(), "share") {
		t.Errorf("a share of nothing is %d, %v", got, err)
	}
}
