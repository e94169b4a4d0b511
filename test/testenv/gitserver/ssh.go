package gitserver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

type keys struct {
	host, client ssh.Signer
	clientPEM    []byte
}

func newKeys() (k keys, err error) {
	if k.host, _, err = newKey(); err != nil {
		return k, err
	}
	k.client, k.clientPEM, err = newKey()
	return k, err
}

func newKey() (ssh.Signer, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	return signer, pem.EncodeToMemory(block), err
}

// sshServer runs git-upload-pack for whoever has the client key.
type sshServer struct {
	dir      string
	config   *ssh.ServerConfig
	listener net.Listener
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

func startSSH(dir string, k keys) (*sshServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start SSH server: %w", err)
	}
	allowed := k.client.PublicKey().Marshal()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), allowed) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(k.host)
	s := &sshServer{dir: dir, config: config, listener: l}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { s.accept(ctx) })
	return s, nil
}

func (s *sshServer) addr() string { return s.listener.Addr().String() }

func (s *sshServer) knownHosts(key ssh.PublicKey) string {
	return knownhosts.Line([]string{s.addr()}, key)
}

func (s *sshServer) close() {
	s.cancel()
	_ = s.listener.Close()
	s.wg.Wait()
}

func (s *sshServer) accept(ctx context.Context) {
	for {
		conn, err := s.listener.Accept()
		if err != nil { // closed
			return
		}
		s.wg.Go(func() { s.serve(ctx, conn) })
	}
}

func (s *sshServer) serve(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	sc, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil { // the client has a wrong key or does not trust ours
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(requests) // ends with the connection
	for ch := range channels {
		if ch.ChannelType() != "session" {
			_ = ch.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		session, requests, err := ch.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.session(ctx, session, requests) })
	}
}

// session runs the one command of a session.
func (s *sshServer) session(ctx context.Context, ch ssh.Channel, requests <-chan *ssh.Request) {
	defer ch.Close()
	for req := range requests {
		if req.Type != "exec" {
			// git sends "env" with its protocol version; it works without.
			_ = req.Reply(req.Type == "env", nil)
			continue
		}
		var command struct{ Line string }
		if err := ssh.Unmarshal(req.Payload, &command); err != nil {
			_ = req.Reply(false, nil)
			return
		}
		_ = req.Reply(true, nil)
		status := struct{ Code uint32 }{s.uploadPack(ctx, command.Line, ch)}
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

// uploadPack runs the only command that is served and returns its exit code.
func (s *sshServer) uploadPack(ctx context.Context, line string, ch ssh.Channel) uint32 {
	repo, ok := strings.CutPrefix(line, "git-upload-pack ")
	repo = filepath.Clean("/" + strings.Trim(repo, "'"))
	if !ok {
		fmt.Fprintf(ch.Stderr(), "%q is not served\n", line)
		return 128
	}
	cmd := exec.CommandContext(ctx, "git", "upload-pack", filepath.Join(s.dir, repo))
	cmd.Env = gitEnv(s.dir)
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 128
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 128
	}
	// Not cmd.Stdin: Wait would wait for the client to close its side, and the
	// client waits for the exit status.
	go func() {
		defer stdin.Close()
		_, _ = io.Copy(stdin, ch) // ends when the session does
	}()
	_ = cmd.Wait()
	return uint32(cmd.ProcessState.ExitCode())
}
