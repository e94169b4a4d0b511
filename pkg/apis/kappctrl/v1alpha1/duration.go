package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a length of time, written as 1h30m.
//
// Text that is none is kept and not refused while reading: the API server takes
// any text, and one object that cannot be read would end the watch on all of
// them, in every namespace.
//
// +kubebuilder:validation:Type=string
type Duration struct {
	time.Duration `json:"-" protobuf:"1"`
	// Invalid is text that is no duration; Duration is 0 then.
	Invalid string `json:"-" protobuf:"2"`
}

// Err says why the text is no duration. It is nil for a nil d.
func (d *Duration) Err() error {
	if d == nil || d.Invalid == "" {
		return nil
	}
	return fmt.Errorf("%q is no duration (hint: write it as 30s, 10m or 1h30m; there is no unit for days)", d.Invalid)
}

// UnmarshalJSON fails only for what is no string.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*d = Duration{}
	if parsed, err := time.ParseDuration(text); err == nil {
		d.Duration = parsed
	} else {
		d.Invalid = text // "" is as good as 0
	}
	return nil
}

// MarshalJSON writes what was read, if that is no duration.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.text())
}

// ToUnstructured is MarshalJSON for encodings other than JSON.
func (d Duration) ToUnstructured() any { return d.text() }

func (d Duration) text() string {
	if d.Invalid != "" {
		return d.Invalid
	}
	return d.String()
}

// OpenAPISchemaType is for generators of OpenAPI, which see a struct.
func (Duration) OpenAPISchemaType() []string { return []string{"string"} }

// OpenAPISchemaFormat is empty: no format that clients know has such text.
func (Duration) OpenAPISchemaFormat() string { return "" }
