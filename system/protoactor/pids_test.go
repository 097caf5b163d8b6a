package protoactor_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/cluster"

	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// TestForgottenPIDs: a PID that is not used is forgotten, and so are those of a member that left.
func TestForgottenPIDs(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	hi := func(id string) { ask(t, c, "echo", id, "hi", cluster.WithTimeout(patient)) }
	hi("used")
	hi("left")
	protoactor.Turn(c)
	hi("used")
	if !protoactor.Knows(c, "left", "echo") {
		t.Error("a PID is forgotten at once")
	}
	protoactor.Turn(c)
	if !protoactor.Knows(c, "used", "echo") || protoactor.Knows(c, "left", "echo") {
		t.Error("the one that was used is forgotten, or the other is not")
	}
	hi("left")
	var of [2]int
	for i := range of {
		of[i] = hostOf(t, k, c, "echo", []string{"used", "left"}[i])
	}
	k.Cluster().Kill(of[0])
	testkit.Eventually(t, patient, "PIDs of a dead node are forgotten", func() bool { return !protoactor.Knows(c, "used", "echo") })
	if of[1] != of[0] && !protoactor.Knows(c, "left", "echo") {
		t.Error("a PID of the other node is forgotten too")
	}
}
