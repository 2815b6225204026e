package fault_test

import (
	"errors"
	"io"
	"testing"

	"assay/registry/expect"
	"assay/registry/fault"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	expect.NoError(t, fault.Wrap(nil, "reading %s", "a file"))
	err := fault.Wrap(io.EOF, "reading %s", "100% of a file")
	expect.Error(t, "wrapped", err, io.EOF)
	expect.Equal(t, "text", err.Error(), "reading 100% of a file: EOF")
}

func TestWrapAll(t *testing.T) {
	t.Parallel()
	read := func(fails error) (err error) {
		defer fault.WrapAll(&err, "reading %d files", 2)
		return fails
	}
	expect.NoError(t, read(nil))
	expect.Equal(t, "text", read(errors.New("none")).Error(), "reading 2 files: none")
}
