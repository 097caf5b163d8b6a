package testkit

import "time"

// Reported makes a recorder that was told these events: "grain life node what at|etag".
func Reported(events ...[5]any) *Activations {
	a := NewActivations("made")
	for _, e := range events {
		ev := event{Grain: e[0].(string), Life: e[1].(string), Node: "node of " + e[1].(string), What: e[2].(string), At: int64(e[3].(int)) * int64(time.Second)}
		if e[4] != nil {
			ev.ETag = e[4].(string)
		}
		a.events = append(a.events, ev)
	}
	return a
}
