// Package protobuf writes and reads API types in protobuf, which clients of built-in
// kinds prefer: a field's tag, protobuf:"7", is its number. Numbers of fields that
// kapp-controller has are kapp-controller's; those of fields that only Garboard has
// begin with 101.
//
// Absent and zero are the same, as in JSON with omitempty, and so are absent and
// empty lists and maps. Fields without a tag stay out.
package protobuf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// marshaler and unmarshaler are what types of Kubernetes have generated.
type (
	marshaler   interface{ Marshal() ([]byte, error) }
	unmarshaler interface{ Unmarshal([]byte) error }
)

// Marshal returns the message that msg, a pointer to a struct, is.
func Marshal(msg any) ([]byte, error) { return appendStruct(nil, reflect.ValueOf(msg).Elem()) }

// Unmarshal reads data into msg, a pointer to a zero struct. Unknown fields are
// skipped. Broken data is an error and leaves msg half read.
func Unmarshal(data []byte, msg any) error { return readStruct(data, reflect.ValueOf(msg).Elem()) }

// field is a numbered field of a struct.
type field struct {
	number protowire.Number
	index  int
}

// fieldsOf caches the fields of each type in the order of their numbers.
var fieldsOf sync.Map // of reflect.Type to []field

func fields(t reflect.Type) []field {
	if known, ok := fieldsOf.Load(t); ok {
		return known.([]field)
	}
	var found []field
	for i := range t.NumField() {
		if n, err := strconv.Atoi(t.Field(i).Tag.Get("protobuf")); err == nil {
			found = append(found, field{protowire.Number(n), i})
		}
	}
	slices.SortFunc(found, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	fieldsOf.Store(t, found)
	return found
}

func appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	for _, f := range fields(v.Type()) {
		var err error
		if b, err = appendField(b, f.number, v.Field(f.index)); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", v.Type().Name(), v.Type().Field(f.index).Name, err)
		}
	}
	return b, nil
}

// appendField leaves out what is zero. What a pointer points to is not.
func appendField(b []byte, n protowire.Number, v reflect.Value) ([]byte, error) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return b, nil
		}
		return appendValue(b, n, v.Elem())
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			var err error
			if b, err = appendValue(b, n, v.Index(i)); err != nil {
				return nil, err
			}
			if i == 0 {
				b = slices.Grow(b, len(b)*(v.Len()-1)) // items are alike
			}
		}
		return b, nil
	case v.Type() == reflect.TypeFor[map[string]string]():
		m := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
			entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), m[key])
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), entry)
		}
		return b, nil
	case v.IsZero():
		return b, nil
	}
	// A time that is zero may have a location, and so not be zero as a Go value.
	if m, ok := v.Addr().Interface().(marshaler); ok {
		data, err := m.Marshal()
		if err != nil || len(data) == 0 {
			return b, err
		}
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), data), nil
	}
	return appendValue(b, n, v)
}

func appendValue(b []byte, n protowire.Number, v reflect.Value) ([]byte, error) {
	if m, ok := v.Addr().Interface().(marshaler); ok {
		data, err := m.Marshal()
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), data), err
	}
	switch v.Kind() {
	case reflect.String:
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v.String()), nil
	case reflect.Bool:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(v.Bool())), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v.Int())), nil
	case reflect.Struct:
		data, err := appendStruct(nil, v)
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), data), err
	}
	return nil, fmt.Errorf("no protobuf for %s", v.Type())
}

var errWireType = errors.New("another type is expected")

func readStruct(data []byte, v reflect.Value) error {
	known := fields(v.Type())
	for len(data) > 0 {
		n, wire, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(n, wire, data); size < 0 {
			return protowire.ParseError(size)
		}
		if i := slices.IndexFunc(known, func(f field) bool { return f.number == n }); i >= 0 {
			if err := readField(wire, data[:size], v.Field(known[i].index)); err != nil {
				return fmt.Errorf("%s.%s: %w", v.Type().Name(), v.Type().Field(known[i].index).Name, err)
			}
		}
		data = data[size:]
	}
	return nil
}

func readField(wire protowire.Type, data []byte, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return readValue(wire, data, v.Elem())
	case v.Kind() == reflect.Slice:
		item := reflect.New(v.Type().Elem()).Elem()
		if err := readValue(wire, data, item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
		return nil
	case v.Type() == reflect.TypeFor[map[string]string]():
		var entry struct {
			Key   string `protobuf:"1"`
			Value string `protobuf:"2"`
		}
		if err := readValue(wire, data, reflect.ValueOf(&entry).Elem()); err != nil {
			return err
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(entry.Key), reflect.ValueOf(entry.Value))
		return nil
	}
	return readValue(wire, data, v)
}

func readValue(wire protowire.Type, data []byte, v reflect.Value) error {
	switch wire {
	case protowire.VarintType:
		x, _ := protowire.ConsumeVarint(data)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(protowire.DecodeBool(x))
			return nil
		case reflect.Int, reflect.Int32, reflect.Int64:
			v.SetInt(int64(x))
			return nil
		}
	case protowire.BytesType:
		content, _ := protowire.ConsumeBytes(data)
		if u, ok := v.Addr().Interface().(unmarshaler); ok {
			return u.Unmarshal(content)
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(string(content))
			return nil
		case reflect.Struct:
			return readStruct(content, v)
		}
	}
	return errWireType
}
