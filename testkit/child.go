package testkit

// childDir is set in the processes that Processes starts: where they leave what the test shall read.
const childDir = "RAYSYS_TESTKIT_DIR"
