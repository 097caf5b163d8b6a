package groupengine

import "github.com/raysys/raysys/internal/core"

// Rounds are the times that nodes were asked to make room for what waits. One is asked at first, and twice as many each time, since
// the asker does not know where idle grains hold what is missing, and few are to go where one does. After all it begins anew.
type Rounds struct{ asked int }

// Next returns which of the nodes to ask now. What waits has a number, so that not all begin with the same node.
func (r *Rounds) Next(nodes []core.NodeKey, number uint64) (list []core.NodeKey) {
	if r.asked *= 2; r.asked == 0 || r.asked >= 2*len(nodes) {
		r.asked = 1
	}
	for i := range min(r.asked, len(nodes)) {
		list = append(list, nodes[(number%uint64(len(nodes))+uint64(i))%uint64(len(nodes))])
	}
	return list
}
