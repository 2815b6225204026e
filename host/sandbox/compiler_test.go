package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/registry"
	"assay/registry/expect"
)

// compilerPrefix begins the argument that makes the test binary a compiler. A compiler has no environment.
const compilerPrefix = "compiler:"

// compilers are the programs that the test binary can be as a compiler. Those that misbehave have limited themselves.
var compilers = map[string]func(in io.Reader, out io.Writer) error{
	"compile": func(in io.Reader, out io.Writer) error { return ServeCompiler(context.Background(), in, out) },
	"spin": limited(func(compileRequest, io.Writer) error {
		for n := 0; n >= 0; {
		}
		return nil
	}),
	"allocate": limited(func(compileRequest, io.Writer) error {
		// Nothing else runs, which the lack of memory could end in other ways.
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(-1)
		all := []byte{1}
		for len(all) > 0 {
			all = append(all, all...)
		}
		return nil
	}),
	"sleep": limited(func(compileRequest, io.Writer) error { select {} }),
	"panic": limited(func(compileRequest, io.Writer) error { panic("a bug in the engine") }),
	"babble": limited(func(_ compileRequest, out io.Writer) error {
		for range maxReport / 4 {
			fmt.Fprintln(out, "this is no report")
		}
		return nil
	}),
	"another code": limited(func(_ compileRequest, out io.Writer) error {
		if err := os.WriteFile("code", []byte("code"), 0o600); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(compileReport{File: "code", Digest: []byte("another digest")})
	}),
	"inspect": limited(inspect),
	"starve":  func(in io.Reader, out io.Writer) error { return ServeLimited(in, out, starve) },
	"hold preparations": func(in io.Reader, out io.Writer) error {
		r := bufio.NewReader(in)
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		if bytes.Contains(line, fmt.Appendf(nil, `"nice":%d`, prepareNice)) {
			select {}
		}
		return ServeCompiler(context.Background(), io.MultiReader(bytes.NewReader(line), r), out)
	},
	// The parent of a compiler that never ends. It prints the compiler's process ID.
	"parent": func(_ io.Reader, out io.Writer) error {
		cmd := exec.Command(os.Args[0], compilerPrefix+"print pid")
		cmd.Stdout = out
		return runToEnd(cmd)
	},
	"print pid": func(_ io.Reader, out io.Writer) error {
		fmt.Fprintln(out, os.Getpid())
		select {}
	},
}

// limited returns a compiler that reads the request, limits itself and then calls run.
func limited(run func(compileRequest, io.Writer) error) func(io.Reader, io.Writer) error {
	return func(in io.Reader, out io.Writer) error {
		r := bufio.NewReader(in)
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		var request compileRequest
		if err := errors.Join(json.Unmarshal(line, &request), request.limitProcess()); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		// A program that only waits would be reported as a deadlock.
		go func() { <-time.After(time.Hour) }()
		return run(request, out)
	}
}

// starve calls a layer when the process may have little more memory, and returns the error.
func starve(wasm []byte) any {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return err.Error()
	}
	p, err := New(Config{Instances: 1, Logger: discard()}).Open(context.Background(), m)
	if err != nil {
		return err.Error()
	}
	var pages, skipped, data uint64
	text, err := os.ReadFile("/proc/self/statm") // proc_pid_statm(5)
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages, &skipped, &skipped, &skipped, &skipped, &data)
	}
	most := data*uint64(os.Getpagesize()) + 20<<20
	if err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})); err == nil {
		_, err = p.Score(context.Background(), facts("x", ""))
	}
	return fmt.Sprintf("%T: %v", err, err)
}

// inspect reports what a compiler can see of its parent.
func inspect(_ compileRequest, out io.Writer) error {
	var found []string
	found = append(found, os.Environ()...)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, f := range files {
		target, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err == nil && strings.HasPrefix(target, "/") &&
			!strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/proc/") &&
			!strings.HasPrefix(target, "/sys/") { // Go's runtime reads the limits of its control group
			found = append(found, target)
		}
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err != nil {
			return err
		}
		// The system call returns 20 minus the priority (getpriority(2)).
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && priority != 20-loadNice {
			found = append(found, fmt.Sprintf("a thread with nice %d", 20-priority))
		}
	}
	return json.NewEncoder(out).Encode(compileReport{Error: "found: " + strings.Join(found, ", ")})
}

