package source

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"golang.org/x/crypto/ssh"
)

// signers are the keys whose signatures count.
type signers struct {
	pgp []string // armored, one block each
	ssh []sshSigner
}

// sshSigner is a line of allowed_signers. The principals in it are not compared with
// anything: whoever has a key in the file may sign.
type sshSigner struct {
	key           ssh.PublicKey
	after, before time.Time // zero: no limit
}

func (s sshSigner) valid(at time.Time) bool {
	return (s.after.IsZero() || !at.Before(s.after)) && (s.before.IsZero() || at.Before(s.before))
}

const (
	pgpBegin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	pgpEnd   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// readSigners reads files of keys. A file without any key is an error.
func readSigners(files []string) (signers, error) {
	var all signers
	for _, file := range files {
		content, err := readSmall(file)
		if err != nil {
			return signers{}, fmt.Errorf("read the keys to verify: %w; correct its path", err)
		}
		s, err := parseSigners(string(content))
		if err != nil {
			return signers{}, fmt.Errorf("read the keys to verify in %s: %w", file, err)
		}
		all.pgp, all.ssh = append(all.pgp, s.pgp...), append(all.ssh, s.ssh...)
	}
	return all, nil
}

func parseSigners(text string) (signers, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return signers{}, errors.New("it holds a private key: write the public key to it, and remove the private one")
	}
	var s signers
	var err error
	if strings.Contains(text, pgpBegin) {
		s.pgp, err = parsePGP(text)
	} else {
		s.ssh, err = parseAllowed(text)
	}
	if err == nil && len(s.pgp)+len(s.ssh) == 0 {
		err = errors.New("it holds no key for git: write an armored OpenPGP public key or lines of allowed_signers to it")
	}
	return s, err
}

func parsePGP(text string) (blocks []string, err error) {
	for {
		begin := strings.Index(text, pgpBegin)
		if begin < 0 {
			return blocks, nil
		}
		size := strings.Index(text[begin:], pgpEnd)
		if size < 0 {
			return nil, errors.New("an OpenPGP key has no end: export it again (gpg --armor --export)")
		}
		block := text[begin:begin+size+len(pgpEnd)] + "\n"
		if _, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block)); err != nil {
			return nil, fmt.Errorf("an OpenPGP key cannot be read: %w; export it again (gpg --armor --export)", err)
		}
		blocks, text = append(blocks, block), text[begin+size+len(pgpEnd):]
	}
}

func parseAllowed(text string) ([]sshSigner, error) {
	var all []sshSigner
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, forGit, err := parseSigner(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if forGit {
			all = append(all, s)
		}
	}
	return all, nil
}

// parseSigner reads "principals [options] type key [comment]", or a line of a .pub
// file, which is the same without principals.
func parseSigner(line string) (s sshSigner, forGit bool, err error) {
	rest := line
	if first, _, _ := strings.Cut(line, " "); !keyType(first) {
		if rest, err = afterPrincipals(line); err != nil {
			return s, false, err
		}
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return s, false, errors.New("it is no line of allowed_signers: write \"name type key\"")
	}
	s.key, forGit = key, true
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			forGit = listed(value, sshNamespace)
		case "valid-after":
			s.after, err = parseTime(value)
		case "valid-before":
			s.before, err = parseTime(value)
		default: // cert-authority too: what it would allow is more than this key
			err = fmt.Errorf("the option %s is not supported: remove it", name)
		}
		if err != nil {
			return s, false, err
		}
	}
	return s, forGit, nil
}

func keyType(word string) bool {
	return strings.HasPrefix(word, "ssh-") || strings.HasPrefix(word, "ecdsa-") || strings.HasPrefix(word, "sk-")
}

// afterPrincipals cuts off the first word, which may be in quotes.
func afterPrincipals(line string) (string, error) {
	if strings.HasPrefix(line, `"`) {
		_, rest, ok := strings.Cut(line[1:], `"`)
		if !ok {
			return "", errors.New("its quotes are not closed: close them")
		}
		return strings.TrimSpace(rest), nil
	}
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return "", errors.New("it is no line of allowed_signers: write \"name type key\"")
	}
	return strings.TrimSpace(line[i:]), nil
}

func listed(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == name || item == "*" {
			return true
		}
	}
	return false
}

// parseTime reads YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, with Z for UTC.
func parseTime(text string) (time.Time, error) {
	zone := time.Local
	digits, utc := strings.CutSuffix(text, "Z")
	if utc {
		zone = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) == len(digits) {
			if t, err := time.ParseInLocation(layout, digits, zone); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("the time %q is not like 20060102 or 20060102150405Z: correct it", text)
}
