package auditlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/host/audit"
	"assay/host/internal/durable"
	"assay/host/store"
	"assay/registry/fault"
)

// CheckpointDir is a directory of signed checkpoints and anchors. It is outside the database because it protects the
// database: an attacker who can write to the database cannot rewrite signed history. There is one file for each of the
// last hours, and one for each day before, so that old files can be archived. Days and hours are in UTC. The directory
// "" has no files, and what is appended to it is not stored.
type CheckpointDir string

// The names of files. The files of hours are merged into those of days.
const (
	dayFile  = "2006-01-02.txt"
	hourFile = "2006-01-02T15.txt"
)

// Files returns the paths of the directory's files, in order of their time.
func (d CheckpointDir) Files() (files []string, err error) {
	entries, err := os.ReadDir(string(d)) // Glob would take a path for a pattern, and an unreadable folder for empty
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txt") {
			files = append(files, filepath.Join(string(d), e.Name()))
		}
	}
	return files, err
}

// Append adds signed checkpoints or anchors to this hour's file and syncs it to disk.
func (d CheckpointDir) Append(signed ...string) error {
	return d.append(time.Now().UTC().Format(hourFile), signed)
}

func (d CheckpointDir) append(name string, signed []string) error {
	if len(signed) == 0 || d == "" {
		return nil
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	text := strings.Join(signed, "\n") + "\n"
	if !endsEmpty(f) { // the last line was cut off: it must not spoil the next checkpoint
		text = "\n\n" + text
	}
	_, err = f.WriteString(text)
	return fault.Wrap(errors.Join(err, f.Sync(), f.Close()), "storing checkpoint")
}

// endsEmpty reports whether a file has no text or ends with an empty line.
func endsEmpty(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	end := make([]byte, 2)
	_, err = f.ReadAt(end, info.Size()-2)
	return err == nil && string(end) == "\n\n"
}

// Checkpoints are the contents of files of checkpoints.
type Checkpoints struct {
	Heads   []audit.Head       // of anchors
	Trees   []audit.SignedTree // of Merkle trees
	Damaged []string           // files with text that is not a valid checkpoint, or that cannot be read, and why
	Empty   []string           // files without text
}

// ReadCheckpoints reads files of checkpoints and verifies their signatures. Damage is part of the result, because it
// must not prevent verification: a host that dies can leave a checkpoint that is cut off.
func ReadCheckpoints(files []string, key audit.Public) *Checkpoints {
	c := &Checkpoints{}
	for _, name := range files {
		f, err := readFile(name, key)
		c.Heads, c.Trees = append(c.Heads, f.heads...), append(c.Trees, f.trees...)
		switch {
		case err != nil:
			c.Damaged = append(c.Damaged, err.Error())
		case f.damaged > 0:
			c.Damaged = append(c.Damaged, fmt.Sprintf("%s: %d entries are not checkpoints with this installation's "+
				"signature", name, f.damaged))
		case len(f.heads)+len(f.trees) == 0:
			c.Empty = append(c.Empty, name)
		}
	}
	return c
}

// sharedWithin is the time until a checkpoint that one host signed is in the directories of all hosts, see Keeper.Tidy.
// It is not known which host signed a younger checkpoint, so its absence proves nothing.
const sharedWithin = 2 * time.Hour

// RequireKept returns an error for checkpoints that are damaged in the directory, or missing there although the
// database has them. It looks twice, because a host may be tidying.
func (d CheckpointDir) RequireKept(ctx context.Context, s *store.Store, key audit.Public) (broken, err error) {
	if broken, err = d.compare(ctx, s, key); broken == nil || err != nil {
		return nil, err
	}
	<-time.After(time.Second)
	return d.compare(ctx, s, key)
}

func (d CheckpointDir) compare(ctx context.Context, s *store.Store, key audit.Public) (broken, err error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	old, err := s.OldCheckpoints(ctx, sharedWithin) // before the files: each is stored there first
	if err != nil {
		return nil, err
	}
	all, err := s.OldCheckpoints(ctx, 0)
	if err != nil {
		return nil, err
	}
	files, err := d.Files()
	if err != nil {
		return nil, err
	}
	kept, notes := ReadCheckpoints(files, key), old
	if len(kept.Trees)+len(kept.Heads) == 0 && len(hosts) <= 1 { // this host lost everything that it signed
		notes = all
	}
	known := map[audit.TreeHead]bool{}
	for _, tree := range kept.Trees {
		known[tree.TreeHead] = true
	}
	missing := 0
	for _, note := range notes {
		if head, err := key.OpenTree(note); err == nil && !known[head] {
			missing++
		}
	}
	for _, damage := range kept.Damaged {
		broken = errors.Join(broken, errors.New(damage))
	}
	if missing > 0 {
		broken = errors.Join(broken, fmt.Errorf("%d signed checkpoints of the database are missing in %s: files were "+
			"emptied, altered or deleted", missing, string(d)))
	}
	return broken, nil
}

// checkpointFile is the content of a file.
type checkpointFile struct {
	heads   []audit.Head
	trees   []audit.SignedTree
	valid   []string // texts
	others  []string // valid texts that are not checkpoints of trees
	damaged int      // entries that are not valid
}

func readFile(name string, key audit.Public) (f checkpointFile, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return f, err
	}
	for _, signed := range audit.SplitCheckpoints(string(text)) {
		if tree, err := key.OpenSigned(signed); err == nil {
			f.trees = append(f.trees, tree)
		} else if anchor, err := key.OpenAnchor(signed); err == nil {
			f.heads, f.others = append(f.heads, anchor.Head), append(f.others, signed)
		} else {
			f.damaged++
			continue
		}
		f.valid = append(f.valid, signed)
	}
	return f, nil
}

