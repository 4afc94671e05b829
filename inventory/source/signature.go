package source

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// sshNamespace is what git's signatures are made for: one made for anything else
// does not count.
const sshNamespace = "git"

// verify gives the key that signed a commit, if it is one of the signers'. The error
// names the key that it was signed with otherwise.
func (s signers) verify(commit *object.Commit) (string, error) {
	signature := strings.TrimSpace(commit.PGPSignature)
	switch {
	case signature == "":
		return "", errors.New("it is not signed: sign it with one of the keys to verify (git commit -S)")
	case strings.HasPrefix(signature, "-----BEGIN "+sshsig.PEMType):
		return s.verifySSH(commit)
	case strings.HasPrefix(signature, "-----BEGIN PGP"):
		return s.verifyPGP(commit)
	}
	return "", errors.New("its signature is neither of OpenPGP nor of SSH: sign it with one of the keys to verify")
}

func (s signers) verifySSH(commit *object.Commit) (string, error) {
	if strings.Count(commit.PGPSignature, "-----BEGIN") != 1 {
		return "", errors.New("it has several signatures: sign it once")
	}
	signature, err := sshsig.Unarmor([]byte(commit.PGPSignature))
	if err != nil {
		return "", errors.New("its SSH signature cannot be read: sign it again")
	}
	name := ssh.FingerprintSHA256(signature.PublicKey)
	payload, err := signedText(commit)
	if err != nil {
		return "", err
	}
	for _, key := range s.ssh {
		if !bytes.Equal(key.key.Marshal(), signature.PublicKey.Marshal()) || !key.valid(commit.Committer.When) {
			continue
		}
		if err := sshsig.Verify(bytes.NewReader(payload), signature, key.key, signature.HashAlgorithm, sshNamespace); err != nil {
			return "", fmt.Errorf("its signature with the SSH key %s is bad: %w; sign it again", name, err)
		}
		return name, nil
	}
	return "", fmt.Errorf("it is signed with the SSH key %s, which is not among the keys to verify, or was not valid then: add the key if you trust it", name)
}

func (s signers) verifyPGP(commit *object.Commit) (string, error) {
	name := issuer(commit.PGPSignature)
	var last error
	for _, ring := range s.pgp {
		entity, err := commit.Verify(ring)
		if err == nil {
			return hex.EncodeToString(entity.PrimaryKey.Fingerprint), nil
		}
		last = err
	}
	if last == nil {
		last = errors.New("no OpenPGP key is given")
	}
	return "", fmt.Errorf("it is signed with the OpenPGP key %s, which is not among the keys to verify, or not valid (%s): add the key if you trust it", name, clean(last.Error(), nil))
}

// issuer names the key that an OpenPGP signature says it was made with.
func issuer(signature string) string {
	const unknown = "of an unknown name"
	block, err := armor.Decode(strings.NewReader(signature))
	if err != nil {
		return unknown
	}
	p, err := packet.Read(block.Body)
	if err != nil {
		return unknown
	}
	s, ok := p.(*packet.Signature)
	switch {
	case ok && len(s.IssuerFingerprint) > 0:
		return hex.EncodeToString(s.IssuerFingerprint)
	case ok && s.IssuerKeyId != nil:
		return fmt.Sprintf("%016x", *s.IssuerKeyId)
	}
	return unknown
}

// signedText is the commit without its signature.
func signedText(commit *object.Commit) ([]byte, error) {
	o := &plumbing.MemoryObject{}
	if err := commit.EncodeWithoutSignature(o); err != nil {
		return nil, fmt.Errorf("its text cannot be read: %w; make a new commit", err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	var text bytes.Buffer
	_, err = text.ReadFrom(r)
	return text.Bytes(), err
}
