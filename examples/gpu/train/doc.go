// Package train has the grain that trains a model of package mlp on a GPU, and whoever wants it trained.
//
//	Run ── Begin(Job) ──► Trainer ── holds a GPU, or has the CPU of its node
//	    ── Step(to) ────►    │ turns of half a second, so that a cancellation or a drain gets in
//	                         └── each Every steps: Put(Snapshot, Replicas(2)) ──► State ── survives the node
//
// Rules:
//
//  1. Step(to) may be repeated: it names the step to reach. It returns when it is there, or its time is over, with the step that
//     it has reached.
//
//  2. A node that is killed costs at most Every steps: the next call has the trainer on another node, where it begins with the
//     snapshot that its State holds. Drained, or idle, it makes a snapshot first.
//
//  3. After an error of the device, or when raysys says that it is sick, the activation goes. The next one begins with the last
//     snapshot, on a device that is well.
//
//  4. Where no node has a GPU that is well, or the driver's library is missing there, the CPU trains, and one line of the log says
//     so. The steps are the same. A trainer that has begun on a GPU stays with GPUs: while there is none, Run fails. One that holds a
//     GPU never computes on the CPU.
package train
