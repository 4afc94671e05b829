package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A secret has 24 to 64 bytes, as the Standard Webhooks specification wants it
// (https://www.standardwebhooks.com).
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// parseSecret reads a secret. No error holds it.
func parseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("the secret does not begin with whsec_: make one by `echo whsec_$(openssl rand -base64 32)`")
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("the secret is not %d to %d bytes in base64 behind whsec_: make one by `echo whsec_$(openssl rand -base64 32)`", minSecret, maxSecret)
	}
	return key, nil
}

// sign puts id, time and signature on a request: who has the key knows that it is from
// us, what it says, and when it was sent.
func sign(h http.Header, key []byte, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	if key == nil {
		return
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
