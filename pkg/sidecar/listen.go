package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// socketMode lets the controller in where it has another user but the same group.
const socketMode = 0o660

// listen opens the socket. It takes the place of a dead socket, which a killed
// sidecar leaves, but of nothing else.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := removeDead(ctx, path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

func removeDead(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at socket: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("socket %s is a symbolic link; it was left as it is", path)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("socket %s exists and is no socket; it was left as it is", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("socket %s is in use: another process listens on it", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("socket %s may be in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove dead socket: %w", err)
	}
	return nil
}
