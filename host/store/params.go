package store

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// param is a parameter of a statement in binary format.
type param struct {
	oid   uint32
	value []byte
}

func intParam(n int) param {
	return param{pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(n))}
}

func longParam(n int64) param {
	return param{pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(n))}
}

func timeParam(t time.Time) param {
	return param{pgtype.TimestamptzOID, binary.BigEndian.AppendUint64(nil, uint64(t.UnixMicro()-postgresEpoch))}
}

// array builds an array parameter.
type array struct {
	oid, element uint32 // types
	n            uint32
	data         []byte
}

func newArray(oid, element uint32, size int) *array {
	return &array{oid: oid, element: element, data: make([]byte, 20, 20+size)}
}

func textArray(size int) *array  { return newArray(pgtype.TextArrayOID, pgtype.TextOID, size) }
func bytesArray(size int) *array { return newArray(pgtype.ByteaArrayOID, pgtype.ByteaOID, size) }
func intArray(n int) *array      { return newArray(pgtype.Int4ArrayOID, pgtype.Int4OID, 8*n) }
func timeArray(n int) *array {
	return newArray(pgtype.TimestamptzArrayOID, pgtype.TimestamptzOID, 12*n)
}

func (c *array) text(s string) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(s)))
	c.data = append(c.data, s...)
}

func (c *array) bytes(b []byte) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(b)))
	c.data = append(c.data, b...)
}

// framed adds bytes preceded by their length.
func (c *array) framed(b []byte) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(4+len(b)))
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(b)))
	c.data = append(c.data, b...)
}

func (c *array) int(n int) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 4)
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(n))
}

func (c *array) long(n int64) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 8)
	c.data = binary.BigEndian.AppendUint64(c.data, uint64(n))
}

func (c *array) bool(v bool) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 1)
	if v {
		c.data = append(c.data, 1)
	} else {
		c.data = append(c.data, 0)
	}
}

var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (c *array) time(t time.Time) { c.long(t.UnixMicro() - postgresEpoch) }

// param returns the array: the number of dimensions, whether there are nulls, the element's type, and the dimension's
// length and lower bound precede the elements.
func (c *array) param() param {
	if c.n == 0 {
		return param{c.oid, append(make([]byte, 8), binary.BigEndian.AppendUint32(nil, c.element)...)}
	}
	for i, v := range []uint32{1, 0, c.element, c.n, 1} {
		binary.BigEndian.PutUint32(c.data[4*i:], v)
	}
	return param{c.oid, c.data}
}
