package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"

	"assay/registry"
)

// ServeCompiler compiles one module for a parent process, which runs this one as [Config].Compiler. It limits the whole
// process, so the process must do nothing else.
func ServeCompiler(ctx context.Context, in io.Reader, out io.Writer) error {
	return ServeLimited(in, out, func(wasm []byte) any { return compileInto(ctx, ".", wasm) })
}

// ServeLimited applies the limits that the parent process requests with [RunLimited], calls work with the module, and
// prints its result as JSON. The process must do nothing else.
func ServeLimited(in io.Reader, out io.Writer, work func(wasm []byte) any) error {
	r := bufio.NewReader(in)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	var request compileRequest
	if err := json.Unmarshal(line, &request); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if err := request.limitProcess(); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	wasm, err := io.ReadAll(io.LimitReader(r, registry.MaxModuleBytes+1))
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	return json.NewEncoder(out).Encode(work(wasm))
}

// limitProcess applies the limits to this process.
func (r compileRequest) limitProcess() error {
	runtime.GOMAXPROCS(r.Processors)
	if r.Memory > 0 {
		debug.SetMemoryLimit(int64(r.Memory / 4 * 3)) // collects garbage more often before the kernel refuses memory
	}
	return errors.Join(lowerPriority(r.Nice), limitResources(r))
}

// compileInto compiles a module, starts an instance of it, and leaves its code in dir.
func compileInto(ctx context.Context, dir string, wasm []byte) compileReport {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return compileReport{Error: err.Error()}
	}
	s := New(Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)})
	metered, err := instrument(m)
	if err != nil {
		return compileReport{Error: err.Error()}
	}
	p, code, err := s.startIn(ctx, m, metered, false, &staging{dir: dir})
	if err != nil {
		return compileReport{Error: err.Error()}
	}
	digest := sha256.Sum256(metered.Wasm)
	report := compileReport{Module: digest[:]}
	if code != nil {
		digest := sha256.Sum256(code.content)
		report.File, report.Digest = code.file, digest[:]
	}
	if err := p.Close(ctx); err != nil {
		return compileReport{Error: err.Error()}
	}
	return report
}
