package template

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// jsonnet evaluates the program through a small program of ours, which makes a
// list of what it yields. std.extVar("values") is the values merged, an empty
// object without any.
func (r *run) jsonnet(ctx context.Context, i int, spec v1alpha1.AppTemplateJsonnet) outcome {
	if r.streaming {
		return failed(templatingDir, errNoStream)
	}
	name := spec.Path
	if name == "" {
		name = "main.jsonnet"
	}
	program, err := r.below(name)
	if err != nil {
		return failed("Checking path: ", err)
	}
	var libraries []string
	for _, p := range spec.LibraryPaths {
		dir, err := r.below(p)
		if err != nil {
			return failed("Checking path: ", err)
		}
		libraries = append(libraries, dir)
	}
	dir := valuesDir(i)
	values, err := r.values(ctx, dir, spec.ValuesFrom)
	if err != nil {
		return failed("", err)
	}
	wrapper, merged := dir+"/wrapper.jsonnet", dir+"/values.jsonnet"
	files := []tool.File{
		{Path: wrapper, Content: wrapperProgram(importPath(dir, program))},
		{Path: merged, Content: valuesProgram(dir, r.req.Root, values)},
	}
	if err := r.ws.Put(ctx, files); err != nil {
		return failed(templatingDir, err)
	}
	out := r.run(ctx, templatingDir, jsonnetCommand("./"+wrapper, "./"+merged, libraries))
	// The mark for the end of the stream is of no use to who reads it next.
	out.stdout = bytes.TrimSuffix(out.stdout, []byte("...\n"))
	return out
}

// jsonnetCommand gives libraries in reverse, because the last -J is searched first
// and the first of our list is meant to be.
func jsonnetCommand(program, values string, libraries []string) tool.Command {
	args := []string{"--yaml-stream", "--ext-code-file", "values=" + values}
	for _, dir := range slices.Backward(libraries) {
		args = append(args, "-J", dir)
	}
	return tool.Command{Name: "jsonnet", Args: append(args, program)}
}

// importPath returns the path of a file of the workspace, seen from folder dir.
func importPath(dir, file string) string {
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return file // both are relative, so there is a way from one to the other
	}
	return filepath.ToSlash(rel)
}

// literal is s as a string of Jsonnet, whatever s holds: JSON is a part of it.
func literal(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // strings always encode
	}
	return string(text)
}

func wrapperProgram(program string) []byte {
	return []byte(`local main = import ` + literal(program) + `;
local objects = if std.isArray(main) then main else [main];
assert std.all([std.isObject(o) for o in objects]) : "expected one object or an array of objects";
objects
`)
}

func valuesProgram(dir, root string, files []string) []byte {
	var b strings.Builder
	b.WriteString(`local object(file, text) =
  local value = if std.stripChars(text, " \t\r\n") == "" then null else std.parseYaml(text);
  if value == null then {}
  else if std.isObject(value) then value
  else error "expected values in " + file + " to be one YAML mapping";
std.foldl(std.mergePatch, [
`)
	for _, f := range files {
		shown := strings.TrimPrefix(f, "./"+root+"/")
		fmt.Fprintf(&b, "  object(%s, importstr %s),\n", literal(shown), literal(importPath(dir, f)))
	}
	b.WriteString("], {})\n")
	return []byte(b.String())
}
