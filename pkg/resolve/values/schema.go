package values

import (
	"errors"
	"slices"
)

// maxDepth is how deep schemas may nest.
const maxDepth = 100

// Keywords by what stands under them.
var (
	oneSchema   = []string{"not", "additionalProperties", "items"}
	listSchemas = []string{"allOf", "anyOf", "oneOf"}
	// What the library does not support, or in time that grows exponentially.
	dropped = []string{"$ref", "patternProperties", "dependencies", "definitions", "$schema", "id", "default", "example", "examples"}
)

// supported returns the schema as far as it can be checked, and adds its number
// of nodes to n. What cannot be checked accepts everything.
func supported(schema map[string]any, values, depth int, n *int) (map[string]any, error) {
	if *n++; depth > maxDepth {
		return nil, errors.New("the Package's values schema is nested too deeply")
	}
	out := map[string]any{}
	for key, v := range schema {
		var err error
		switch {
		case slices.Contains(dropped, key), key == "uniqueItems" && values > maxUnique:
			continue
		case key == "properties":
			out[key], err = supportedProperties(v, values, depth, n)
		case slices.Contains(oneSchema, key):
			if child, ok := v.(map[string]any); ok {
				v, err = supported(child, values, depth+1, n)
			}
			out[key] = v
		case slices.Contains(listSchemas, key):
			out[key], err = supportedList(v, values, depth, n)
		default:
			out[key] = v
		}
		if err != nil {
			return nil, err
		}
	}
	if _, ok := schema["patternProperties"]; ok {
		delete(out, "additionalProperties")
	}
	relaxRequired(out, schema)
	return out, nil
}

func supportedProperties(v any, values, depth int, n *int) (any, error) {
	props, ok := v.(map[string]any)
	if !ok {
		return v, nil
	}
	out := map[string]any{}
	for name, p := range props {
		child, ok := p.(map[string]any)
		if !ok {
			out[name] = p
			continue
		}
		s, err := supported(child, values, depth+1, n)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

func supportedList(v any, values, depth int, n *int) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return v, nil
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
		if child, ok := e.(map[string]any); ok {
			s, err := supported(child, values, depth+1, n)
			if err != nil {
				return nil, err
			}
			out[i] = s
		}
	}
	return out, nil
}

// relaxRequired lets keys be missing that have a default.
func relaxRequired(out, schema map[string]any) {
	required, ok := schema["required"].([]any)
	if !ok {
		return
	}
	props, _ := schema["properties"].(map[string]any)
	out["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool {
		key, ok := name.(string)
		p, isMap := props[key].(map[string]any)
		_, hasDefault := p["default"]
		return ok && isMap && hasDefault
	})
}

// nodes counts what a check has to look at.
func nodes(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			n += nodes(child)
		}
	case []any:
		for _, child := range v {
			n += nodes(child)
		}
	}
	return n
}
