package main

import (
	"debug/buildinfo"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
)

// component is one part, as CycloneDX has it.
type component struct {
	Type    string     `json:"type"`
	Ref     string     `json:"bom-ref"`
	Name    string     `json:"name"`
	Version string     `json:"version,omitempty"`
	PURL    string     `json:"purl,omitempty"`
	From    []property `json:"properties,omitempty"`
}

// property is a fact that the format has no field for.
type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// modules are the program itself, and what the linker says that it consists of.
func modules(file, version string) (component, []component, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return component{}, nil, fmt.Errorf("read what %s was built from: %w; name a program that Go built", file, err)
	}
	if version == "" {
		version = info.Main.Version
	}
	program := golang("application", info.Main.Path, version)
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{golang("library", "stdlib", toolchain)}
	for _, m := range info.Deps {
		parts = append(parts, module(m))
	}
	return program, parts, nil
}

// module is what was linked in fact: the replacement, where there is one.
func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	c := golang("library", m.Path, m.Version)
	if m.Sum != "" {
		c.From = []property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}

func golang(kind, path, version string) component {
	purl := "pkg:golang/" + escape(path) + "@" + url.PathEscape(version)
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}

// escape keeps the slashes of a path.
func escape(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// fromSource reads NAME@COMMIT=URL.
func fromSource(s string) (component, error) {
	what, from, found := strings.Cut(s, "=")
	name, commit, versioned := strings.Cut(what, "@")
	if !found || !versioned || name == "" || commit == "" || from == "" {
		return component{}, fmt.Errorf("-source %s: write it as NAME@COMMIT=URL", s)
	}
	purl := "pkg:generic/" + url.PathEscape(name) + "@" + url.PathEscape(commit) + "?vcs_url=" + url.QueryEscape("git+"+from+"@"+commit)
	return component{Type: "firmware", Ref: purl, Name: name, Version: commit, PURL: purl}, nil
}

// debian reads the installed packages out of dpkg's status.
func debian(status, distribution string) []component {
	var packages []component
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		field := fields(paragraph)
		if field["Package"] == "" || !strings.HasSuffix(field["Status"], " installed") {
			continue
		}
		purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", url.PathEscape(field["Package"]), url.PathEscape(field["Version"]), field["Architecture"])
		if distribution != "" {
			purl += "&distro=" + distribution
		}
		packages = append(packages, component{Type: "library", Ref: purl, Name: field["Package"], Version: field["Version"], PURL: purl})
	}
	return packages
}

// fields are those of one paragraph; continued lines are of no interest here.
func fields(paragraph string) map[string]string {
	found := map[string]string{}
	for line := range strings.SplitSeq(paragraph, "\n") {
		name, value, ok := strings.Cut(line, ":")
		if ok && !strings.HasPrefix(line, " ") {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found
}

// codename is the one of an os-release file; "" when it has none.
func codename(release string) string {
	for line := range strings.SplitSeq(release, "\n") {
		if value, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