// runAsCompiler runs the test binary as a compiler if its argument asks for that.
func runAsCompiler() (ran bool) {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], compilerPrefix) {
		return false
	}
	if err := compilers[strings.TrimPrefix(os.Args[1], compilerPrefix)](os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// compilingWith returns a sandbox whose compiler is one of compilers.
func compilingWith(t *testing.T, name string, cfg Config) *Sandbox {
	t.Helper()
	cfg.Compiler, cfg.Instances = []string{os.Args[0], compilerPrefix + name}, 1
	if cfg.Logger == nil {
		cfg.Logger = discard()
	}
	s := New(cfg)
	if raceDetector {
		s.compiler.limits.Memory = 0 // the race detector takes terabytes into use
	}
	return s
}

// A module that was opened or prepared in a process of its own is loaded from the cache from then on.
func TestCompilerProcess(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]func(*testing.T, *Sandbox){
		"opened":   func(t *testing.T, s *Sandbox) { wantScore(t, openIn(t, s, sevenPoints(t)), 7) },
		"prepared": func(t *testing.T, s *Sandbox) { expect.NoError(t, s.Prepare(t.Context(), sevenPoints(t))) },
	}, func(t *testing.T, first func(*testing.T, *Sandbox)) {
		log, text := logged()
		cfg := Config{CacheDir: cacheDir(t), CacheKey: cacheKey, Logger: log}
		first(t, compilingWith(t, "compile", cfg))
		box := compilingWith(t, "panic", cfg)
		wantScore(t, openIn(t, box, sevenPoints(t)), 7)
		err := box.Prepare(t.Context(), sevenPoints(t))
		expect.That(t, err == nil && text.Len() <= 0, "preparing again: %v; logged %s", err, text)
	})
	wantScore(t, openIn(t, compilingWith(t, "compile", Config{}), sevenPoints(t)), 7)
	_ = openError(t, compilingWith(t, "panic", Config{}), sevenPoints(t)) // no code is kept without a folder
}

// The compiler describes defects as Open does.
func TestCompilerDescribesDefects(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]*guest{
		"unknown import":       newGuest().importing(importOf("env", "secret", "", "")).scoring(returnScored),
		"invalid code":         scoring(opAdd),
		"initialisation traps": signalling(1, codeOne, "x").initialising(opUnreachable),
	}, func(t *testing.T, g *guest) {
		m := pack(t, g.encode(), manifest())
		expect.Equal(t, "what the compiler says", openError(t, compilingWith(t, "compile", Config{}), m).Error(),
			openError(t, sandboxOf(t, 1), m).Error())
		err := compilingWith(t, "compile", Config{CacheDir: cacheDir(t), CacheKey: cacheKey}).Prepare(t.Context(), m)
		expect.That(t, err != nil, "the module was prepared")
	})
}

// A compiler sees neither the environment nor the open files of its parent, and all its threads have a low priority.
func TestCompilerInheritsNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists a process's files and threads")
	}
	secret := expect.Value(os.Create(filepath.Join(t.TempDir(), "secret")))(t)
	defer secret.Close()
	err := openError(t, compilingWith(t, "inspect", Config{}), sevenPoints(t))
	expect.That(t, strings.HasSuffix(err.Error(), "found: "), "%v", err)
}

func TestCompilerThatCannotStart(t *testing.T) {
	t.Parallel()
	box := New(Config{Compiler: []string{filepath.Join(t.TempDir(), "none")}, Logger: discard()})
	expect.ErrorText(t, "error", openError(t, box, sevenPoints(t)), "starting a process with limits")
}

// Opening a plugin never waits for a preparation.
func TestPreparationDoesNotDelayOpen(t *testing.T) {
	t.Parallel()
	box := compilingWith(t, "hold preparations", Config{CacheDir: cacheDir(t), CacheKey: cacheKey})
	ctx, cancel := context.WithCancel(t.Context())
	prepared := make(chan error, 2)
	for points := range 2 {
		m := pack(t, signalling(points+1, codeOne, "x").encode(), manifest())
		go func() { prepared <- box.Prepare(ctx, m) }()
	}
	expect.Until(t, "a preparation runs", func() bool { return len(box.compiler.preparing) == 1 })
	wantScore(t, openIn(t, box, sevenPoints(t)), 7)
	cancel()
	for range 2 {
		expect.Error(t, "the end of the preparation", <-prepared, context.Canceled)
	}
}

// The kernel kills a compiler whose parent was killed.
func TestCompilerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills it")
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], compilerPrefix+"parent")
	out := expect.Value(parent.StdoutPipe())(t)
	expect.NoError(t, parent.Start())
	var pid int
	expect.Value(fmt.Fscan(out, &pid))(t)
	expect.NoError(t, parent.Process.Signal(syscall.SIGKILL))
	_ = parent.Wait()
	expect.Until(t, "the compiler has ended", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(status, []byte(") Z ")) // nobody may have collected its exit status
	})
}

// If the compiler cannot write its code, this process compiles a module that is known to respect the limits.
func TestCompilerOnFullDisk(t *testing.T) {
	t.Parallel()
	box := compilingWith(t, "compile", Config{})
	dir := expect.Value(box.cache.private())(t)
	defer os.RemoveAll(dir)
	if os.Getuid() == 0 {
		// The superuser may write everywhere, so a file takes the place of wazero's folder.
		engine, err := box.cache.identifyEngine()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Dir(engine)), nil, 0o600)
		}
		expect.NoError(t, err)
	} else if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	request := box.compiler.limits
	request.Processors = 1
	report, err := box.compiler.run(t.Context(), dir, request, sevenPoints(t).Wasm)
	expect.That(t, err == nil && report.Error == "" && report.File == "", "%+v, %v", report, err)
}
