package kapp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A closed fence refuses new requests, ends reads, and lets a write finish.
func TestFence(t *testing.T) {
	arrived, finish := make(chan string, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		// The server notices that a client is gone once the body was read.
		_, _ = io.Copy(io.Discard, req.Body)
		arrived <- req.Method
		if req.Method == http.MethodPost {
			<-finish
			return
		}
		<-req.Context().Done()
	}))
	defer server.Close()
	f := newFence(http.DefaultTransport)
	client := &http.Client{Transport: f}
	send := func(method string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, string(body), err
	}
	wrote, read := make(chan int, 1), make(chan error, 1)
	go func() { code, _, _ := send(http.MethodPost); wrote <- code }()
	go func() { _, _, err := send(http.MethodGet); read <- err }()
	<-arrived
	<-arrived

	f.Close()
	f.Close()
	if err := <-read; err == nil {
		t.Error("the read went on")
	}
	select {
	case <-f.Idle():
		t.Error("idle before the write ended")
	default:
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if code, body, err := send(method); err != nil || code != http.StatusForbidden || !strings.Contains(body, `"reason":"Forbidden"`) {
			t.Errorf("%s: %d %s %v", method, code, body, err)
		}
	}
	close(finish)
	if code := <-wrote; code != http.StatusOK {
		t.Errorf("the write ended with %d", code)
	}
	<-f.Idle()
}
