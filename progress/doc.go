// Package progress shows how far work is: on a terminal by a line that is drawn again and again, elsewhere by a line each ten seconds.
//
//		for i, r := range progress.AsCompleted(ctx, "rollouts", refs) { // yields what raysys.AsCompleted does
//			...
//		}
//
//		rollouts: 371 of 1000 (37%), 2 failed, 12.4/s, 51s left
//
//	  - AsCompleted counts the futures that its loop is given. A loop of another form, such as one that submits while it waits, counts with a Counter.
//	  - A Line is the line itself, for a text of one's own. Lines that are on a terminal at the same time share one row.
//	  - Writer makes a writer whose output does not run into such lines. The log of a node of raysys and what work writes on other nodes, which
//	    comes to the terminal of its driver, go through one. A program that prints on the terminal itself meanwhile makes one of os.Stdout.
//
// All of it goes to the standard error, and nothing with RAYSYS_PROGRESS=off. What cannot be written is lost: a terminal that was closed ends no work.
package progress
