// The benchmarks build a layer natively with this in the place of its own main.go: it scores the facts that it is given
// as often as it is told, and answers how long that took and what it allocated.
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
