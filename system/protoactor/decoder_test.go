package protoactor_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// numeral is a message whose own method decodes it. One that is odd waits there for the test.
type numeral struct{ n, padding int }

func (m numeral) MarshalBinary() ([]byte, error) {
	return append(binary.AppendVarint(nil, int64(m.n)), make([]byte, m.padding)...), nil
}

func (m *numeral) UnmarshalBinary(src []byte) error {
	n, _ := binary.Varint(src)
	if m.n = int(n); n%2 == 1 {
		<-goOn
	}
	return nil
}

func init() { raysys.Register[numeral]("numeral") }

// numerals keeps those that it is told, as a carrier does.
type numerals struct{ carrier }

func (a *numerals) Receive(c actor.Context) {
	if m, ok := c.Message().(numeral); ok {
		a.numbers = append(a.numbers, structpb.NewNumberValue(float64(m.n)))
		return
	}
	a.carrier.Receive(c)
}

var _ = protoactor.Kinds(cluster.NewKind("numerals", actor.PropsFromProducer(func() actor.Actor { return &numerals{} })))

// TestDecoderBlocksNoReader: a message whose own method decodes it, and waits there, blocks no other of its node. It keeps its place.
func TestDecoderBlocksNoReader(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	c := clusters(k)[0]
	for what, padding := range map[string]int{"small": 0, "large": 2 * mib} {
		answersBeside(t, k, c, "before,")
		for _, n := range []int{2, 1, 4} {
			c.ActorSystem.Root.Send(c.Get(what, "numerals"), numeral{n, padding})
		}
		answersBeside(t, k, c, what)
		goOn <- true
		v, err := c.Request(what, "numerals", &emptypb.Empty{}, cluster.WithTimeout(patient))
		if err != nil {
			t.Fatal(what, err)
		}
		var got []int
		for _, n := range v.(*structpb.ListValue).Values {
			got = append(got, int(n.GetNumberValue()))
		}
		if want := []int{2, 1, 4}; !slices.Equal(got, want) {
			t.Errorf("%s: %v came, and not %v", what, got, want)
		}
	}
}
