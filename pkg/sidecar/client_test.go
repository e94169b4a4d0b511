//go:build linux

package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/garboard-dev/garboard/pkg/sidecar"
	"github.com/garboard-dev/garboard/pkg/tool"
	"github.com/garboard-dev/garboard/test/poll"
)

func TestOtherVersion(t *testing.T) {
	r := start(t)
	r.open(t, "") // it serves now
	c, err := rpc.Dial("unix", r.opts.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Call("Sidecar.Hello", &sidecar.HelloRequest{Version: 99}, &sidecar.HelloReply{})
	want := fmt.Sprintf("the controller speaks protocol version 99 and the sidecar %d: both must run the same image", sidecar.Version)
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestNoSidecar(t *testing.T) {
	cause := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	c := sidecar.NewClient(filepath.Join(t.TempDir(), "s"))
	if _, err := c.Open(ctx, ""); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

// TestSidecarComesLater: the first call waits for a sidecar that starts meanwhile.
func TestSidecarComesLater(t *testing.T) {
	dir := t.TempDir()
	o := sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}
	answered := make(chan error, 1)
	go func() {
		_, err := sidecar.NewClient(o.Socket).Instance(t.Context())
		answered <- err
	}()
	spawn(t, o)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestManyAtOnce uses one client from many goroutines.
func TestManyAtOnce(t *testing.T) {
	r := start(t)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			w, err := r.Open(t.Context(), fmt.Sprint("owner-", i%4))
			if err != nil {
				t.Error(err)
				return
			}
			want := strings.Repeat(fmt.Sprint(i), 1000)
			put := []tool.File{{Path: "src/f", Content: []byte(want)}}
			if err := w.Put(t.Context(), put); err != nil {
				t.Error(err)
			}
			for range 4 {
				res, err := w.Run(t.Context(), command("vendir", "cat src/f", fmt.Sprint("exit ", i)))
				if err != nil || string(res.Stdout) != want || res.ExitCode != i {
					t.Errorf("%d: exit code %d, %d bytes, %v", i, res.ExitCode, len(res.Stdout), err)
				}
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.workspaces(t); n != 0 {
		t.Errorf("%d workspaces left", n)
	}
}

// TestLockedFolders: a tool cannot keep its files by taking rights away. With root
// this shows little; the rights matter for all others.
func TestLockedFolders(t *testing.T) {
	r := start(t)
	w := r.open(t, "")
	_, err := w.Run(t.Context(), command("vendir", "mkdir src/a 700", "mkdir src/a/b 700", "write src/a/b/f x", "chmod src/a/b 0", "chmod src/a 500"))
	if want := "vendir was ended: it made a folder that cannot be looked into"; os.Getuid() != 0 && (err == nil || err.Error() != want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.workspaces(t); n != 0 {
		t.Errorf("%d workspaces left", n)
	}
}

func BenchmarkReconcile(b *testing.B) {
	dir := b.TempDir()
	o := sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sidecar.Serve(ctx, quiet(o)); err != nil {
			b.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	c := sidecar.NewClient(o.Socket)
	for _, runs := range []int{0, 1, 2} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w, err := c.Open(ctx, "owner")
				if err != nil {
					b.Fatal(err)
				}
				if err := w.Put(ctx, []tool.File{{Path: "src/0/a.yml", Content: []byte("a: 1\n")}}); err != nil {
					b.Fatal(err)
				}
				for range runs {
					if _, err := w.Run(ctx, command("ytt", "exit 0")); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	o := sidecar.ServerOptions{Socket: filepath.Join(dir, "sock"), WorkDir: filepath.Join(dir, "work"), ToolDir: toolDir, MaxMemory: anyMemory}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sidecar.Serve(ctx, quiet(o)); err != nil {
			panic(err)
		}
	})
	defer wg.Wait()
	defer stop()

	client := sidecar.NewClient(o.Socket)
	w, err := client.Open(ctx, "uid-of-an-app")
	if err != nil {
		panic(err)
	}
	defer w.Close(ctx)
	fmt.Println(w.Put(ctx, []tool.File{{Path: "src/config.yml", Content: []byte("a: 1\n")}}))
	// The ytt of this example does what is on its standard input.
	res, err := w.Run(ctx, tool.Command{Name: "ytt", Args: []string{"-f", "src/config.yml"}, Stdin: []byte("cat src/config.yml")})
	fmt.Printf("%s%v\n", res.Stdout, err)
	_, err = w.Run(ctx, tool.Command{Name: "sh"})
	fmt.Println(err)
	// Output:
	// <nil>
	// a: 1
	// <nil>
	// Internal run comm: Command 'sh' is not allowed
}

// TestOpenGivenUp: a workspace that a sidecar makes after its caller gave up is
// removed, as nobody knows it.
func TestOpenGivenUp(t *testing.T) {
	dir := t.TempDir()
	r := &rig{opts: sidecar.ServerOptions{Socket: filepath.Join(dir, "s"), WorkDir: filepath.Join(dir, "w"), ToolDir: toolDir, MaxMemory: anyMemory}}
	r.Client = sidecar.NewClient(r.opts.Socket)
	server := spawn(t, r.opts)
	if _, err := r.Instance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Open(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	if err := server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.open(t, "") // requests are served in their order
	poll.Until(t, "one workspace", func() bool { return r.workspaces(t) == 1 })
}
