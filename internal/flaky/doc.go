// Package flaky wraps a store.KV and breaks it on purpose: down, slow, failing calls, answers that get lost, changes
// that arrive late. Tests give each node a wrapper of its own around the store that they share.
//
//	kv := flaky.Wrap(shared)
//	kv.Down(true)                        // this node alone cannot reach the store
//	kv.FailNext(3, flaky.LoseAnswer)     // three changes are made, and the caller does not learn of it
package flaky
