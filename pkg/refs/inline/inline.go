// Package inline turns files given in an object, or in Secrets and ConfigMaps that
// it names, into a list of files. Fetching and templating share its rules.
package inline

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/pkg/tool/localpath"
)

// Lookup returns the data of the object that key names.
type Lookup func(key refs.Key) (map[string][]byte, error)

// Source returns the object that from names and the folder for its files.
func Source(from v1alpha1.AppFetchInlineSource) (refs.Key, string, error) {
	switch {
	case from.SecretRef != nil:
		return refs.Key{Kind: refs.Secret, Name: from.SecretRef.Name}, from.SecretRef.DirectoryPath, nil
	case from.ConfigMapRef != nil:
		return refs.Key{Kind: refs.ConfigMap, Name: from.ConfigMapRef.Name}, from.ConfigMapRef.DirectoryPath, nil
	}
	return refs.Key{}, "", errors.New("Expected either secretRef or configMapRef as a source")
}

// Files returns the files of in, sorted by path, which is relative and stays inside.
// Those of pathsFrom replace those of paths: that is how a default is overridden.
// Two objects of pathsFrom that give one file different content are an error, as
// one of them would be lost unseen; so is a file where another needs a folder.
func Files(in v1alpha1.AppFetchInline, lookup Lookup) ([]tool.File, error) {
	set := fileSet{}
	for _, name := range slices.Sorted(maps.Keys(in.Paths)) {
		if err := set.add(name, []byte(in.Paths[name]), "paths", false); err != nil {
			return nil, err
		}
	}
	for _, from := range in.PathsFrom {
		key, dir, err := Source(from)
		if err != nil {
			return nil, err
		}
		data, err := lookup(key)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(data)) {
			if err := localpath.Name(name); err != nil {
				return nil, fmt.Errorf("%s: %w", describe(key), err)
			}
			if err := set.add(dir+"/"+name, data[name], describe(key), true); err != nil {
				return nil, err
			}
		}
	}
	return set.sorted()
}

type entry struct {
	content []byte
	origin  string
	object  bool // from a Secret or ConfigMap
}

type fileSet map[string]entry

func (s fileSet) add(name string, content []byte, origin string, object bool) error {
	clean, err := localpath.Join(name)
	if err != nil {
		return err
	}
	if clean == "." {
		return fmt.Errorf("Invalid path: %q in %s names no file", name, origin)
	}
	old, found := s[clean]
	if found && old.object == object && !bytes.Equal(old.content, content) {
		return fmt.Errorf("Expected each file to come from one source, but '%s' comes from %s and from %s (hint: give them different directoryPath)", clean, old.origin, origin)
	}
	s[clean] = entry{content: content, origin: origin, object: object}
	return nil
}

func (s fileSet) sorted() ([]tool.File, error) {
	var files []tool.File
	for _, name := range slices.Sorted(maps.Keys(s)) {
		for dir := name; ; {
			i := strings.LastIndexByte(dir, '/')
			if i < 0 {
				break
			}
			dir = dir[:i]
			if other, found := s[dir]; found {
				return nil, fmt.Errorf("Expected '%s' to be a folder for '%s' from %s, but it is a file from %s", dir, name, s[name].origin, other.origin)
			}
		}
		files = append(files, tool.File{Path: name, Content: s[name].content})
	}
	return files, nil
}

func describe(key refs.Key) string {
	if key.Kind == refs.ConfigMap {
		return "config map '" + key.Name + "'"
	}
	return "secret '" + key.Name + "'"
}
