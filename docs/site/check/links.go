package main

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
)

// entrances are pages that nobody needs to link to.
var entrances = []string{"index.html", "404.html"}

// check says everything that is wrong with the site.
func (s *site) check() (found []problem) {
	for name, p := range s.pages {
		for _, text := range p.problems {
			found = append(found, problemf(name, "%s", text))
		}
		for _, image := range p.noText {
			found = append(found, problemf(name, "the image %s has no text for those who do not see it", image))
		}
		found = append(found, s.checkLinks(name, p)...)
		found = append(found, s.checkFetched(name, p.fetched)...)
	}
	for name, text := range s.styles {
		found = append(found, s.checkStyle(name, text)...)
	}
	return append(found, s.orphans()...)
}

func (s *site) checkLinks(name string, p *page) (found []problem) {
	for _, link := range p.links {
		file, anchor, outside, err := resolve(name, link)
		switch {
		case err != nil:
			found = append(found, problemf(name, "link %s: %v", link, err))
		case outside:
			s.external++
			if u, err := url.Parse(link); err == nil && u.Host != "" {
				s.linked[u.Host] = true
			}
		case !s.files[file]:
			found = append(found, problemf(name, "link %s: there is no %s", link, file))
		case anchor != "" && s.pages[file] != nil && !s.pages[file].ids[anchor]:
			found = append(found, problemf(name, "link %s: %s has no anchor %s", link, file, anchor))
		}
	}
	return found
}

// checkFetched says what a browser would not find, or would ask another host for.
func (s *site) checkFetched(name string, targets []string) (found []problem) {
	for _, target := range targets {
		file, _, outside, err := resolve(name, target)
		u, parseErr := url.Parse(target)
		switch {
		case parseErr == nil && u.Scheme == "data":
		case err != nil, outside:
			found = append(found, problemf(name, "it fetches %s from elsewhere: put the file beside the page", target))
		case !s.files[file]:
			found = append(found, problemf(name, "it needs %s, and there is no %s", target, file))
		}
	}
	return found
}

// fetchedByStyle is what a style sheet has a browser load.
var fetchedByStyle = regexp.MustCompile(`(?:url\(\s*|@import\s+)["']?([^"')\s;]+)`)

func (s *site) checkStyle(name, text string) []problem {
	matches := fetchedByStyle.FindAllStringSubmatch(text, -1)
	targets := make([]string, 0, len(matches))
	for _, match := range matches {
		targets = append(targets, match[1])
	}
	return s.checkFetched(name, targets)
}

// orphans are pages that no way from the first page leads to.
func (s *site) orphans() (found []problem) {
	reached := map[string]bool{}
	next := slices.Clone(entrances)
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if reached[name] || s.pages[name] == nil {
			continue
		}
		reached[name] = true
		for _, link := range s.pages[name].links {
			if file, _, outside, err := resolve(name, link); err == nil && !outside {
				next = append(next, file)
			}
		}
	}
	for name := range s.pages {
		if !reached[name] {
			found = append(found, problemf(name, "no page leads here: add it to nav in mkdocs.yml, or link to it"))
		}
	}
	return found
}

// hosts are those that pages link to, after check.
func (s *site) hosts() []string { return slices.Sorted(maps.Keys(s.linked)) }
