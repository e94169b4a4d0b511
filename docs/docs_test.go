// Package docs_test checks the documentation.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link matches the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks follows each link to a file or a heading of this repository.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
				continue
			}
			if heading != "" && (info.IsDir() || !headings(read(t, path))[heading]) {
				t.Errorf("%s: link to %s: no such heading", file, m[1])
			}
		}
	}
}

// TestEveryPageIsLinked: what README.md of this folder does not name is not found.
func TestEveryPageIsLinked(t *testing.T) {
	contents := read(t, "README.md")
	for _, file := range documents(t) {
		if file == "README.md" || strings.HasPrefix(file, "../") {
			continue
		}
		if !strings.Contains(contents, "]("+file+")") {
			t.Errorf("README.md does not link %s", file)
		}
	}
}

// TestErrorTextsAreOurs looks in the code for each error text that troubleshooting.md
// explains. What a tool printed, in rows that begin with dots, is not ours.
func TestErrorTextsAreOurs(t *testing.T) {
	code := sources(t, "../pkg")
	quoted := regexp.MustCompile("`([^`]+)`")
	// What differs from one error to the next.
	varies := regexp.MustCompile(`'[^']*'|"[^"]*"|[0-9]+|\.\.\.|\([^)]*\)`)
	for line := range strings.Lines(read(t, "troubleshooting.md")) {
		row := strings.Split(line, " | ")
		if len(row) < 2 || !strings.HasPrefix(row[0], "| `") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(row[0], -1) {
			// Each part of a text is wrapped around the next; parts in lower case
			// come from elsewhere, such as the API server.
			for part := range strings.SplitSeq(m[1], ": ") {
				if part[0] < 'A' || part[0] > 'Z' {
					continue
				}
				if want := longest(varies.Split(part, -1)); !strings.Contains(code, want) {
					t.Errorf("%q is not in the code; it is part of %q", want, m[1])
				}
			}
		}
	}
}

func longest(texts []string) (l string) {
	for _, text := range texts {
		if text = strings.TrimSpace(text); len(text) > len(l) {
			l = text
		}
	}
	return l
}

// sources returns the code below dir that is not a test.
func sources(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			all.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// documents lists the Markdown files here, in the examples, and README.md.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"../README.md"}
	for _, dir := range []string{".", "../examples"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// headings returns the anchors that a Markdown file has.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchors[anchor(title)] = true
		}
	}
	return anchors
}

// anchor makes what Markdown viewers make of a heading: lower case, words joined
// by dashes, without punctuation.
func anchor(title string) string {
	title = strings.ToLower(strings.TrimSpace(title))
	title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
	return strings.ReplaceAll(title, " ", "-")
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
