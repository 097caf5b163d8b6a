// Package gputest has the tests that need a GPU, which `make test-gpu` runs.
//
//	TestDevices   what raysys finds is what nvidia-smi shows
//	TestTrains    a grain trains on the device as the CPU does, and goes on when its node is killed
//	TestHalves    two grains hold half of one device each, and train at the same time
//	TestTorch     examples/torch trains on it
//	TestHetero    examples/hetero has its learner on the node that has it
//
// Where there is no GPU they are skipped. TestOnStandIn runs them with libraries in C that stand in for the driver's, and is how
// they are tried where no GPU is. At the end their figures are printed as rows for docs/benchmarks.md.
//
// The programs of TestTorch and TestHetero are in the folder that RAYSYS_TEST_GPU_PROGRAMS names, or are built. So the package, as one
// test binary, runs on a machine without the go command.
package gputest
