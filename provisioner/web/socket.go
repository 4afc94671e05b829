package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is what Linux can address: 108 bytes with the NUL.
	maxSocketPath = 107
	// socketPatience bounds the question whether somebody answers on a socket.
	socketPatience = time.Second
)

// checkSocketPath says what to do about a path that no socket can have.
func checkSocketPath(path string) error {
	if len(path) <= maxSocketPath {
		return nil
	}
	return fmt.Errorf("the socket's path %s has %d bytes, and a socket can have %d: give a state folder with a shorter name", path, len(path), maxSocketPath)
}

// listenSocket opens the socket for its owner alone. A file that a killed daemon
// left is removed; one on which somebody answers, or that is no socket, is not.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the socket %s: %w; give another place", path, err)
	}
	if err := checkSocketFolder(folder); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(ctx, folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the socket %s: %w; give a place that this user can write to", path, err)
	}
	// Until here the umask decides; whoever gets in earlier is asked for the user's id all the same.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("keep the socket %s to its owner: %w", path, err), listener.Close())
	}
	return listener, nil
}

// checkSocketFolder refuses a folder where others could put a socket of theirs in the place of ours.
func checkSocketFolder(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return fmt.Errorf("look at the folder of the socket: %w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("the folder %s of the socket can be written by others (%s): `chmod 700` it, or give another place", folder, mode)
	}
	return nil
}

// lockFolder lets one process at a time look for a stale socket, so that none
// removes what another has just opened.
func lockFolder(ctx context.Context, folder string) (unlock func(), err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the socket: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = dir.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock the folder %s of the socket: %w", folder, err), dir.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock the folder %s of the socket: another process holds it; see `fuser %s`", folder, folder), dir.Close())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// clearSocket removes a socket on which nobody answers.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for an old socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is in the way of the socket and is no socket: move it aside", path)
	}
	dialer := net.Dialer{Timeout: socketPatience}
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("a daemon answers on the socket %s already: stop it first, or give this one another state", path)
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("ask whether a daemon answers on the socket %s: %w; stop it first, or remove the file if there is none", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket that a killed daemon left: %w; remove it by hand", err)
	}
	return nil
}
