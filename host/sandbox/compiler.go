package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"assay/registry"
)

// A module's author controls how much native work compiling it takes, so it is compiled in a process with limits. The
// process runs [ServeCompiler]: it reads a compileRequest as a line of JSON and the module, leaves the code in its
// working directory, and prints a compileReport.

// compileRequest is the first line of a compiler's input. The module follows.
type compileRequest struct {
	Processors int    `json:"processors"`
	Nice       int    `json:"nice"`
	CPUSeconds uint64 `json:"cpu_seconds"`
	Memory     uint64 `json:"memory"` // bytes; 0: unlimited

	work string // description of the work, for errors
}

// compileReport is the output of a compiler.
type compileReport struct {
	Error  string `json:"error,omitempty"`  // the module's defect
	Module []byte `json:"module,omitempty"` // digest of the metered module
	File   string `json:"file,omitempty"`   // path of nativeCode; empty if the code could not be written
	Digest []byte `json:"digest,omitempty"` // of the code
}

// Limits of a compiler. docs/decisions/sandbox.md compares them with the needs of the largest first-party layer.
const (
	compileCPUSeconds = 20 * slowdown
	compileMemory     = 1 << 30
	compileTime       = 10 * time.Minute // wall time, even if the compiler hardly gets a processor
)

// The priorities of compilers, as in nice(1). The threads that serve requests have 0.
const (
	loadNice    = 10
	prepareNice = 19
)

// maxOpenCompilers is the number of compilers that may work for plugins that are being opened. One more may prepare
// plugins.
const maxOpenCompilers = 2

// maxReport limits how much of a compiler's output is read.
const maxReport = 64 << 10

// compiler runs compilers. Compilers that prepare plugins never delay those for plugins that are being opened.
type compiler struct {
	command   []string
	limits    compileRequest
	timeout   time.Duration
	opening   chan struct{}
	preparing chan struct{}
}

func newCompiler(command []string) *compiler {
	return &compiler{
		command: command, limits: compileRequest{CPUSeconds: compileCPUSeconds, Memory: compileMemory,
			work: "compiling the module and initialising it"}, timeout: compileTime,
		opening: make(chan struct{}, maxOpenCompilers), preparing: make(chan struct{}, 1),
	}
}

// compileForOpen compiles a module that is being opened. The code is nil if the compiler could not write it.
func (c *compiler) compileForOpen(ctx context.Context, m registry.Module, cache *codeCache) (*nativeCode, error) {
	request := c.limits
	request.Nice, request.Processors = loadNice, max(1, runtime.GOMAXPROCS(0)/maxOpenCompilers)
	return c.compile(ctx, c.opening, request, m, cache)
}

// compileAhead compiles a module that may be opened later.
func (c *compiler) compileAhead(ctx context.Context, m registry.Module, cache *codeCache) (*nativeCode, error) {
	request := c.limits
	request.Nice, request.Processors = prepareNice, 1
	return c.compile(ctx, c.preparing, request, m, cache)
}

func (c *compiler) compile(ctx context.Context, slots chan struct{}, request compileRequest, m registry.Module,
	cache *codeCache) (*nativeCode, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	dir, err := cache.private()
	if err != nil {
		return nil, fmt.Errorf("starting the compiler: %w", err)
	}
	defer os.RemoveAll(dir)
	report, err := c.run(ctx, dir, request, m.Wasm)
	switch {
	case err != nil:
		return nil, err
	case report.Error != "":
		return nil, errors.New(report.Error)
	case report.File == "":
		return nil, nil
	}
	return readCode(dir, report, m)
}

// run runs one compiler in the folder dir.
func (c *compiler) run(ctx context.Context, dir string, request compileRequest, wasm []byte) (
	report compileReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := runLimited(ctx, c.command, dir, request, wasm)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return report, fmt.Errorf("reading the compiler's report: %w", err)
	}
	return report, nil
}

// measureCPUSeconds limits a process that calls a module. It is enough to compile the module and to make calls that
// each burn the largest budget.
const measureCPUSeconds = 3 * compileCPUSeconds

// RunLimited runs a program that calls [ServeLimited], with a module as its input, and returns its output. The program
// has the limits of a compiler, but more processor time.
func RunLimited(ctx context.Context, command []string, wasm []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "assay-")
	if err != nil {
		return nil, fmt.Errorf("starting a process with limits: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, compileTime)
	defer cancel()
	return runLimited(ctx, command, dir, compileRequest{Nice: loadNice, Processors: 1, Memory: compileMemory,
		CPUSeconds: measureCPUSeconds, work: "compiling the module and calling it"}, wasm)
}

// runLimited runs a program in the folder dir that limits itself as requested.
func runLimited(ctx context.Context, command []string, dir string, request compileRequest, wasm []byte) (
	[]byte, error) {
	header, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, []string{} // nil would pass on this process's environment
	cmd.Stdin = bytes.NewReader(bytes.Join([][]byte{header, []byte("\n"), wasm}, nil))
	stdout, stderr := &limitedBuffer{}, &limitedBuffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second
	err = runToEnd(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s in a process of its own: %w", request.work, ctx.Err())
	case err != nil:
		return nil, describeEnd(err, stderr.String(), request)
	}
	return stdout.Bytes(), nil
}

// describeEnd explains why a process with limits failed.
func describeEnd(err error, stderr string, request compileRequest) error {
	var exit *exec.ExitError
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	switch {
	case !errors.As(err, &exit):
		return fmt.Errorf("starting a process with limits: %w", err)
	// The kernel counts the time towards the limit in ticks, so the exact time may be shorter.
	case !exit.Exited() && exit.UserTime()+exit.SystemTime() >= time.Duration(request.CPUSeconds)*time.Second/2:
		return fmt.Errorf("%s takes more than %d s of processor time", request.work, request.CPUSeconds)
	case strings.Contains(stderr, "out of memory") || strings.Contains(stderr, "cannot allocate memory"):
		return fmt.Errorf("%s takes more than %d MiB of memory", request.work, request.Memory>>20)
	}
	return fmt.Errorf("the process failed: %w: %.200s", err, first)
}

// readCode reads the code of a module that a compiler left in dir.
func readCode(dir string, report compileReport, m registry.Module) (*nativeCode, error) {
	file, err := onlyFile(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the compiler's code: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("reading the compiler's code: %w", err)
	}
	if digest := sha256.Sum256(content); !bytes.Equal(digest[:], report.Digest) {
		return nil, errCodeChanged
	}
	metered, err := instrument(m)
	if err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(metered.Wasm); !bytes.Equal(digest[:], report.Module) {
		return nil, errors.New("the compiler is of another version than this host")
	}
	bones, err := skeleton(metered)
	if err != nil {
		return nil, fmt.Errorf("reading the compiler's code: %w", err)
	}
	return &nativeCode{bones, report.File, content}, nil
}

// limitedBuffer keeps the first maxReport bytes that are written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxReport-b.Len())])
	return len(p), nil
}