// Tidy repairs files with damaged entries: it keeps them under a name that ends in ".damaged", and rewrites the valid
// entries. It also thins files of hours that are older than a day: the newest checkpoint of each tree moves to the file
// of the day. It returns the names of the files that it repaired.
func (d CheckpointDir) Tidy(key audit.Public, now time.Time) (repaired []string, err error) {
	files, err := d.Files()
	for _, name := range files {
		f, err2 := readFile(name, key)
		if err2 != nil {
			err = errors.Join(err, err2)
			continue
		}
		if f.damaged > 0 {
			if err2 := d.repair(name, f.valid); err2 != nil {
				err = errors.Join(err, fmt.Errorf("repairing %s: %w", name, err2))
				continue
			}
			repaired = append(repaired, name)
		}
		hour, err2 := time.Parse(hourFile, filepath.Base(name))
		if err2 != nil || now.Sub(hour) < 25*time.Hour {
			continue
		}
		// A host that dies between the two steps repeats the first, which only adds entries twice.
		err2 = d.append(hour.Format(dayFile), append(f.others, newest(f, key)...))
		if err2 == nil {
			err2 = os.Remove(name)
		}
		if err2 != nil {
			err = errors.Join(err, fmt.Errorf("thinning checkpoints: %w", err2))
		}
	}
	return repaired, err
}

// newest returns the text of the largest tree of each chain.
func newest(f checkpointFile, key audit.Public) (texts []string) {
	heads := map[int]audit.TreeHead{}
	for _, h := range f.trees {
		if l := heads[h.Chain]; h.After > l.After || h.After == l.After && h.Size >= l.Size {
			heads[h.Chain] = h.TreeHead
		}
	}
	for _, text := range f.valid {
		if head, err := key.OpenTree(text); err == nil && heads[head.Chain] == head && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// repair replaces a file's entries with the valid ones.
func (d CheckpointDir) repair(name string, valid []string) error {
	text, err := os.ReadFile(name)
	if err == nil {
		err = durable.WriteFile(name+".damaged", text)
	}
	if err == nil {
		err = durable.WriteFile(name, []byte(strings.Join(valid, "\n")+"\n"))
	}
	return err
}
