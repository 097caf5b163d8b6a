// Package clitest runs a command of this module in its tests: as a process, which is the test binary again, or in the
// process of the test.
//
//	func TestMain(m *testing.M) {
//		if clitest.Asked() {
//			main()
//		}
//		...
//	}
//
//	stdout, stderr, code := clitest.Command(t, []string{"version"}, []string{"RAYSYS_OUTPUT=json"})
//	clitest.ExitCodes(t, run, []clitest.Case{{Args: []string{"frobnicate"}, Code: 2, Talk: "does not exist"}})
package clitest
