package witness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/host/internal/durable"
)

// maxBody limits a request, in bytes: a proof of 63 hashes and a checkpoint with many signatures fit.
const maxBody = 64 << 10

// Server is a witness. It implements http.Handler.
type Server struct {
	key  *Key
	logs map[string]*log // by origin
	lock io.Closer
	mux  *http.ServeMux
}

// log is a log that the witness knows.
type log struct {
	mu        sync.Mutex // held from the comparison with the file until the checkpoint is signed
	verifiers []note.Verifier
	path      string // of the newest cosigned checkpoint
}

// NewServer returns a witness that keeps its state in a directory, and cosigns for the logs with the trusted verifier
// keys. The name of a log's key is its origin; a log may have several keys. The error is ErrLocked if another process
// uses the directory.
func NewServer(dir string, key *Key, trusted []string) (*Server, error) {
	s := &Server{key: key, logs: map[string]*log{}, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /add-checkpoint", s.addCheckpoint)
	seen := map[string]bool{}
	for _, line := range trusted {
		verifier, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("starting witness: trusting %q: %w", line, err)
		}
		if seen[line] {
			continue
		}
		seen[line] = true
		l := s.logs[verifier.Name()]
		if l == nil {
			l = &log{path: filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(verifier.Name()))))}
			s.logs[verifier.Name()] = l
		}
		l.verifiers = append(l.verifiers, verifier)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("starting witness: %w", err)
	}
	s.lock = lock
	return s, nil
}

// Close lets another process use the directory. No request may be running.
func (s *Server) Close() error { return s.lock.Close() }

// ServeHTTP serves POST /add-checkpoint as C2SP tlog-witness describes it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refusal is an answer other than a cosignature.
type refusal struct {
	status int
	reason string
	size   int64 // of the newest cosigned tree, if status is 409
}

func (r *refusal) Error() string { return r.reason }

func (s *Server) addCheckpoint(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too long or incomplete", http.StatusBadRequest)
		return
	}
	line, err := s.add(string(body))
	var refused *refusal
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, line)
	case !errors.As(err, &refused):
		http.Error(w, "the witness failed", http.StatusInternalServerError)
	case refused.status == http.StatusConflict:
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, "%d\n", refused.size)
	default:
		http.Error(w, refused.reason, refused.status)
	}
}

// add cosigns a checkpoint and returns the signature's line.
func (s *Server) add(body string) (string, error) {
	request, err := ParseRequest(body)
	if err != nil {
		return "", &refusal{status: http.StatusBadRequest, reason: err.Error()}
	}
	origin, _, _ := strings.Cut(request.Checkpoint, "\n")
	l := s.logs[origin]
	if l == nil {
		return "", &refusal{status: http.StatusNotFound, reason: "the log is unknown"}
	}
	head, text, err := l.open(request)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, err := readState(l.path, origin)
	if err != nil {
		return "", err
	}
	if err := compare(known, head, request); err != nil {
		return "", err
	}
	// Store the tree before signing, because the witness could contradict a cosigned tree that it does not remember.
	if err := durable.WriteFile(l.path, []byte(request.Checkpoint)); err != nil {
		return "", err
	}
	signed, err := note.Sign(&note.Note{Text: text}, s.key)
	if err != nil {
		return "", fmt.Errorf("cosigning: %w", err)
	}
	return strings.TrimPrefix(string(signed), text+"\n"), nil
}

// open verifies that the log signed the checkpoint, and returns its head and text.
func (l *log) open(r Request) (head audit.TreeHead, text string, err error) {
	n, err := note.Open([]byte(r.Checkpoint), note.VerifierList(l.verifiers...))
	if errors.As(err, new(*note.UnverifiedNoteError)) || errors.As(err, new(*note.InvalidSignatureError)) {
		return head, "", &refusal{status: http.StatusForbidden, reason: "no trusted key signed the checkpoint"}
	}
	if err == nil {
		_, head, err = parseHead(n.Text)
	}
	if err != nil {
		return head, "", &refusal{status: http.StatusBadRequest, reason: "the checkpoint is malformed"}
	}
	if r.Old > head.Size {
		return head, "", &refusal{status: http.StatusBadRequest, reason: "the tree is smaller than the old one"}
	}
	return head, n.Text, nil
}

// compare verifies that the tree of a request contains the known one.
func compare(known, head audit.TreeHead, r Request) error {
	if r.Old != known.Size || head.Size == known.Size && head.Root != known.Root {
		return &refusal{status: http.StatusConflict, reason: "another tree was cosigned", size: known.Size}
	}
	if err := audit.CheckConsistency(known, head, r.Proof); err != nil {
		return &refusal{status: http.StatusUnprocessableEntity, reason: "the proof does not verify"}
	}
	return nil
}
