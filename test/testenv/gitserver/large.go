package gitserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// large serves files to git-lfs: its batch API, and the files themselves.
type large struct {
	mu      sync.Mutex // guards content
	content map[string][]byte
}

func (l *large) put(content []byte) (pointer string) {
	sum := sha256.Sum256(content)
	id := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.content == nil {
		l.content = map[string][]byte{}
	}
	l.content[id] = content
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", id, len(content))
}

func (l *large) get(id string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	content, found := l.content[id]
	return content, found
}

// What git-lfs sends and gets.
type (
	batch struct {
		Transfer string        `json:"transfer,omitempty"`
		Objects  []largeObject `json:"objects"`
	}
	largeObject struct {
		ID      string            `json:"oid"`
		Size    int64             `json:"size"`
		Actions map[string]action `json:"actions,omitempty"`
		Error   *objectError      `json:"error,omitempty"`
	}
	action struct {
		Href   string            `json:"href"`
		Header map[string]string `json:"header,omitempty"`
	}
	objectError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
)

// serve answers git-lfs and leaves all else to git.
func (l *large) serve(git http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, id, file := strings.Cut(r.URL.Path, ".git/large/")
		switch {
		case strings.HasSuffix(r.URL.Path, ".git/info/lfs/objects/batch"):
			l.batch(w, r)
		case file:
			content, found := l.get(id)
			if !found {
				http.NotFound(w, r)
				return
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		default:
			git.ServeHTTP(w, r)
		}
	})
}

func (l *large) batch(w http.ResponseWriter, r *http.Request) {
	var b batch
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	b.Transfer = "basic"
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	repo, _, _ := strings.Cut(r.URL.Path, ".git/")
	for i, o := range b.Objects {
		if _, found := l.get(o.ID); !found {
			b.Objects[i].Error = &objectError{http.StatusNotFound, "no such object"}
			continue
		}
		get := action{Href: scheme + "://" + r.Host + repo + ".git/large/" + o.ID}
		if login := r.Header.Get("Authorization"); login != "" {
			get.Header = map[string]string{"Authorization": login}
		}
		b.Objects[i].Actions = map[string]action{"download": get}
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(b) // the client went away
}
