// Package pressure has a node that nears its memory limit let go of idle grains, and start none.
//
//	                 0.75          0.8            0.9
//	used ───────────────┼─────────────┼──────────────┼────────▶ limit
//	       Roomy again ◀┘             │              └▶ Full: no grain starts here
//	                                  └▶ Crowded: idle grains go, the longest idle first, a share each second
//
// The nouns:
//
//   - A [Watch] looks at what is used ([Watch.Look]), and says what the node is: a [loadreport.Memory]. Once a second
//     grains go.
//   - [Grains] is what it asks of the engine that has them.
//
// To unload grains that are in use spreads the trouble to other nodes and to the store, and frees nothing for long. So
// a Watch rests where many that went are called here again, and where nothing goes or nothing comes free.
//
// Go's collector knows nothing of the limit. Follow gives it one, softer than where the Watch begins: what is used
// beyond it is used by something.
package pressure
