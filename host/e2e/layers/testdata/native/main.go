// Command main replaces a layer's own main.go in native benchmarks. It reads facts, then numbers of calls, from
// standard input. For each number it makes that many calls, and prints the time in nanoseconds, the allocations and the
// allocated bytes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"assay/sdk"
)

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var facts []sdk.Facts
	if err := in.Decode(&facts); err != nil {
		fail(err)
	}
	for i := 0; ; {
		var calls int
		if err := in.Decode(&calls); err != nil {
			fail(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		for range calls {
			if sdk.Run(Score, facts[i%len(facts)]).Outcome == sdk.Failed {
				fail(fmt.Errorf("the layer failed"))
			}
			i++
		}
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		fmt.Println(took.Nanoseconds(), after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
