package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// ByType is a number for each entity type. In JSON it is one number for all types, or an object by type.
type ByType map[string]float64

// allTypes is the only key of a ByType that has one number for all types.
const allTypes = ""

// ForAll returns the same number for all types.
func ForAll(number float64) ByType { return ByType{allTypes: number} }

// For returns the number for an entity type, 0 if there is none.
func (b ByType) For(entityType string) float64 {
	if number, ok := b[allTypes]; ok {
		return number
	}
	return b[entityType]
}

// String returns the number for all types, or a list such as "domain -4.2, email -4".
func (b ByType) String() string {
	if len(b) == 0 {
		return "0"
	}
	var parts []string
	for _, t := range b.types() {
		parts = append(parts, strings.TrimSpace(fmt.Sprint(t, " ", b[t])))
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON writes a number or an object. One number has the same form as before numbers by type were introduced,
// because digests identify stored lineups.
func (b ByType) MarshalJSON() ([]byte, error) {
	if number, ok := b[allTypes]; ok || len(b) == 0 {
		return json.Marshal(number)
	}
	return json.Marshal(map[string]float64(b))
}

// UnmarshalJSON reads a number or an object.
func (b *ByType) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var number *float64
	if jsonv2.Unmarshal(data, &number) == nil && number != nil {
		*b = ForAll(*number)
		return nil
	}
	var numbers map[string]*float64
	if err := jsonv2.Unmarshal(data, &numbers); err != nil || len(numbers) == 0 {
		return errNumbers
	}
	*b = ByType{}
	for t, number := range numbers {
		if t == allTypes || number == nil {
			return errNumbers
		}
		(*b)[t] = *number
	}
	return nil
}

var errNumbers = errors.New("neither a number nor an object of numbers by entity type")

// types returns the keys in the usual order of entity types.
func (b ByType) types() []string {
	return slices.SortedFunc(maps.Keys(b), func(x, y string) int {
		return cmp.Or(slices.Index(entityTypes, x)-slices.Index(entityTypes, y), strings.Compare(x, y))
	})
}

// check calls valid for every number. It also reports an error if b has numbers by type and lacks a required type or
// names an unknown one.
func (b ByType) check(required []string, valid func(float64) error) error {
	_, forAll := b[allTypes]
	for _, t := range b.types() {
		if t != allTypes && !slices.Contains(entityTypes, t) {
			return fmt.Errorf("names %q, which is not domain, email, phone or iban", t)
		}
		if err := valid(b[t]); err != nil {
			if t == allTypes {
				return err
			}
			return fmt.Errorf("for %s %w", t, err)
		}
	}
	for _, t := range required {
		if _, ok := b[t]; !ok && !forAll && len(b) > 0 {
			return fmt.Errorf("lacks a number for %s", t)
		}
	}
	return nil
}
