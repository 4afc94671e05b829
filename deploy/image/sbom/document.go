package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// document is a CycloneDX 1.5 bill of materials.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// encode writes the document. Its serial number is drawn from what is in it, so
// that the same parts have the same one.
func encode(program component, parts []component, made time.Time) ([]byte, error) {
	d := document{
		Format: "CycloneDX", Spec: "1.5", Version: 1, Components: parts,
		Metadata: metadata{Timestamp: made.Format(time.RFC3339), Component: program},
	}
	needs := dependency{Ref: program.Ref, DependsOn: make([]string, 0, len(parts))}
	for _, p := range parts {
		needs.DependsOn = append(needs.DependsOn, p.Ref)
	}
	d.Dependencies = []dependency{needs}
	content, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the SBOM: %w", err)
	}
	d.Serial = serial(content)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("encode the SBOM: %w", err)
	}
	return out.Bytes(), nil
}

// serial is a UUID of version 8 (RFC 9562) made of a hash.
func serial(content []byte) string {
	h := sha256.Sum256(content)
	h[6] = h[6]&0x0f | 0x80
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
