package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// reserved keeps this process's port reservations until it ends.
var reserved struct {
	sync.Mutex
	locks []net.Listener
}

// FreePort returns a loopback TCP port that nothing listens on and that no other
// caller on this machine was or will be given while this process lives. It is
// for programs that take a port number rather than a socket.
func FreePort() (int, error) {
	// Below the range that the kernel takes outgoing connections' ports from:
	// such a connection could otherwise sit on the port when it is bound.
	const first, count = 20000, 12000
	for range 1000 {
		port := first + rand.IntN(count)
		lock, err := net.Listen("unix", "@garboard-testenv-port-"+strconv.Itoa(port))
		if err != nil {
			continue // reserved; the kernel drops the name with its process
		}
		probe, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			lock.Close()
			continue
		}
		probe.Close()
		reserved.Lock()
		reserved.locks = append(reserved.locks, lock)
		reserved.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, first+count)
}
