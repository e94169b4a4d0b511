package gitserver

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Commit makes files the whole content of the branch main, creates the
// repository when it is not there, and returns the commit's hash.
func (s *Server) Commit(ctx context.Context, repo string, files fs.FS, message string) (string, error) {
	bare := filepath.Join(s.dir, repo+".git")
	if _, err := os.Stat(bare); err != nil {
		if _, err := s.git(ctx, "init", "--quiet", "--bare", "--initial-branch=main", bare); err != nil {
			return "", err
		}
	}
	work, err := os.MkdirTemp("", "")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, files); err != nil {
		return "", fmt.Errorf("commit to %s: %w", repo, err)
	}
	in := []string{"--git-dir=" + bare, "--work-tree=" + work}
	if _, err := s.git(ctx, append(in, "add", "--all", "--force", ".")...); err != nil {
		return "", err
	}
	if _, err := s.git(ctx, append(in, "commit", "--quiet", "--allow-empty", "--message="+message)...); err != nil {
		return "", err
	}
	return s.git(ctx, append(in, "rev-parse", "HEAD")...)
}

// AddSubmodule commits a link to a commit of another repository, at a path that the
// repository's .gitmodules names, and returns the new commit's hash.
func (s *Server) AddSubmodule(ctx context.Context, repo, path, commit string) (string, error) {
	in := []string{"--git-dir=" + filepath.Join(s.dir, repo+".git"), "--work-tree=" + s.dir}
	if _, err := s.git(ctx, append(in, "update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)...); err != nil {
		return "", err
	}
	if _, err := s.git(ctx, append(in, "commit", "--quiet", "--message=add submodule "+path)...); err != nil {
		return "", err
	}
	return s.git(ctx, append(in, "rev-parse", "HEAD")...)
}

// Tag gives a commit of a repository a tag; an annotated one when it has a message.
func (s *Server) Tag(ctx context.Context, repo, tag, commit, message string) error {
	args := []string{"--git-dir=" + filepath.Join(s.dir, repo+".git"), "tag", "--force"}
	if message != "" {
		args = append(args, "--annotate", "--message="+message)
	}
	_, err := s.git(ctx, append(args, tag, commit)...)
	return err
}

// Branch lets a branch end at a commit of a repository.
func (s *Server) Branch(ctx context.Context, repo, branch, commit string) error {
	_, err := s.git(ctx, "--git-dir="+filepath.Join(s.dir, repo+".git"), "update-ref", "refs/heads/"+branch, commit)
	return err
}

func (s *Server) git(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.dir
	cmd.Env = append(gitEnv(s.dir),
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
